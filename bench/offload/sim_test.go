package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/sim"
)

// invented is a comparison with figures that nobody measured: law i saves i tenths.
func invented() *simulation {
	x := &simulation{laws: append(simLaws(), oracleName), workloads: []string{"one", "two"}, runs: map[cell][]simRun{}}
	for i, law := range x.laws {
		for j, w := range x.workloads {
			for _, m := range simModels {
				r := simRun{Saving: float64(i) / 10, Faults: math.Pow(10, float64(i-j)), Mean: 1, P99: 1, Counted: math.NaN(), Accuracy: math.NaN()}
				x.runs[cell{law, w, m}] = []simRun{r, r}
			}
		}
	}
	for _, m := range simModels {
		for i := range 4 {
			v := float64(i)
			x.promotion = append(x.promotion, promotionRun{model: m, law: policy.TMO, disk: "fast", rate: -v, psi: v, io: v, slow: 1 + v*v})
		}
	}
	return x
}

func TestMarkdownNamesEveryLaw(t *testing.T) {
	page := invented().markdown(2)
	for _, want := range append(simLaws(), oracleName, "promotion rate -1.00, memory PSI 1.00", "| one, ", "–") {
		if !strings.Contains(page, want) && !strings.Contains(page, strings.TrimSuffix(want, ", ")) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for i, line := range strings.Split(page, "\n") {
		if strings.Contains(line, "NaN") || strings.Contains(line, "Inf") {
			t.Errorf("line %d: %s", i+1, line)
		}
	}
}

func TestChartIsReproducible(t *testing.T) {
	dir := t.TempDir()
	var first []byte
	for _, name := range []string{"a.svg", "b.svg"} {
		if err := invented().chart(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range append(policy.Names(), "net saving (% of the workload)", "major faults (pages/min") {
			if !bytes.Contains(data, []byte(want)) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
		if first != nil && !bytes.Equal(first, data) {
			t.Error("two drawings of the same figures differ")
		}
		first = data
	}
}

func TestGoalsCanBeWritten(t *testing.T) {
	b := &bench{out: filepath.Join(t.TempDir(), "offload.json")}
	goals := invented().goals()
	if _, ok := goals["SIM.composite"]; !ok || len(goals) < 2*len(simLaws()) {
		t.Errorf("%d goals, SIM.composite %v", len(goals), ok)
	}
	if err := b.save(Report{Goals: goals}); err != nil { // JSON has no NaN
		t.Error(err)
	}
}

// TestEarlyFigures runs every law on the smallest workload, through the same functions as the bench.
func TestEarlyFigures(t *testing.T) {
	w, _ := sim.WorkloadNamed("sidecar", time.Hour)
	cfg := simConfig(w, sim.Classic, 1)
	cfg.Span = time.Hour
	for _, law := range simLaws() {
		cfg.Law = lawOf(law, policy.Params{})
		r, err := sim.Run(cfg)
		if err != nil {
			t.Fatal(law, err)
		}
		f := figuresOf(r.Cgroups[0].Steady, r.Cgroups[0].Trace)
		if last := r.Cgroups[0].Trace[len(r.Cgroups[0].Trace)-1]; math.Abs(f.Early[2]-float64(last.Saved)/float64(last.Alive)) > 1e-9 {
			t.Errorf("%s: %.3f at 60 minutes, the trace ends at %d of %d", law, f.Early[2], last.Saved, last.Alive)
		}
		if f.Early[0] > f.Early[1] || f.Early[1] > f.Early[2]+1e-9 {
			t.Errorf("%s: saves %v of a sidecar that only gets colder", law, f.Early)
		}
	}
}

func TestSpearman(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{10, 100, 1000}, 1},
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, -1},
		{[]float64{1, 2, 3, 4, 5}, []float64{2, 1, 4, 3, 5}, 0.8},
		{[]float64{1, 1, 2, 2}, []float64{1, 2, 1, 2}, 0},
	} {
		if got := spearman(c.a, c.b); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v and %v: %.3f, want %.3f", c.a, c.b, got, c.want)
		}
	}
}

func TestMedianLeavesOutWhatIsMissing(t *testing.T) {
	nan := math.NaN()
	if got := median([]float64{nan, 3, 1, nan, 2}); got != 2 {
		t.Errorf("%v, want 2", got)
	}
	if got := median([]float64{4, 1}); got != 2.5 {
		t.Errorf("%v, want 2.5", got)
	}
	if got := median([]float64{nan}); !math.IsNaN(got) {
		t.Errorf("%v, want none", got)
	}
}

func TestInParallelReturnsTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	ran := make([]bool, 100)
	var jobs []func() error
	for i := range ran {
		jobs = append(jobs, func() error {
			ran[i] = true
			if i == 3 {
				return broken
			}
			return nil
		})
	}
	if err := inParallel(context.Background(), jobs); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if slices.Index(ran, false) < 0 {
		t.Log("all jobs had run before the error was seen")
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	if err := inParallel(stopped, jobs); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: got %v", err)
	}
}
