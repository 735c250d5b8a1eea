package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/spillway-io/spillway/offload/sim"
)

// column is one figure of the tables.
type column struct {
	key, head string
	get       func(simRun) float64
	show      func(float64) string
}

var columns = []column{
	{"saving", "net saving, %", saving, func(v float64) string { return number(100*v, 1) }},
	{"faults", "major faults/min", faults, func(v float64) string { return number(v, 0) }},
	{"mean", "mean slowdown", func(r simRun) float64 { return r.Mean }, func(v float64) string { return number(v, 3) }},
	{"p99", "p99 slowdown", func(r simRun) float64 { return r.P99 }, func(v float64) string { return number(v, 3) }},
	{"counted", "PSI counted", func(r simRun) float64 { return r.Counted }, func(v float64) string { return number(v, 2) }},
	{"written", "device writes, MB/h", func(r simRun) float64 { return r.Written }, func(v float64) string { return number(v, 1) }},
	{"accuracy", "reclaim accuracy", func(r simRun) float64 { return r.Accuracy }, func(v float64) string { return number(v, 3) }},
}

// number prints v with so many digits after the point, and – where there is none.
func number(v float64, digits int) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf("%.*f", digits, v)
}

// markdown is the section for docs/bench/offload.md, and every cell below it.
func (x *simulation) markdown(seeds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### All laws in simulation\n\n`make bench-offload GOAL=SIM`, commit %s: %d workloads, %d seed(s), each law as published (a decision every\n"+
		"%g s, defaults), %g h of simulated time of which the last half counts; DRAM pool of 128 MiB (15 µs) over an SSD (100 µs). A major fault is\n"+
		"a page that came back, also through a file descriptor. The oracle is the smallest static size at which mean and p99 are at\n"+
		"most %.0f %% longer. composite and gswap are given exact idle ages, a scan every 2 minutes, and in the rows \"no ages\" none.\n"+
		"Medians of the workloads of their medians over seeds:\n\n",
		commit(), len(x.workloads), seeds, simPeriod.Seconds(), simSpan.Hours(), 100*(simBound-1))
	for _, m := range simModels {
		row(&b, append([]string{"law, " + m.String()}, heads()...))
		rule(&b, len(columns)+1)
		for _, law := range x.laws {
			cells := []string{law}
			for _, col := range columns {
				cells = append(cells, col.show(x.typical(law, m, col.get)))
			}
			row(&b, cells)
		}
		b.WriteString("\n")
	}
	x.matrix(&b)
	x.coldStart(&b)
	x.promotionTable(&b)
	b.WriteString("\n### Every cell\n\n")
	row(&b, append([]string{"reclaim", "workload", "law"}, heads()...))
	rule(&b, len(columns)+3)
	for _, m := range simModels {
		for _, w := range x.workloads {
			for _, law := range x.laws {
				cells := []string{m.String(), w, law}
				for _, col := range columns {
					cells = append(cells, col.show(x.over(cell{law, w, m}, col.get)))
				}
				row(&b, cells)
			}
		}
	}
	return b.String()
}

func heads() (out []string) {
	for _, c := range columns {
		out = append(out, c.head)
	}
	return out
}

func row(b *strings.Builder, cells []string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }

func rule(b *strings.Builder, n int) { b.WriteString("|" + strings.Repeat("---|", n) + "\n") }

// matrix shows where each law wins: saving and faults by workload.
func (x *simulation) matrix(b *strings.Builder) {
	b.WriteString("Net saving in % / major faults a minute:\n\n")
	for _, m := range simModels {
		row(b, append([]string{"workload, " + m.String()}, x.laws[1:]...))
		rule(b, len(x.laws))
		for _, w := range x.workloads {
			cells := []string{w}
			for _, law := range x.laws[1:] {
				c := cell{law, w, m}
				cells = append(cells, number(100*x.over(c, saving), 0)+" / "+number(x.over(c, faults), 0))
			}
			row(b, cells)
		}
		b.WriteString("\n")
	}
}

// coldStart answers what a new job saves before anything is known of it.
func (x *simulation) coldStart(b *strings.Builder) {
	b.WriteString("Cold start: net saving of a new job in %, median of the workloads, mean of the first 10 minutes / at 30 / at 60 minutes,\n" +
		"and pages that came back a minute in the first hour:\n\n")
	row(b, []string{"law", sim.Classic.String(), "back/min", sim.MGLRU.String(), "back/min"})
	rule(b, 5)
	for _, law := range x.laws[1 : len(x.laws)-1] {
		cells := []string{law}
		for _, m := range simModels {
			text := ""
			for i := range 3 {
				text += " / " + number(100*x.typical(law, m, func(r simRun) float64 { return r.Early[i] }), 1)
			}
			cells = append(cells, strings.TrimPrefix(text, " / "), number(x.typical(law, m, func(r simRun) float64 { return r.FirstHour }), 0))
		}
		row(b, cells)
	}
	b.WriteString("\n")
}

func (x *simulation) promotionTable(b *strings.Builder) {
	fmt.Fprintf(b, "Does the promotion rate predict the slowdown? A store of 400 MiB, 300 reads/s with Zipf over all of it, no pool, the\n"+
		"disk at %s (p99 %s, fast) or %s (p99 %s, throttled); each law at %d targets:\n\n",
		fastDisk.P50, fastDisk.P99, slowDisk.P50, slowDisk.P99, len(tmoTargets))
	row(b, []string{"reclaim", "law and target", "disk", "net saving, %", "promotions, % of the working set/min", "memory PSI, % of time", "io PSI, %", "mean slowdown"})
	rule(b, 8)
	for _, p := range x.promotion {
		row(b, []string{
			p.model.String(), fmt.Sprintf("%s %.3g %%", p.law, 100*p.target), p.disk, number(100*p.saving, 1), number(100*p.rate, 3),
			number(100*p.psi, 3), number(100*p.io, 3), number(p.slow, 4),
		})
	}
	b.WriteString("\n")
	for _, m := range simModels {
		fmt.Fprintf(b, "%s: rank correlation with the mean slowdown over both disks: promotion rate %.2f, memory PSI %.2f, io PSI %.2f\n"+
			"(the last nearly by construction: here a request is slow because it waits for the disk, and for nothing else).\n\n",
			m, x.predict(m, promotionRate), x.predict(m, memoryPSI), x.predict(m, ioPSI))
	}
}
