package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/sim"
)

// promotionRun is one setting of one law on one disk, medians over seeds.
type promotionRun struct {
	model        sim.Reclaim
	law, disk    string
	target       float64 // of memory pressure for tmo, of promotions a minute for gswap, of refault cost for composite
	saving, rate float64 // net share; promotions a minute as a share of the working set
	psi, io      float64 // memory and io pressure, shares of time
	slow         float64 // mean of the requests, times that without offload
}

// The two disks: a good SSD, and one like the worst of TMO's fleet (p90 of 9.3 ms).
var (
	fastDisk = sim.Latency{P50: 80 * time.Microsecond, P99: 500 * time.Microsecond}
	slowDisk = sim.Latency{P50: time.Millisecond, P99: 15 * time.Millisecond}
)

// Around the published 0.1 % of the time and 0.2 % of the working set a minute, and composite's 0.2 % of the time.
var (
	tmoTargets       = []float64{0.00025, 0.0005, 0.001, 0.002, 0.004}
	gswapTargets     = []float64{0.0005, 0.001, 0.002, 0.004, 0.008}
	compositeTargets = gswapTargets
)

// Three hours are enough for every setting to find its size. Pages are nearly of the real size here: when one stands
// for 16, so do the stalls, and a slow disk makes them too lumpy for any law.
const (
	promotionSpan  = 3 * time.Hour
	promotionScale = 2
)

// promotions runs tmo, gswap and composite over a range of targets on both disks. The store is read in all its parts, a
// few hundred times a second, so that its heat falls off evenly and every target finds a size of its own.
func promotions(ctx context.Context, seeds int) ([]promotionRun, error) {
	w, ok := sim.WorkloadNamed("zipf", promotionSpan)
	if !ok {
		return nil, fmt.Errorf("sim: the workload called zipf is gone")
	}
	w.Parts = slices.Clone(w.Parts)
	w.Parts[0].Hot, w.Parts[0].Rate = 1, 300
	var out []promotionRun
	for _, m := range simModels {
		for _, disk := range []string{"fast", "throttled"} {
			for _, t := range tmoTargets {
				out = append(out, promotionRun{model: m, law: policy.TMO, disk: disk, target: t})
			}
			for _, t := range gswapTargets {
				out = append(out, promotionRun{model: m, law: policy.GSwap, disk: disk, target: t})
			}
			for _, t := range compositeTargets {
				out = append(out, promotionRun{model: m, law: policy.Composite, disk: disk, target: t},
					promotionRun{model: m, law: policy.Composite + noAges, disk: disk, target: t})
			}
		}
	}
	var jobs []func() error
	for i := range out {
		jobs = append(jobs, func() error { return out[i].measure(w, seeds) })
	}
	return out, inParallel(ctx, jobs)
}

func (p *promotionRun) measure(w sim.Workload, seeds int) error {
	var saved, rate, psi, io, slow []float64
	for seed := range seeds {
		cfg := simConfig(w, p.model, uint64(seed)+1)
		cfg.Span, cfg.Scale = promotionSpan, promotionScale
		latency := map[string]sim.Latency{"fast": fastDisk, "throttled": slowDisk}[p.disk]
		cfg.Tiers = sim.Tiers{Disk: sim.Disk{Latency: latency, Capacity: 4 << 30}, File: latency}
		params := policy.Params{}
		switch p.law {
		case policy.TMO:
			params.MemPressure, params.IOPressure = p.target, p.target
		case policy.GSwap:
			params.Promotion = p.target
		default:
			d := policy.Defaults(policy.Composite)
			params.RefaultCost, params.Promotion = p.target, p.target*d.Promotion/d.RefaultCost // as a class scales both
		}
		cfg.Law = lawOf(p.law, params)
		var pressure, ioPressure, working, n float64
		cfg.Observe = func(_ int, s policy.Sample, _ policy.Decision) {
			if s.Age > promotionSpan/2 && s.Heat != nil {
				pressure += float64(s.MemSome) / float64(s.Period)
				ioPressure += float64(s.IOSome) / float64(s.Period)
				working += float64(s.Heat.WorkingSet)
				n++
			}
		}
		r, err := sim.Run(cfg)
		if err != nil {
			return fmt.Errorf("%s on the %s disk: %w", p.law, p.disk, err)
		}
		f := r.Cgroups[0].Steady
		saved = append(saved, f.Share)
		rate = append(rate, float64(f.Refaults)*4096/f.Span.Minutes()/(working/n))
		psi, io = append(psi, pressure/n), append(io, ioPressure/n)
		slow = append(slow, f.MeanSlowdown)
	}
	p.saving, p.rate, p.psi, p.io, p.slow = median(saved), median(rate), median(psi), median(io), median(slow)
	return nil
}

// predict says how well a signal orders the runs under one reclaim by their slowdown, over both disks: 1 is perfectly.
func (x *simulation) predict(m sim.Reclaim, signal func(promotionRun) float64) float64 {
	var v, slow []float64
	for _, run := range x.promotion {
		if run.model == m {
			v, slow = append(v, signal(run)), append(slow, run.slow)
		}
	}
	return spearman(v, slow)
}

func promotionRate(p promotionRun) float64 { return p.rate }
func memoryPSI(p promotionRun) float64     { return p.psi }
func ioPSI(p promotionRun) float64         { return p.io }

// spearman is the rank correlation of two series of equal length.
func spearman(a, b []float64) float64 {
	x, y := ranks(a), ranks(b)
	mean := float64(len(x)-1) / 2
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mean, y[i]-mean
		xy, xx, yy = xy+dx*dy, xx+dx*dx, yy+dy*dy
	}
	return xy / math.Sqrt(xx*yy)
}

// ranks gives equal values their mean rank.
func ranks(v []float64) []float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
	out := make([]float64, len(v))
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && v[order[to]] == v[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			out[i] = float64(from+to-1) / 2
		}
		from = to
	}
	return out
}

// promotionGoals are the two answers at the published targets.
func (x *simulation) promotionGoals() map[string]Goal {
	out := map[string]Goal{}
	for _, m := range simModels {
		g := goal("simulated: rank correlation of the promotion rate with the mean slowdown over a fast and a throttled disk, "+m.String(),
			"correlation", "reported", []float64{x.predict(m, promotionRate)}, reported)
		g.Baseline = &Baseline{Name: "memory PSI", Value: x.predict(m, memoryPSI)}
		out["SIM.promotion."+m.String()] = g
	}
	return out
}
