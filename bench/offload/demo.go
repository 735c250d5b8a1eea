package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// demoFigures are the keys `spillway demo` writes beside its goals.
type demoFigures struct {
	Saving    float64 `json:"redis_saving"`
	P99Ratio  float64 `json:"redis_p99_ratio"`
	Faults    float64 `json:"redis_faults_per_1000"`
	Sidecar   float64 `json:"sidecar_cold_gone"`
	AA        float64 `json:"aa_ratio"`
	Leftovers float64 `json:"leftovers"`
}

// demo runs the product's demo five times and quotes medians.
func (b *bench) demo(ctx context.Context) (map[string]Goal, error) {
	runs := 5
	if b.quick {
		runs = 1
	}
	var all []demoFigures
	for i := range runs {
		out := filepath.Join(os.TempDir(), fmt.Sprintf("spillway-demo-%d-%d.json", os.Getpid(), i))
		cmd := exec.CommandContext(ctx, b.exe, "demo", "offload", "--results", out)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return nil, err
		}
		var f demoFigures
		if err := readJSON(out, &f); err != nil {
			return nil, fmt.Errorf("demo run %d wrote no figures: %w", i+1, err)
		}
		os.Remove(out)
		all = append(all, f)
	}
	pick := func(get func(demoFigures) float64) (out []float64) {
		for _, f := range all {
			out = append(out, get(f))
		}
		return out
	}
	aa := goal("p99 ratio of two identical twins (A/A)", "ratio", "0.9 to 1.1", pick(func(f demoFigures) float64 { return f.AA }), func(v float64) bool { return v >= 0.9 && v <= 1.1 })
	p99 := goal("paired per-second p99, offloaded twin to the other", "ratio", "<= 1.10", pick(func(f demoFigures) float64 { return f.P99Ratio }), atMost(1.10))
	if !aa.Pass {
		p99.Pass, p99.Verdict = false, "too noisy"
	}
	return map[string]Goal{
		"G1":  goal("net saving of the offloaded redis", "share of its memory", ">= 0.25", pick(func(f demoFigures) float64 { return f.Saving }), atLeast(0.25)),
		"G1b": p99,
		"G1c": aa,
		"G1d": goal("major faults of the offloaded twin", "per 1,000 reads", "reported", pick(func(f demoFigures) float64 { return f.Faults }), func(float64) bool { return true }),
		"G1e": goal("cold heap of the sidecar gone", "share", ">= 0.60", pick(func(f demoFigures) float64 { return f.Sidecar }), atLeast(0.60)),
		"G1f": goal("things left behind", "count", "0", pick(func(f demoFigures) float64 { return f.Leftovers }), func(float64) bool { return maxOf(pick(func(f demoFigures) float64 { return f.Leftovers })) == 0 }),
	}, nil
}
