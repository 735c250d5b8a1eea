package main

import (
	"math"
	"testing"

	"github.com/spillway-io/spillway/bench/workloads"
)

func oracleOf(aa, saving, ratio float64, feasible ...bool) *workloads.OracleResult {
	r := &workloads.OracleResult{Law: "composite", AA: workloads.Summary{Median: aa, N: 20}, Full: 220e6}
	for i, f := range feasible { // 0.40, 0.44, …
		x := workloads.OracleStep{Size: int64(90-8*i) * 1e6, P99: 1, Feasible: f, Sure: true, Reached: true}
		x.Twins[0] = workloads.Twin{Saving: 0.40 + 0.04*float64(i), MajorPer1000: float64(2 + i)}
		x.Twins[1].Stall = math.NaN()
		r.Steps = append(r.Steps, x)
	}
	r.Under.On = 1
	for range 60 {
		r.Under.Ratio = append(r.Under.Ratio, ratio)
	}
	r.Under.Twins[1] = workloads.Twin{Saving: saving, Reasons: map[string]int{"steady": 9}}
	return r
}

// Which figures pass, and what is said when one cannot be had.
func TestOracleGoals(t *testing.T) {
	for _, tt := range []struct {
		why                          string
		r                            *workloads.OracleResult
		oracle, size, share          float64
		pass                         string // of share, saving, p99: y or n each
		verdict, shareVerdict, p99Is string
	}{
		{"as it should be", oracleOf(1, 0.374, 1.05, true, true, false), 0.44, 82, 0.85, "yyy", "", "", ""},
		{"a law that saves too little", oracleOf(1, 0.2, 1.05, true, true), 0.44, 82, 0.2 / 0.44, "nny", "", "", ""},
		{"a law that is slower", oracleOf(1, 0.4, 1.2, true), 0.4, 90, 1, "yyn", "", "", ""},
		{"the A/A explains it", oracleOf(0.92, 0.4, 1.19, true), 0.4, 90, 1, "yyy", "", "", ""},
		{"a law that beats every size that was tried", oracleOf(1, 0.5, 1, true), 0.4, 90, 1.25, "yyy", "", "", ""},
		{"twins that are not alike", oracleOf(1.3, 0.4, 1, true), 0.4, 90, 1, "nyn", "too noisy", "too noisy", "too noisy"},
		{"no size will do", oracleOf(1, 0.3, 1, false, false), 0, 0, 0, "nyy", "no feasible size", "no feasible size", ""},
	} {
		g := oracleGoals("W.oracle", tt.r)
		if err := measured(g); err != nil {
			t.Fatalf("%s: %v", tt.why, err)
		}
		if calm, ok := g["W.oracle.calm"]; ok != (tt.size != 0) || ok && calm.Value != tt.oracle {
			t.Errorf("%s: calm %+v", tt.why, calm)
		}
		near := func(name string, want float64) {
			if got := g[name].Value; math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: %s is %v, want %v", tt.why, name, got, want)
			}
		}
		near("W.oracle", tt.oracle)
		near("W.oracle.size", tt.size)
		near("W.oracle.share", tt.share)
		for i, name := range []string{"share", "saving", "p99"} {
			if got := g["W.oracle."+name].Pass; got != (tt.pass[i] == 'y') {
				t.Errorf("%s: %s passes: %v", tt.why, name, got)
			}
		}
		for name, want := range map[string]string{"": tt.verdict, ".share": tt.shareVerdict, ".p99": tt.p99Is} {
			if got := g["W.oracle"+name].Verdict; got != want {
				t.Errorf("%s: verdict of W.oracle%s %q, want %q", tt.why, name, got, want)
			}
		}
	}
}

// A law whose p99 was never seen is no figure; a size that the kernel refused is left out.
func TestOracleOfNothing(t *testing.T) {
	r := oracleOf(1, 0.4, 1, true)
	r.Steps = append(r.Steps, workloads.OracleStep{Size: 50e6, P99: math.NaN()})
	g := oracleGoals("W.oracle", r)
	if err := measured(g); err != nil {
		t.Error(err)
	}
	extra := g["W.oracle"].Extra
	if extra["size2_mb"] != 50 || extra["size1_saving"] != 0.4 || extra["decided_steady"] != 9 {
		t.Errorf("extra %v", extra)
	}
	if _, ok := extra["size2_saving"]; ok {
		t.Errorf("extra %v", extra)
	}
	r.Under.Ratio = nil
	if measured(oracleGoals("W.oracle", r)) == nil {
		t.Error("a ratio that was never seen is in the report")
	}
}
