package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// stallReport is what `spillway demo-stalls` writes.
type stallReport struct {
	Goals map[string]struct {
		What     string   `json:"what"`
		Value    float64  `json:"value"`
		Unit     string   `json:"unit"`
		Target   string   `json:"target"`
		Baseline Baseline `json:"baseline"`
		Runs     int      `json:"runs"`
		Spread   float64  `json:"spread"`
		Pass     bool     `json:"pass"`
		Verdict  string   `json:"verdict"`
	} `json:"goals"`
	SavingGap float64 `json:"saving_gap"`
	AtRest    struct {
		Median float64 `json:"median"`
	} `json:"faults_at_rest"`
	Laws map[string]struct {
		Named int `json:"named"`
		Zero  int `json:"zero"`
		PSI   struct {
			Median float64 `json:"median"`
		} `json:"psi_share"`
	} `json:"laws"`
}

// stalls injects refault stalls under both laws in alternating blocks and compares their steady state.
func (b *bench) stalls(ctx context.Context) (map[string]Goal, error) {
	out := filepath.Join(os.TempDir(), fmt.Sprintf("spillway-stalls-%d.json", os.Getpid()))
	defer os.Remove(out)
	args := []string{"demo-stalls", "--results", out}
	if !b.long {
		args = append(args, "--quick")
	}
	cmd := exec.CommandContext(ctx, b.exe, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	var r stallReport
	if err := readJSON(out, &r); err != nil {
		return nil, fmt.Errorf("wrote no figures: %w", err)
	}
	goals := map[string]Goal{}
	for i, key := range []string{"stalls_named", "false_alarms", "steady_faults"} {
		g, ok := r.Goals[key]
		if !ok {
			return nil, fmt.Errorf("no figure %q", key)
		}
		goals["G2"+[]string{"", "b", "c"}[i]] = Goal{
			What: g.What, Value: g.Value, Unit: g.Unit, Target: g.Target, Baseline: &g.Baseline, Runs: []float64{g.Value},
			Spread: [2]float64{g.Value - g.Spread/2, g.Value + g.Spread/2}, Pass: g.Pass, Verdict: g.Verdict,
			Extra: map[string]float64{
				"psi_counted_share": r.Laws["composite"].PSI.Median, "tmo_zero_steps": float64(r.Laws["tmo"].Zero),
				"tmo_named": float64(r.Laws["tmo"].Named), "saving_gap": r.SavingGap, "faults_at_rest": r.AtRest.Median, "blocks_or_stalls": float64(g.Runs),
			},
		}
	}
	return goals, nil
}
