package main

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/spillway-io/spillway/bench/workloads"
	"github.com/spillway-io/spillway/offload/sim"
)

// lawColors are told apart also by those who do not see red and green (the Okabe-Ito palette); the shape repeats it.
var lawColors = []color.RGBA{
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0xcc, 0x79, 0xa7, 0xff}, {0x00, 0x9e, 0x73, 0xff},
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x00, 0x00, 0xff},
}

var lawShapes = []draw.GlyphDrawer{
	draw.TriangleGlyph{}, draw.SquareGlyph{}, draw.PyramidGlyph{}, draw.CircleGlyph{}, draw.BoxGlyph{}, draw.RingGlyph{}, draw.CrossGlyph{},
}

// styles gives each law of names a colour and a shape; one without its ages has the colour of the one with them, and a
// plus.
func styles(names []string) map[string]draw.GlyphStyle {
	out := map[string]draw.GlyphStyle{}
	next := 0
	for _, law := range names {
		if law == workloads.Off {
			continue
		}
		base, without := strings.CutSuffix(law, noAges)
		if s, ok := out[base]; ok && without {
			s.Shape = draw.PlusGlyph{}
			out[law] = s
			continue
		}
		out[law] = draw.GlyphStyle{Color: lawColors[next%len(lawColors)], Radius: 3.5, Shape: lawShapes[next%len(lawShapes)]}
		next++
	}
	return out
}

// fewest is where the logarithmic axis begins: less than one page in ten minutes counts as that.
const fewest = 0.1

// chart draws saving against faults, a panel for each reclaim, a point for each law and workload.
func (x *simulation) chart(path string) error {
	const width, height, beside = 28 * vg.Centimeter, 11 * vg.Centimeter, 4 * vg.Centimeter
	names := plot.NewLegend()
	names.Top = true
	canvas := vgsvg.New(width, height)
	all := draw.New(canvas)
	const edge = 2 * vg.Millimeter
	tiles := draw.Tiles{Rows: 1, Cols: len(simModels), PadX: vg.Centimeter / 2}
	for i, m := range simModels {
		p, series, err := x.panel(m)
		if err != nil {
			return fmt.Errorf("sim: draw %s: %w", m, err)
		}
		p.Draw(tiles.At(draw.Crop(all, edge, -beside, edge, -edge), i, 0))
		for _, s := range series {
			if i == 0 {
				names.Add(s.law, s.Scatter)
			}
		}
	}
	names.Draw(draw.Crop(all, width-beside, -edge, edge, -vg.Centimeter))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err = canvas.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// decades are the labels of the logarithmic axis; with more of them they run into each other.
var decades = plot.ConstantTicks{
	{Value: 0.1, Label: "0.1"}, {Value: 1, Label: "1"}, {Value: 10, Label: "10"}, {Value: 100, Label: "100"},
	{Value: 1000, Label: "1k"}, {Value: 1e4, Label: "10k"}, {Value: 1e5, Label: "100k"},
}

// lawSeries is one law's points.
type lawSeries struct {
	law string
	*plotter.Scatter
}

func (x *simulation) panel(m sim.Reclaim) (*plot.Plot, []lawSeries, error) {
	p := plot.New()
	p.Title.Text = "simulated, " + m.String()
	p.X.Label.Text = "major faults (pages/min, 0.1 and fewer at 0.1)"
	p.Y.Label.Text = "net saving (% of the workload)"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades
	p.Add(plotter.NewGrid())
	var series []lawSeries
	style := styles(x.laws)
	for _, law := range x.laws {
		if law == workloads.Off {
			continue
		}
		pts := make(plotter.XYs, 0, len(x.workloads))
		for _, w := range x.workloads {
			c := cell{law, w, m}
			pts = append(pts, plotter.XY{X: math.Max(fewest, x.over(c, faults)), Y: 100 * x.over(c, saving)})
		}
		s, err := plotter.NewScatter(pts)
		if err != nil {
			return nil, nil, err
		}
		s.GlyphStyle = style[law]
		p.Add(s)
		series = append(series, lawSeries{law, s})
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = fewest/1.5, 1e5, -5, 100 // adding series has widened them
	return p, series, nil
}
