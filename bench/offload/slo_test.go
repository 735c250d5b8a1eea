package main

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/spillway-io/spillway/bench/workloads"
	"github.com/spillway-io/spillway/internal/admin"
)

// sloRuns is a run that went well, fast and slow.
func sloRuns() *workloads.SLOResult {
	low := 0.5
	look := func(at time.Duration, m float64, known bool) workloads.SLOLook {
		s := admin.SLO{Multiplier: m, P99: admin.Duration(time.Millisecond), Pairs: 9}
		if known {
			s.PerMiB = &admin.Interval{Estimate: 2, Low: &low}
		}
		return workloads.SLOLook{At: at, SLO: s}
	}
	return &workloads.SLOResult{Runs: []workloads.SLORun{
		{
			Name: "fast", Source: "prometheus", AA: workloads.Summary{N: 9, Median: 1},
			Half:  workloads.Half{Ratio: []float64{1, 1.02, 1.04}},
			Looks: []workloads.SLOLook{look(time.Second, 1, false), look(90*time.Second, 1.41, true)},
			Lost:  workloads.SLOFallback{Said: true, After: 11 * time.Second, Multiplier: 1, Text: "no SLO signal"},
		},
		{
			Name: "slow", Source: "redis", AA: workloads.Summary{N: 9, Median: 1.02},
			Half:  workloads.Half{Ratio: []float64{1.05}},
			Late:  workloads.Window{Ratio: 1.05},
			Looks: []workloads.SLOLook{look(time.Second, 1, false), look(40*time.Second, 0.5, false)},
		},
	}}
}

func TestSLOGoals(t *testing.T) {
	for _, tt := range []struct {
		why    string
		change func(*workloads.SLOResult)
		missed []string // the goals that do not pass
	}{
		{"all well", func(*workloads.SLOResult) {}, nil},
		{"never relaxed", func(r *workloads.SLOResult) { r.Runs[0].Looks[1].Multiplier = 1 }, []string{"W.slo.scale.fast"}},
		{"never tightened", func(r *workloads.SLOResult) { r.Runs[1].Looks[1].Multiplier = 1 }, []string{"W.slo.scale.slow"}},
		{"nothing learnt", func(r *workloads.SLOResult) { r.Runs[0].Looks[1].PerMiB = nil }, []string{"W.slo.estimate"}},
		{"silent fallback", func(r *workloads.SLOResult) { r.Runs[0].Lost.Said = false }, []string{"W.slo.fallback"}},
		{"bold without a signal", func(r *workloads.SLOResult) { r.Runs[0].Lost.Multiplier = 2 }, []string{"W.slo.fallback"}},
		{"slow to the end", func(r *workloads.SLOResult) { r.Runs[1].Late.Ratio = 1.3 }, []string{"W.slo.p99"}},
		{"unlike twins", func(r *workloads.SLOResult) { r.Runs[1].AA.Median = 1.4 }, []string{"W.slo.aa", "W.slo.p99"}},
	} {
		r := sloRuns()
		tt.change(r)
		goals := sloGoals("W.slo", r)
		if _, err := json.Marshal(goals); err != nil && tt.why != "nothing" {
			t.Errorf("%s: %v", tt.why, err)
		}
		want := map[string]bool{}
		for _, n := range tt.missed {
			want[n] = true
		}
		for name, g := range goals {
			if g.Pass == want[name] {
				t.Errorf("%s: %s passes: %v", tt.why, name, g.Pass)
			}
		}
	}
	g := sloGoals("W.slo", sloRuns())["W.slo.estimate"]
	if g.Value != 2 || g.Extra["low"] != 0.5 || g.Extra["known_after_s"] != 90 {
		t.Errorf("estimate %+v", g)
	}
	if _, open := g.Extra["high"]; open {
		t.Error("an open end is no figure")
	}
}

// A p99 that jumps by a factor of 1.44 each period scatters by its logarithm over √2, as independent noise would.
func TestScatter(t *testing.T) {
	var looks []workloads.SLOLook
	for i := range 100 {
		p99 := 1000.0
		if i%2 == 0 {
			p99 *= 1.44
		}
		looks = append(looks, workloads.SLOLook{SLO: admin.SLO{P99: admin.Duration(p99)}})
	}
	if got, want := scatter(looks), math.Log(1.44)/math.Sqrt2; math.Abs(got-want) > 0.01 {
		t.Errorf("scatter %v, want %v", got, want)
	}
	if !math.IsNaN(scatter(nil)) {
		t.Error("of nothing")
	}
}
