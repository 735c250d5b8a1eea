package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spillway-io/spillway/bench/workloads"
)

// oracle asks how much of what the best static size saves a law saves, without knowing it: W.oracle.
func oracle(ctx context.Context, name string, cfg workloads.Config) (map[string]Goal, []string, error) {
	begin := time.Now()
	r, err := workloads.Oracle(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	goals := oracleGoals(name, r)
	goals[name].Extra["took_s"] = time.Since(begin).Seconds()
	return goals, r.Leftovers, nil
}

// oracleGoals has no share of an oracle that nobody found: that verdict says so, and is no pass.
func oracleGoals(name string, r *workloads.OracleResult) map[string]Goal {
	aa := goal("p99 ratio of the two twins, both off (A/A)", "ratio", "0.9 to 1.1", []float64{r.AA.Median},
		func(v float64) bool { return v >= 0.9 && v <= 1.1 })
	aa.Spread = [2]float64{r.AA.Q1, r.AA.Q3}

	var savings []float64
	for _, x := range r.Steps {
		if x.Feasible {
			savings = append(savings, x.Net())
		}
	}
	what := "redis: net saving of the best static size with a p99 ratio of at most %.2f over the A/A; a run is a size that has"
	found := goal(fmt.Sprintf(what, workloads.OracleBound), "share of its memory", "reported", savings, reported)
	size := goal("that size, a memory limit; from the largest that was too small to the smallest that was not",
		"MB", "reported", nil, reported)
	found.Extra = oracleExtra(r)
	best := r.Best()
	if best == nil {
		found.Pass, found.Verdict = false, "no feasible size"
		size.Verdict = found.Verdict
	} else {
		found.Value = best.Net() // the best one, not the middle one
		size = goal(size.What, size.Unit, size.Target, []float64{float64(best.Size) / 1e6}, reported)
	}
	size.Spread = [2]float64{float64(r.Low) / 1e6, float64(r.High) / 1e6}
	size.Baseline = &Baseline{"before anything was taken", float64(r.Full) / 1e6}

	saving := goal("net saving of the same server under "+r.Law+", from its full size on, mean of the end",
		"share of its memory", ">= 0.25", []float64{r.Under.Net()}, atLeast(0.25))
	saving.Baseline = &Baseline{"the oracle's", found.Value}
	share := Goal{What: r.Law + "'s net saving over the oracle's", Unit: "ratio", Target: ">= 0.8", Verdict: found.Verdict}
	if best != nil {
		share = goal(share.What, share.Unit, share.Target, []float64{r.Share()}, atLeast(0.8))
	}
	ratio, sure := r.P99()
	latency := goal("p99 of the server under "+r.Law+" over the other's, second by second, over the A/A; and its quartiles",
		"ratio", "<= 1.10", []float64{ratio.Median}, atMost(1.10))
	latency.Spread, latency.Baseline = [2]float64{ratio.Q1, ratio.Q3}, &Baseline{"A/A", r.AA.Median}
	latency.Extra = map[string]float64{"seconds": float64(ratio.N), "sure": truth(sure)}
	faults := goal("major faults per 1,000 requests under "+r.Law+" once it is down", "count", "reported",
		[]float64{r.Rest.MajorPer1000}, reported)
	if at := r.MajorsAt(r.Under.Net()); !math.IsNaN(at) {
		faults.Baseline = &Baseline{"a static size that saves as much", at}
	}
	if !aa.Pass { // the oracle is found by p99s, too
		latency.Pass, latency.Verdict = false, "too noisy"
		found.Verdict, share.Pass, share.Verdict = "too noisy", false, "too noisy"
	}
	goals := map[string]Goal{
		name: found, name + ".size": size, name + ".saving": saving, name + ".share": share, name + ".p99": latency,
		name + ".faults": faults, name + ".aa": aa,
	}
	if calm := r.Calm(); calm != nil {
		what := fmt.Sprintf("net saving of the best of those sizes with fewer than %d major faults per 1,000 requests", workloads.CalmFaults)
		g := goal(what, "share of its memory", "reported", []float64{calm.Net()}, reported)
		g.Verdict = found.Verdict
		g.Baseline = &Baseline{r.Law + "'s", r.Under.Net()}
		g.Extra = map[string]float64{"size_mb": float64(calm.Size) / 1e6, "law_over_this": r.Under.Net() / calm.Net()}
		goals[name+".calm"] = g
	}
	return goals
}

// oracleExtra is every size that was tried, in turn, and what the law did.
func oracleExtra(r *workloads.OracleResult) map[string]float64 {
	under := r.Under.Twins[r.Under.On]
	out := map[string]float64{
		"full_mb": float64(r.Full) / 1e6, "sizes": float64(len(r.Steps)), "aa_seconds": float64(r.AA.N), "aa_p99_us": r.AAP99,
		"law_start_mb": float64(under.Start) / 1e6, "law_end_mb": float64(under.End) / 1e6, "law_saving_earlier": r.Earlier,
		"law_major_faults_per_1000": under.MajorPer1000, "law_refaults_per_1000": under.RefaultPer1k,
		"law_rest_refaults_per_1000": r.Rest.RefaultPer1k, "law_steps": float64(under.Steps),
		"law_taken_mb": float64(under.Taken) / 1e6, "law_p99_us": under.P99,
		"law_other_p99_us": r.Under.Twins[1-r.Under.On].P99, "law_pool_growth_mb": float64(r.Under.Pool) / 1e6,
	}
	for reason, n := range under.Reasons {
		out["decided_"+reason] = float64(n)
	}
	for i, x := range r.Steps {
		at := fmt.Sprintf("size%d_", i+1)
		out[at+"mb"], out[at+"feasible"], out[at+"sure"] = float64(x.Size)/1e6, truth(x.Feasible), truth(x.Sure)
		if !x.Reached {
			continue
		}
		a, b := x.Twins[x.On], x.Twins[1-x.On]
		out[at+"resident_mb"], out[at+"saving"], out[at+"p99_ratio"] = float64(a.End)/1e6, x.Net(), x.P99
		out[at+"seconds"], out[at+"p99_us"], out[at+"other_p99_us"] = float64(len(x.Ratio)), a.P99, b.P99
		out[at+"major_faults_per_1000"], out[at+"refaults_per_1000"] = a.MajorPer1000, a.RefaultPer1k
		out[at+"times_at_limit"], out[at+"pool_growth_mb"] = float64(a.LimitStalls), float64(x.Pool)/1e6
	}
	return finite(out)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
