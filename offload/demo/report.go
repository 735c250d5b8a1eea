package demo

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spillway-io/spillway/internal/cli"
)

// printResult writes the tables. Every line fits 80 columns.
func printResult(w io.Writer, res *Result) {
	fmt.Fprintf(w, "\n%s\nlaw %s; time is compressed: a decision every %.0f s instead of every 6 s,\na full step is 1 %% of the memory\n\n",
		cli.Escape(res.Machine), res.Law, res.Period)
	t := cli.NewTable("HALF", "SERVER", "CLASS", ">MEMORY MB", ">SAVED", ">p50 µs", ">p99 µs", ">READS/S", ">FAULTS/1K")
	for i, h := range res.Halves {
		for _, s := range h.Servers {
			t.Row(fmt.Sprint(i+1), s.Name, className(s), fmt.Sprintf("%d > %d", s.Start/1e6, s.End/1e6), saved(s),
				fmt.Sprintf("%.0f", s.P50), fmt.Sprintf("%.0f", s.P99), fmt.Sprintf("%.0f", s.Throughput), fmt.Sprintf("%.2f", s.FaultsPer1000))
		}
	}
	t.Write(w)
	fmt.Fprintln(w)

	t = cli.NewTable("p99, SECOND BY SECOND", ">MEDIAN", ">QUARTILES", ">SECONDS")
	row := func(name string, s summary) {
		t.Row(name, fmt.Sprintf("%.3f", s.Median), fmt.Sprintf("%.3f to %.3f", s.Q1, s.Q3), fmt.Sprint(s.N))
	}
	row("A/A: both off, redis-a over redis-b", res.Calibration.Ratio)
	for i, h := range res.Halves {
		row(fmt.Sprintf("half %d: offloaded over not", i+1), h.Ratio)
	}
	t.Write(w)
	fmt.Fprintf(w, "(SAVED is net; FAULTS/1K is major faults per 1,000 reads; the first %.0f s after\na change do not count)\n\n", skip.Seconds())

	for i, h := range res.Halves {
		for _, s := range h.Servers {
			if s.Offloaded {
				fmt.Fprintf(w, "decisions on %s, half %d: %d steps of %.0f ms, limit stalls %d,\n  compressed copies %s; %s\n", s.Name, i+1, s.Steps, s.StepTook, s.FailCnt, mb(s.Pool), reasons(s.Decisions))
			}
		}
	}
	if g := res.GiveBack; g != nil {
		fmt.Fprintf(w, "give-back: %d cold keys of %s read once in %.1f s: %s -> %s,\n", g.Keys, g.Server, g.Seconds, mb(g.Before), mb(g.After))
		fmt.Fprintf(w, "  %d refaults, limit stalls %d, memory PSI counted %s\n", g.Refaults, g.LimitStalls, g.psi())
	}
	fmt.Fprintf(w, "sidecar (tax): %s -> %s, %.0f %% of its cold heap gone;\n  %s\n", mb(res.Sidecar.Start), mb(res.Sidecar.End), 100*res.SidecarColdGone, reasons(res.Sidecar.Decisions))
	fmt.Fprintf(w, "batch job (throughput): %s -> %s;\n  %s\n\n", mb(res.Batch.Start), mb(res.Batch.End), reasons(res.Batch.Decisions))
	printGoals(w, res.Goals, []string{"redis_saving", "redis_p99_ratio", "sidecar_cold_gone"})
}

func printGoals(w io.Writer, goals map[string]Goal, order []string) {
	t := cli.NewTable("GOAL", ">VALUE", "TARGET", "BASELINE", "VERDICT")
	for _, name := range order {
		g, ok := goals[name]
		if !ok {
			continue
		}
		t.Row(name, fmt.Sprintf("%.3f", g.Value), g.Target, fmt.Sprintf("%s %.3f", g.Baseline.Name, g.Baseline.Value), g.Verdict)
	}
	t.Write(w)
}

func printLeftovers(w io.Writer, names []string) {
	if len(names) == 0 {
		fmt.Fprintln(w, "leftovers: 0 (cgroups, processes, files, sockets, swap, zswap and vm settings are as before)")
		return
	}
	fmt.Fprintf(w, "leftovers: %d\n", len(names))
	for _, n := range names {
		fmt.Fprintf(w, "  %s\n", cli.Escape(n))
	}
}

func (g *GiveBack) psi() string {
	switch {
	case !g.PSI:
		return "nothing: not available"
	case math.IsNaN(float64(g.PSIShare)):
		return fmt.Sprintf("%.0f ms", 1000*g.PSISeconds)
	}
	return fmt.Sprintf("%.0f ms, %.0f %% of their cost", 1000*g.PSISeconds, 100*g.PSIShare)
}

func className(s ServerStats) string {
	if s.Offloaded {
		return "latency"
	}
	return "off"
}

func saved(s ServerStats) string {
	if !s.Offloaded {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*s.Saving)
}

// reasons lists decisions by how often their reason came up.
func reasons(by map[string]int) string {
	names := slices.Collect(maps.Keys(by))
	slices.SortFunc(names, func(a, b string) int {
		if by[a] != by[b] {
			return by[b] - by[a]
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, n := range names {
		parts = append(parts, fmt.Sprintf("%s %d", n, by[n]))
	}
	if len(parts) == 0 {
		return "no decisions"
	}
	return cli.Escape(strings.Join(parts, ", "))
}

func mb(bytes int64) string { return fmt.Sprintf("%d MB", bytes/1e6) }
