package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spillway-io/spillway/bench/workloads"
	"github.com/spillway-io/spillway/internal/admin"
)

// serviceLevel has the agent learn from the latency of a real service: W.slo.
func serviceLevel(ctx context.Context, name string, cfg workloads.Config) (map[string]Goal, []string, error) {
	r, err := workloads.ServiceLevel(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	for _, run := range r.Runs {
		fmt.Println("  " + sloLine(run))
	}
	return sloGoals(name, r), r.Leftovers, nil
}

// maxP99 is what offloading with a service level may cost, as everywhere.
const maxP99 = 1.10

func sloGoals(name string, r *workloads.SLOResult) map[string]Goal {
	goals := map[string]Goal{}
	p99 := Goal{What: "p99 of the twin that is learnt about over the other's, second by second; the fast run, and the slow one's last quarter", Unit: "ratio", Target: "<= 1.10 each"}
	var aas, savings []float64
	for _, run := range r.Runs {
		last, _ := run.Last()
		moved := run.First(func(s admin.SLO) bool { return s.Multiplier != 1 })
		want, pass := "> 1", func(v float64) bool { return v > 1 }
		if run.Name == "slow" {
			want, pass = "< 1", func(v float64) bool { return v < 1 }
		}
		scale := goal("multiplier of the refault cost target at the end of the "+run.Name+" run, from "+run.Source, "×", want, []float64{last.Multiplier}, pass)
		scale.Extra = sloExtra(run)
		scale.Extra["moved_after_s"] = moved.Seconds()
		if !scale.Pass && strings.Contains(last.Why, "too much to show") {
			scale.Verdict = "too noisy"
		}
		goals[name+".scale."+run.Name] = scale
		if run.Name == "slow" { // before it has learnt anything it is as slow as it was set up to be
			p99.Runs = append(p99.Runs, run.Late.Ratio)
		} else {
			p99.Runs = append(p99.Runs, goal("", "", "", run.Half.Ratio, reported).Value)
		}
		aas, savings = append(aas, run.AA.Median), append(savings, run.Half.Net())
	}
	goals[name] = goal("net saving of the twin that is learnt about; one value a run, fast and slow", "share of its memory", "reported", savings, reported)
	goals[name+".estimate"] = sloEstimate(r)
	aa := goal("p99 ratio of the two twins, both off (A/A); one value a run", "ratio", "0.9 to 1.1 each", aas, reported)
	aa.Pass = len(aas) > 0 && aa.Spread[0] >= 0.9 && aa.Spread[1] <= 1.1
	goals[name+".aa"] = aa
	all := goal(p99.What, p99.Unit, p99.Target, p99.Runs, reported)
	all.Baseline, all.Pass = &Baseline{"A/A", aa.Value}, len(p99.Runs) > 0 && all.Spread[1] <= maxP99
	if !aa.Pass {
		all.Pass, all.Verdict = false, "too noisy"
	}
	goals[name+".p99"] = all
	said, extra := 0.0, map[string]float64{}
	for _, run := range r.Runs {
		if run.Lost.Text == "" {
			continue
		}
		extra["after_s"], extra["multiplier"] = run.Lost.After.Seconds(), run.Lost.Multiplier
		if run.Lost.Said && run.Lost.Multiplier <= 1 {
			said = 1
		}
	}
	lost := goal("the signal stopped: 1 when the daemon says so and uses the targets of the class", "", "1", []float64{said}, atLeast(1))
	lost.Extra = extra
	goals[name+".fallback"] = lost
	return goals
}

// sloEstimate is the first run's slope that is known, µs of p99 per MiB saved. An estimate that the time was too short
// for is no figure: the verdict says so.
func sloEstimate(r *workloads.SLOResult) Goal {
	const what = "what the learner says a MiB saved costs of p99"
	for _, run := range r.Runs {
		last, ok := run.Last()
		if !ok || last.PerMiB == nil {
			continue
		}
		g := goal(what+", at the end of the "+run.Name+" run", "µs/MiB", "reported", []float64{last.PerMiB.Estimate}, reported)
		bound := func(p *float64, open float64) float64 {
			if p == nil {
				return open
			}
			return *p
		}
		// JSON has no infinity: an end that is open is left out below.
		low, high := bound(last.PerMiB.Low, math.Inf(-1)), bound(last.PerMiB.High, math.Inf(1))
		known := run.First(func(s admin.SLO) bool { return s.PerMiB != nil })
		g.Extra = finite(map[string]float64{"low": low, "high": high, "known_after_s": known.Seconds()})
		if !math.IsInf(low, 0) && !math.IsInf(high, 0) {
			g.Spread = [2]float64{low, high}
		}
		return g
	}
	return Goal{What: what, Unit: "µs/MiB", Target: "reported", Verdict: "not learnt"}
}

// sloExtra is everything else about a run. Windows are the first and the last quarter of the half.
func sloExtra(run workloads.SLORun) map[string]float64 {
	last, _ := run.Last()
	on, off := run.Half.Twins[run.Half.On], run.Half.Twins[1-run.Half.On]
	out := map[string]float64{
		"pairs": float64(last.Pairs), "blocks": float64(last.Blocks), "period_scatter": scatter(run.Looks),
		"known_after_s": run.First(func(s admin.SLO) bool { return s.PerMiB != nil }).Seconds(),
		"saving":        run.Half.Net(), "on_p99_us": on.P99, "off_p99_us": off.P99, "steps": float64(on.Steps), "taken_mb": float64(on.Taken) / 1e6,
		"refaults_per_1000_early": run.Early.RefaultPer1k, "refaults_per_1000_late": run.Late.RefaultPer1k,
		"taken_mb_early": float64(run.Early.Taken) / 1e6, "taken_mb_late": float64(run.Late.Taken) / 1e6,
		"on_p99_us_early": run.Early.P99, "on_p99_us_late": run.Late.P99,
		"end_mb_early": float64(run.Early.End) / 1e6, "end_mb_late": float64(run.Late.End) / 1e6,
	}
	least, most := math.Inf(1), math.Inf(-1)
	for _, l := range run.Looks {
		least, most = min(least, l.Multiplier), max(most, l.Multiplier)
	}
	out["least_multiplier"], out["most_multiplier"] = least, most
	for word, i := range map[string]*admin.Interval{"per_mib": last.PerMiB, "per_permille": last.PerPermille, "inflation": last.Inflation} {
		if i == nil {
			continue
		}
		out[word] = i.Estimate
		if i.Low != nil {
			out[word+"_low"] = *i.Low
		}
		if i.High != nil {
			out[word+"_high"] = *i.High
		}
	}
	for reason, n := range on.Reasons {
		out["decided_"+reason] = float64(n)
	}
	return finite(out)
}

// scatter is by how much the signal's p99 differs from one period to the next, as the deviation of a log ratio that
// noise alone would give: what decides how long learning takes.
func scatter(looks []workloads.SLOLook) float64 {
	sum, n, before := 0.0, 0, 0.0
	for _, l := range looks {
		now := float64(l.P99)
		if now > 0 && before > 0 {
			d := math.Log(now / before)
			sum, n = sum+d*d, n+1
		}
		before = now
	}
	return math.Sqrt(sum / float64(n) / 2)
}

// sloLine is a run in one line.
func sloLine(run workloads.SLORun) string {
	last, _ := run.Last()
	x := sloExtra(run)
	line := fmt.Sprintf("%s, %s: multiplier %.3g (%.3g to %.3g), %d pairs; period scatter %.2f; p99 %.0f to %.0f µs, ratio %.3f, early %.3f, late %.3f (A/A %.3f); saving %.1f %%; refaults per 1,000 %.1f early, %.1f late, size %.0f and %.0f MB",
		run.Name, run.Source, last.Multiplier, x["least_multiplier"], x["most_multiplier"], last.Pairs, x["period_scatter"], x["on_p99_us"], x["off_p99_us"],
		goal("", "", "", run.Half.Ratio, reported).Value, run.Early.Ratio, run.Late.Ratio, run.AA.Median, 100*x["saving"], x["refaults_per_1000_early"], x["refaults_per_1000_late"], x["end_mb_early"], x["end_mb_late"])
	for _, word := range []string{"per_mib", "per_permille", "inflation"} {
		if v, ok := x[word]; ok {
			line += fmt.Sprintf("; %s %.3g (%.3g to %.3g)", word, v, x[word+"_low"], x[word+"_high"])
		}
	}
	line += fmt.Sprintf("; %v", run.Half.Twins[run.Half.On].Reasons)
	if run.Lost.Text != "" {
		line += fmt.Sprintf("; without a signal after %.1f s: %s", run.Lost.After.Seconds(), run.Lost.Text)
	}
	return line
}
