package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spillway-io/spillway/bench/workloads"
)

// workGoals are the goals that ask one question of a workload each, under -law.
func (b *bench) workGoals() (out []goalRun) {
	if b.law == workloads.Off {
		return nil // they ask what a law does
	}
	suffix := b.lawSuffix()
	for _, g := range []struct {
		name string
		run  func(context.Context, string, workloads.Config) (map[string]Goal, []string, error)
	}{{"W4", loadStep}, {"W11", coldStart}, {"W11.careful", carefulStart}, {"W11.slow", slowStart}, {"W.limit", limited}, {"W.node", nodeSaving}, {"W.slo", serviceLevel}, {"W.oracle", oracle}} {
		cfg := workloads.Config{Exe: b.exe, Law: b.law, Quick: b.quick, Out: os.Stdout}
		name := g.name + suffix
		out = append(out, goalRun{name, func(ctx context.Context) (map[string]Goal, error) {
			goals, left, err := g.run(ctx, name, cfg)
			var missing *workloads.Missing
			if errors.As(err, &missing) {
				fmt.Printf("%s: left out: %v\n", name, missing)
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			return goals, errors.Join(measured(goals), leftBehind(left))
		}})
	}
	return out
}

// measured refuses figures that are not numbers: nothing of what they need was seen.
func measured(goals map[string]Goal) error {
	if _, err := json.Marshal(goals); err != nil {
		return fmt.Errorf("no figure: %w", err)
	}
	return nil
}

// loadStep doubles the load of servers that had settled: W4.
func loadStep(ctx context.Context, name string, cfg workloads.Config) (map[string]Goal, []string, error) {
	r, err := workloads.LoadStep(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return stepGoals(name, r), r.Leftovers, nil
}

const (
	stepLimit = 30    // seconds
	driftMax  = 0.002 // share a second by which a settled server may still shrink; a full step takes 0.01
)

func stepGoals(name string, r *workloads.StepResult) map[string]Goal {
	pick := func(get func(workloads.StepServer) float64) (out []float64) {
		for _, s := range r.Servers {
			out = append(out, get(s))
		}
		return out
	}
	middle := func(get func(workloads.StepServer) float64) float64 {
		return goal("", "", "", pick(get), reported).Value
	}
	never := 0
	for _, s := range r.Servers {
		if s.Back < 0 {
			never++
		}
	}
	// One that never came back within the watch is no small figure: it is quoted as twice the limit, and counted.
	back := goal(fmt.Sprintf("load and hot set doubled at once: until the refault rate (5 s mean) is at most %.1f times its base, or %.0f/s, again",
		workloads.Within, workloads.Within*workloads.MinBase), "s", "<= 30 each",
		pick(func(s workloads.StepServer) float64 {
			if s.Back < 0 {
				return 2 * stepLimit
			}
			return s.Back
		}), reported)
	back.Pass = len(r.Servers) > 0 && back.Spread[1] <= stepLimit
	drift := middle(func(s workloads.StepServer) float64 { return s.Drift })
	if drift > driftMax {
		back.Pass, back.Verdict = false, "not settled"
	}
	back.Baseline = &Baseline{"refaults a second before the step", middle(func(s workloads.StepServer) float64 { return s.Base })}
	back.Extra = finite(map[string]float64{
		"never_back": float64(never), "base_refaults_per_s": back.Baseline.Value,
		"peak_refaults_per_s": middle(func(s workloads.StepServer) float64 { return s.Peak }),
		"end_refaults_per_s":  middle(func(s workloads.StepServer) float64 { return s.End }),
		"full_mb":             middle(func(s workloads.StepServer) float64 { return float64(s.Full) / 1e6 }),
		"settled_mb":          middle(func(s workloads.StepServer) float64 { return float64(s.Settled) / 1e6 }),
		"grown_mb":            middle(func(s workloads.StepServer) float64 { return float64(s.Grown) / 1e6 }),
		"drift_before_step":   drift, // a second
		"base_p99_us":         middle(func(s workloads.StepServer) float64 { return s.BaseP99 }),
		"peak_p99_us":         middle(func(s workloads.StepServer) float64 { return s.PeakP99 }),
		"end_p99_us":          middle(func(s workloads.StepServer) float64 { return s.EndP99 }),
	})
	return map[string]Goal{name: back}
}
