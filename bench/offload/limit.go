package main

import (
	"context"
	"math"

	"github.com/spillway-io/spillway/bench/workloads"
)

// limited asks whether a service that is at its own memory limit does more when its cold part is offloaded: W.limit.
func limited(ctx context.Context, name string, cfg workloads.Config) (map[string]Goal, []string, error) {
	r, err := workloads.Limit(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return limitGoals(name, r), r.Leftovers, nil
}

func limitGoals(name string, r *workloads.LimitResult) map[string]Goal {
	var own, all, ratio, stall, careful []float64
	steps := 0
	for _, b := range r.Blocks {
		x, y := b.Capacity()
		if b.Class != workloads.LimitClass {
			careful = append(careful, float64(b.Twins[b.On].Steps))
			continue
		}
		own, all = append(own, x), append(all, y)
		ratio = append(ratio, goal("", "", "", b.Ratio, reported).Value)
		stall = append(stall, b.Twins[b.On].Stall)
		steps += b.Twins[b.On].Steps
	}
	capacity := goal("requests a second that one processor serves, offloaded as class tax over not, at a limit of 75 % of what the service takes; the worker's time counted",
		"ratio", "> 1 beyond the noise", all, reported)
	capacity.Baseline = &Baseline{"A/A", 1 / r.AACPU}
	capacity.Extra = limitExtra(r)
	capacity.Extra["own_time_alone"] = goal("", "", "", own, reported).Value
	p99 := goal("p99 of the offloaded twin over the other's at the same limit, one value a block", "ratio", "< 1 beyond the noise", ratio, reported)
	p99.Baseline = &Baseline{"A/A", r.AA.Median}
	stalls := goal("share of time in which the offloaded twin waits for memory (PSI some): direct reclaim at its limit, and refaults", "share", "reported", stall, reported)
	stalls.Baseline = &Baseline{"the other twin", capacity.Extra["off_stall_share"]}
	steady := goal("steps of the law at the limit as class latency, a block", "count", "reported", careful, reported)
	aa := goal("p99 ratio of the two twins, both off and both at the limit (A/A)", "ratio", "0.9 to 1.1", []float64{r.AA.Median}, func(v float64) bool { return v >= 0.9 && v <= 1.1 })
	aa.Spread = [2]float64{r.AA.Q1, r.AA.Q3}
	cpu := goal("processor time a request of the two twins, both off and both at the limit (A/A)", "ratio", "0.9 to 1.1", []float64{r.AACPU}, func(v float64) bool { return v >= 0.9 && v <= 1.1 })
	capacity.Pass, capacity.Verdict = judge(all, 1/r.AACPU, steps)
	var inverse []float64
	for _, v := range ratio {
		inverse = append(inverse, 1/v)
	}
	p99.Pass, p99.Verdict = judge(inverse, 1/r.AA.Median, steps)
	capacity.Extra = finite(capacity.Extra)
	goals := map[string]Goal{name: capacity, name + ".p99": p99, name + ".latency": steady, name + ".aa": aa, name + ".aacpu": cpu}
	if !math.IsNaN(stalls.Value + stalls.Baseline.Value) { // no pressure where PSI is off
		goals[name+".psi"] = stalls
	}
	return goals
}

// judge answers a question from gains, where more than 1 is better. Each answer is a result; only one that the noise
// hides is none. A gain counts when every block but one shows it and its median is further from 1 than the A/A.
func judge(gains []float64, aa float64, steps int) (pass bool, verdict string) {
	noise := math.Abs(aa - 1)
	if !(noise <= 0.1) || len(gains) == 0 {
		return false, "too noisy"
	}
	if len(gains) < 5 {
		return false, "too few blocks"
	}
	if steps == 0 {
		return true, "refuted: no steps"
	}
	up, down := 0, 0
	for _, g := range gains {
		if g > 1 {
			up++
		}
		if g < 1 {
			down++
		}
	}
	most := max(1, len(gains)-1)
	switch m := goal("", "", "", gains, reported).Value; {
	case up >= most && m > 1+noise:
		return true, ""
	case down >= most && m < 1-noise:
		return true, "refuted: worse"
	}
	return true, "no difference"
}

// limitExtra is everything else, means over the blocks of class tax, of the offloaded twin and of the other.
func limitExtra(r *workloads.LimitResult) map[string]float64 {
	out := map[string]float64{"full_mb": float64(r.Full) / 1e6, "limit_mb": float64(r.Limit) / 1e6, "aa_q1": r.AA.Q1, "aa_q3": r.AA.Q3}
	n := 0.0
	for _, b := range r.Blocks {
		word := "decided_"
		if b.Class != workloads.LimitClass {
			word = "latency_decided_"
		} else {
			n++
		}
		for reason, k := range b.Twins[b.On].Reasons {
			out[word+reason] += float64(k)
		}
	}
	for _, b := range r.Blocks {
		if b.Class != workloads.LimitClass {
			continue
		}
		for word, i := range map[string]int{"on": b.On, "off": 1 - b.On} {
			t := b.Twins[i]
			for key, v := range map[string]float64{
				"cpu_us_per_request": b.CPU[i], "p50_us": t.P50, "p99_us": t.P99, "requests_per_s": t.Throughput, "end_mb": float64(t.End) / 1e6,
				"major_faults_per_1000": t.MajorPer1000, "refaults_per_1000": t.RefaultPer1k, "stall_share": t.Stall,
				"times_at_limit": float64(t.LimitStalls), "oom_kills": float64(t.OOMKills), "steps": float64(t.Steps), "taken_mb": float64(t.Taken) / 1e6,
			} {
				out[word+"_"+key] += v / n
			}
		}
		out["worker_us_per_request"] += b.Worker / n
	}
	return out
}
