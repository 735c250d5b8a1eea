package main

import (
	"context"

	"github.com/spillway-io/spillway/bench/workloads"
)

// coldStart counts how much of what was taken from servers of class latency came back, from their full size down to
// their rest: W11.
func coldStart(ctx context.Context, name string, cfg workloads.Config) (map[string]Goal, []string, error) {
	r, err := workloads.Reclaim(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return descentGoals(name, r), r.Leftovers, nil
}

// carefulStart is coldStart with a law that rests where a fiftieth of what it takes comes back, not a seventh.
func carefulStart(ctx context.Context, name string, cfg workloads.Config) (map[string]Goal, []string, error) {
	cfg.Targets = []string{"come_back: 0.02"}
	return coldStart(ctx, name, cfg)
}

// slowStart is coldStart at a quarter of the pace, which is still thirty times that of the default configuration.
func slowStart(ctx context.Context, name string, cfg workloads.Config) (map[string]Goal, []string, error) {
	cfg.Slower = 4
	return coldStart(ctx, name, cfg)
}

func descentGoals(name string, r *workloads.DescentResult) map[string]Goal {
	pick := func(get func(workloads.Descent) float64) []float64 {
		return []float64{get(r.Servers[0]), get(r.Servers[1])}
	}
	middle := func(get func(workloads.Descent) float64) float64 { return goal("", "", "", pick(get), reported).Value }
	right := goal("pages that had not come back a minute after they were taken, at least",
		"share of pages taken", ">= 0.97", pick(workloads.Descent.Accuracy), atLeast(0.97))
	right.Extra = finite(map[string]float64{
		"taken_pages": middle(func(d workloads.Descent) float64 { return float64(d.Taken) }),
		"late_pages":  middle(func(d workloads.Descent) float64 { return float64(d.Late) }),
		"back_pages":  middle(func(d workloads.Descent) float64 { return float64(d.Back) }),
		"full_mb":     middle(func(d workloads.Descent) float64 { return float64(d.Full) / 1e6 }),
		"rest_mb":     middle(func(d workloads.Descent) float64 { return float64(d.Rest) / 1e6 }),
		"at_rest":     middle(workloads.Descent.RestAccuracy), // -Inf when nothing was taken: left out
		"rest_taken":  middle(func(d workloads.Descent) float64 { return float64(d.RestTaken) }),
		"rest_back":   middle(func(d workloads.Descent) float64 { return float64(d.RestBack) }),
		"majors":      middle(func(d workloads.Descent) float64 { return float64(d.Major) }),
	})
	for _, d := range r.Servers {
		for reason, n := range d.Reasons {
			right.Extra["decided_"+reason] += float64(n)
		}
	}
	return map[string]Goal{name: right}
}
