package main

import (
	"math"
	"testing"

	"github.com/spillway-io/spillway/bench/workloads"
	"github.com/spillway-io/spillway/offload/class"
)

// One answer of a question each: the noise decides what a gain is.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		why   string
		gains []float64
		aa    float64
		steps int
		pass  bool
		want  string
	}{
		{"a gain beyond the noise", []float64{1.1, 1.12, 1.09, 1.2, 1.1, 0.99}, 1.02, 9, true, ""},
		{"a gain within the noise", []float64{1.01, 1.01, 1.02, 1.01, 1.01, 1.01}, 0.97, 9, true, "no difference"},
		{"blocks that disagree", []float64{1.3, 1.3, 1.3, 1.3, 0.9, 0.9}, 1.01, 9, true, "no difference"},
		{"a loss", []float64{0.9, 0.91, 0.9, 0.92, 0.9, 0.9}, 1.01, 9, true, "refuted: worse"},
		{"nothing was taken", []float64{1.1, 1.1, 1.1, 1.1, 1.1, 1.1}, 1.01, 0, true, "refuted: no steps"},
		{"twins that are not alike", []float64{1.3, 1.3, 1.3, 1.3, 1.3}, 1.2, 9, false, "too noisy"},
		{"an A/A that is unknown", []float64{1.3, 1.3, 1.3, 1.3, 1.3}, math.NaN(), 9, false, "too noisy"},
		{"two blocks", []float64{1.3, 1.3}, 1, 9, false, "too few blocks"},
	} {
		if pass, got := judge(tt.gains, tt.aa, tt.steps); pass != tt.pass || got != tt.want {
			t.Errorf("%s: %v, %q", tt.why, pass, got)
		}
	}
}

// A server that never came back must not look quick, and one that still shrank says nothing.
func TestStepGoals(t *testing.T) {
	server := func(back, drift float64) workloads.StepServer {
		return workloads.StepServer{Back: back, Drift: drift, Base: 40}
	}
	for _, tt := range []struct {
		servers []workloads.StepServer
		pass    bool
		verdict string
	}{
		{[]workloads.StepServer{server(9, 0), server(12, 0), server(29, 0)}, true, ""},
		{[]workloads.StepServer{server(9, 0), server(12, 0), server(-1, 0)}, false, ""},
		{[]workloads.StepServer{server(9, 0.01)}, false, "not settled"},
		{nil, false, ""},
	} {
		g := stepGoals("W4", &workloads.StepResult{Servers: tt.servers})["W4"]
		if g.Pass != tt.pass || g.Verdict != tt.verdict {
			t.Errorf("%+v: %v, %q", tt.servers, g.Pass, g.Verdict)
		}
	}
}

// What was not measured is an error and no figure; what merely is unknown beside one does not keep it from the report.
func TestMeasured(t *testing.T) {
	limit := &workloads.LimitResult{AACPU: 1, AA: workloads.Summary{Median: 1}, Blocks: []workloads.LimitBlock{
		{Class: class.Latency}, {Class: workloads.LimitClass, CPU: [2]float64{10, 12}, Ratio: []float64{1}},
	}}
	limit.Blocks[1].Twins[0].Stall = math.NaN()
	if goals := limitGoals("W.limit", limit); measured(goals) != nil || len(goals) != 5 {
		t.Errorf("without PSI: %+v", goals)
	}
	limit.AACPU = math.NaN()
	if measured(limitGoals("W.limit", limit)) == nil || measured(descentGoals("W11", &workloads.DescentResult{})) == nil {
		t.Error("what was not measured is in the report")
	}
	node := &workloads.NodeResult{Faults: math.NaN(), Members: []workloads.NodeMember{
		{Name: "kubepods/a", Class: class.Tax, Cold: 0.5, Start: 100, Saved: 40}, {Name: "kubepods/b", Class: class.Latency, Start: 300, Saved: 20},
	}}
	g := nodeGoals("W.node", node)
	if measured(g) != nil || g["W.node"].Value != 15 || g["W.node.tax"].Value != 10 || g["W.node.app"].Value != 5 || g["W.node"].Extra["cold_percent_by_design"] != 12.5 {
		t.Errorf("node %+v", g)
	}
}

func TestWorkGoals(t *testing.T) {
	for law, want := range map[string]string{"composite": "W4", "tmo": "W4.tmo", "senpai2019": "W4.senpai2019"} {
		gs := (&bench{law: law}).workGoals()
		if len(gs) != 8 || gs[0].name != want || gs[0].run == nil {
			t.Errorf("under %s: %+v", law, gs)
		}
	}
	if gs := (&bench{law: workloads.Off}).workGoals(); len(gs) != 0 {
		t.Errorf("off: %d goals", len(gs))
	}
}
