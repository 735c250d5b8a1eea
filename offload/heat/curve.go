package heat

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// WorkingSetIdle is how recently a page of the working set was touched: the scan period of g-swap (ASPLOS 2019,
// section 3), so that working sets of different sources compare.
const WorkingSetIdle = 120 * time.Second

// Marks are the ages at which people read the cold curve. New slice each time.
func Marks() []time.Duration {
	return []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 60 * time.Minute}
}

// Point is one point of the cold curve: Bytes were not touched for at least Idle. Known is false where nobody has
// watched for that long; Bytes is then what is known anyway, often 0.
type Point struct {
	Idle  time.Duration
	Bytes int64
	Known bool
}

// Curve is the cold curve at Marks.
func (r Reading) Curve() []Point {
	out := make([]Point, 0, len(Marks()))
	for _, m := range Marks() {
		out = append(out, Point{Idle: m, Bytes: r.Cold.Colder(m), Known: r.Span >= m})
	}
	return out
}

// settle completes r with what follows from its histogram.
func (r Reading) settle() Reading {
	r.WorkingSet = max(r.Cold.Total()-r.Cold.Colder(WorkingSetIdle), 0)
	return r
}

// Merge adds histograms of different memory, such as the nodes of one cgroup.
func Merge(hs ...Histogram) Histogram {
	var all Histogram
	for _, h := range hs {
		all = append(all, h...)
	}
	slices.SortStableFunc(all, func(a, b Age) int { return cmp.Compare(a.Idle, b.Idle) })
	out := all[:0]
	for _, a := range all {
		a.Idle, a.Bytes = max(a.Idle, 0), max(a.Bytes, 0)
		if n := len(out); n > 0 && out[n-1].Idle == a.Idle {
			out[n-1].Bytes = add(out[n-1].Bytes, a.Bytes)
			continue
		}
		out = append(out, a)
	}
	return out
}

// MergeReadings adds readings of different memory made by one source at one time; Span is the shortest of them,
// Scan the longest.
func MergeReadings(rs ...Reading) Reading {
	if len(rs) == 0 {
		return Reading{}
	}
	out := rs[0]
	cold, promo := make([]Histogram, 0, len(rs)), make([]Histogram, 0, len(rs))
	for _, r := range rs {
		out.Span, out.Scan = min(out.Span, r.Span), max(out.Scan, r.Scan)
		cold, promo = append(cold, r.Cold), append(promo, r.Promo)
	}
	out.Cold, out.Promo = Merge(cold...), nil
	if !slices.ContainsFunc(promo, func(h Histogram) bool { return h == nil }) {
		out.Promo = append(Histogram{}, Merge(promo...)...) // not nil: it sees promotions, even when there are none
	}
	return out.settle()
}

// layers turns a cumulative curve, points of "at least this idle" in any order, into the histogram of total bytes.
// A later point never has more than an earlier one, so what contradicts is the smaller figure.
func layers(total int64, points []Age) Histogram {
	slices.SortStableFunc(points, func(a, b Age) int { return cmp.Compare(a.Idle, b.Idle) })
	out := Histogram{{Bytes: max(total, 0)}}
	for _, p := range points {
		last := &out[len(out)-1]
		n := min(max(p.Bytes, 0), last.Bytes)
		if p.Idle <= last.Idle {
			if last.Idle == p.Idle && len(out) > 1 { // two figures for one age
				out[len(out)-2].Bytes = add(out[len(out)-2].Bytes, last.Bytes-n)
				last.Bytes = n
			}
			continue
		}
		last.Bytes -= n
		out = append(out, Age{Idle: p.Idle, Bytes: n})
	}
	return out
}

// tidy rounds an age to the nearest sixteenth of a scan: scans are some milliseconds late, and 119.98 s must not
// fall short of two minutes.
func tidy(age, scan time.Duration) time.Duration {
	if age <= 0 {
		return 0
	}
	if grain := scan / 16; grain > 0 {
		return age.Round(grain)
	}
	return age
}

// perMinute scales what was counted over d to a minute.
func perMinute(n int64, d time.Duration) int64 {
	if n <= 0 || d <= 0 {
		return 0
	}
	f := float64(n) * (float64(time.Minute) / float64(d))
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(f)
}

// add is a+b of two amounts that are not negative, as far as an int64 goes.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
