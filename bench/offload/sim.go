package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spillway-io/spillway/bench/laws"
	"github.com/spillway-io/spillway/bench/workloads"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/sim"
)

// The simulated comparison runs every law as published: a decision every 6 s, default parameters, on six hours of
// each workload of offload/sim, of which the first three count as the way down. A simulated page stands for 16.
const (
	simPeriod  = 6 * time.Second
	simSpan    = 6 * time.Hour
	simScan    = 120 * time.Second // g-swap's
	simScale   = 16
	simFloor   = 16 << 20 // bytes
	simSeeds   = 5
	simBound   = 1.01 // the oracle's: mean and p99 of the requests at most 1 % longer than without offload
	simWorkers = 2
	oracleName = "oracle"
)

// cell is one place of the comparison.
type cell struct {
	law, workload string
	model         sim.Reclaim
}

// simRun is what one seed of a cell gave.
type simRun struct {
	Saving   float64 // net, share of what the workload holds, mean of the steady half
	Faults   float64 // pages that came back, a minute
	Mean     float64 // mean time of a request, times that without offload
	P99      float64 // the same of the 99th percentile
	Counted  float64 // share of the waiting that memory PSI saw; NaN when nothing waited
	Written  float64 // MB to the device, an hour
	Accuracy float64 // 1 − back within a minute/evicted; NaN when nothing was evicted

	Early     [3]float64 // net saving, mean of the first 10, at 30 and at 60 minutes; NaN for the oracle
	FirstHour float64    // pages that came back a minute in the first hour; NaN for the oracle
}

func figuresOf(f sim.Figures, trace []sim.Point) (r simRun) {
	r = simRun{
		Saving: f.Share, Faults: float64(f.Refaults) / f.Span.Minutes(), Mean: f.MeanSlowdown, P99: f.P99Slowdown,
		Counted: f.CountedShare, Written: float64(f.Written) / 1e6 / f.Span.Hours(), Accuracy: f.Accuracy,
		Early: [3]float64{math.NaN(), math.NaN(), math.NaN()}, FirstHour: math.NaN(),
	}
	if f.Refaults == 0 {
		r.Counted = math.NaN()
	}
	if f.Evicted == 0 {
		r.Accuracy = math.NaN()
	}
	for i, at := range []time.Duration{10 * time.Minute, 30 * time.Minute, 60 * time.Minute} {
		from := at - simPeriod // of a point's mean; the first ten minutes are taken whole
		if i == 0 {
			from = 0
		}
		saved, alive := 0., 0.
		for _, p := range trace {
			if p.At > from && p.At <= at {
				saved, alive = saved+float64(p.Saved), alive+float64(p.Alive)
			}
		}
		if alive > 0 {
			r.Early[i] = saved / alive
		}
	}
	if len(trace) > 0 {
		back := int64(0)
		for _, p := range trace {
			if p.At <= time.Hour {
				back += p.RefaultAnon + p.RefaultFile
			}
		}
		r.FirstHour = float64(back) / min(time.Hour, trace[len(trace)-1].At).Minutes()
	}
	return r
}

// noAges is what the name of a law ends with that is not given the idle ages which it would use: it decides as on a
// kernel without a source of them.
const noAges = ", no ages"

// simLaws are lawNames, and beside each law that uses ages the same one without.
func simLaws() (out []string) {
	for _, law := range lawNames() {
		out = append(out, law)
		if law == policy.Composite || law == policy.GSwap {
			out = append(out, law+noAges)
		}
	}
	return out
}

// blind is a law that sees no ages.
type blind struct{ policy.Law }

func (b blind) Decide(s policy.Sample) policy.Decision {
	s.Heat = nil
	return b.Law.Decide(s)
}

// lawOf is what sim.Config needs for a law, nil for none.
func lawOf(name string, p policy.Params) func() (policy.Law, error) {
	base, isBlind := strings.CutSuffix(name, noAges)
	switch {
	case isBlind:
		return func() (policy.Law, error) {
			l, err := policy.New(base, p)
			return blind{l}, err
		}
	case name == workloads.Off:
		return nil
	case slices.Contains(laws.Names(), name):
		return func() (policy.Law, error) { return laws.New(name) }
	}
	return sim.Named(name, p)
}

func simConfig(w sim.Workload, model sim.Reclaim, seed uint64) sim.Config {
	return sim.Config{
		Cgroups: []sim.Cgroup{{Workload: w, Floor: simFloor}}, Reclaim: model, Seed: seed,
		Period: simPeriod, Span: simSpan, Scan: simScan, Scale: simScale,
	}
}

// simulation is the whole comparison.
type simulation struct {
	laws      []string
	workloads []string
	runs      map[cell][]simRun // one a seed
	took      time.Duration

	promotion []promotionRun
}

var simModels = []sim.Reclaim{sim.Classic, sim.MGLRU}

// sim compares all laws in simulation. It needs neither root nor the product's binary.
func (b *bench) sim(ctx context.Context) (map[string]Goal, error) {
	seeds := simSeeds
	if b.quick {
		seeds = 1
	}
	x, err := simulate(ctx, seeds)
	if err != nil {
		return nil, err
	}
	if x.promotion, err = promotions(ctx, min(seeds, 2)); err != nil {
		return nil, err
	}
	fmt.Printf("  %d runs in %s\n", len(x.runs)*seeds, x.took.Round(time.Second))
	page := x.markdown(seeds)
	fmt.Print(page)
	if err := os.MkdirAll(filepath.Dir(b.out), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(b.out), "offload-sim.md"), []byte(page), 0o644); err != nil {
		return nil, err
	}
	if b.quick {
		fmt.Println("  a quick run leaves the chart as it is")
	} else if err := x.chart(filepath.Join(b.docs, "offload-sim.svg")); err != nil {
		return nil, err
	}
	return x.goals(), nil
}

func simulate(ctx context.Context, seeds int) (*simulation, error) {
	x := &simulation{laws: append(simLaws(), oracleName), runs: map[cell][]simRun{}}
	begin := time.Now()
	var mu sync.Mutex
	keep := func(c cell, seed int, r simRun) {
		mu.Lock()
		defer mu.Unlock()
		if x.runs[c] == nil {
			x.runs[c] = make([]simRun, seeds)
		}
		x.runs[c][seed] = r
	}
	var jobs []func() error
	for _, w := range sim.Workloads(simSpan) {
		x.workloads = append(x.workloads, w.Name)
		for _, model := range simModels {
			for seed := range seeds {
				cfg := simConfig(w, model, uint64(seed)+1)
				jobs = append(jobs, func() error {
					best, err := sim.Oracle(cfg, simBound)
					keep(cell{oracleName, w.Name, model}, seed, figuresOf(best.Figures, nil))
					return err
				})
				for _, law := range simLaws() {
					jobs = append(jobs, func() error {
						cfg := cfg
						cfg.Law = lawOf(law, policy.Params{})
						r, err := sim.Run(cfg)
						if err != nil {
							return fmt.Errorf("%s on %s: %w", law, w.Name, err)
						}
						keep(cell{law, w.Name, model}, seed, figuresOf(r.Cgroups[0].Steady, r.Cgroups[0].Trace))
						return nil
					})
				}
			}
		}
	}
	err := inParallel(ctx, jobs)
	x.took = time.Since(begin)
	return x, err
}

// inParallel does the jobs on simWorkers goroutines and returns the first error.
func inParallel(ctx context.Context, jobs []func() error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan func() error)
	var workers sync.WaitGroup
	for range simWorkers {
		workers.Go(func() {
			for job := range queue {
				if err := job(); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, job := range jobs {
		if ctx.Err() != nil {
			break
		}
		queue <- job
	}
	close(queue)
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// median leaves NaN out; NaN when nothing is left.
func median(v []float64) float64 {
	s := slices.DeleteFunc(slices.Clone(v), math.IsNaN)
	if len(s) == 0 {
		return math.NaN()
	}
	slices.Sort(s)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// over is the median over a cell's seeds.
func (x *simulation) over(c cell, get func(simRun) float64) float64 {
	var v []float64
	for _, r := range x.runs[c] {
		v = append(v, get(r))
	}
	return median(v)
}

// typical is a law's median over the workloads under one model, of the medians over seeds.
func (x *simulation) typical(law string, model sim.Reclaim, get func(simRun) float64) float64 {
	var v []float64
	for _, w := range x.workloads {
		v = append(v, x.over(cell{law, w, model}, get))
	}
	return median(v)
}

// bySeed is a law's median over all workloads and models, one figure a seed.
func (x *simulation) bySeed(law string, get func(simRun) float64) (out []float64) {
	cells := slices.DeleteFunc(slices.Collect(maps.Keys(x.runs)), func(c cell) bool { return c.law != law })
	for seed := range x.runs[cells[0]] {
		var v []float64
		for _, c := range cells {
			v = append(v, get(x.runs[c][seed]))
		}
		out = append(out, median(v))
	}
	return out
}

func saving(r simRun) float64 { return r.Saving }
func faults(r simRun) float64 { return r.Faults }

// goals are reported, none has a target: they say how laws compare in a model, not what the product does.
func (x *simulation) goals() map[string]Goal {
	out := map[string]Goal{}
	for _, law := range x.laws {
		key := "SIM." + strings.Replace(law, noAges, ".noages", 1)
		out[key] = x.simGoal(law, "net saving", "share of what the workload holds", saving)
		out[key+".faults"] = x.simGoal(law, "pages that came back", "pages a minute", faults)
		if law != oracleName && law != workloads.Off {
			out[key+".cold"] = x.simGoal(law, "net saving, mean of a job's first 10 minutes", "share of what the workload holds",
				func(r simRun) float64 { return r.Early[0] })
		}
	}
	g := out["SIM."+policy.Composite]
	g.Extra = x.every()
	out["SIM."+policy.Composite] = g
	maps.Copy(out, x.promotionGoals())
	out["SIM"] = goal("simulated runs of all laws", "runs", "reported", []float64{float64(len(x.runs) * len(x.runs[cell{policy.TMO, x.workloads[0], sim.Classic}]))}, reported)
	return out
}

func (x *simulation) simGoal(law, what, unit string, get func(simRun) float64) Goal {
	g := goal("simulated "+law+": "+what+", median of all cells", unit, "reported", x.bySeed(law, get), reported)
	g.Baseline = &Baseline{Name: oracleName, Value: median(x.bySeed(oracleName, get))}
	if math.IsNaN(g.Baseline.Value) {
		g.Baseline = nil
	}
	return g
}

// every is each cell's figures, for whoever wants to draw them again.
func (x *simulation) every() map[string]float64 {
	out := map[string]float64{}
	for c := range x.runs {
		for _, col := range columns {
			if v := x.over(c, col.get); !math.IsNaN(v) {
				out[fmt.Sprintf("%s/%s/%s/%s", c.model, c.workload, c.law, col.key)] = v
			}
		}
	}
	return out
}
