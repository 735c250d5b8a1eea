package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
)

// Goal is one line of the results, in the shape all rooms share.
type Goal struct {
	What     string   `json:"what"`
	Value    number   `json:"value"`
	Unit     string   `json:"unit"`
	Target   string   `json:"target"`
	Baseline Baseline `json:"baseline"`
	Runs     int      `json:"runs"`
	Spread   number   `json:"spread"` // interquartile range, or the range where there are two values
	Pass     bool     `json:"pass"`
	Verdict  string   `json:"verdict"` // "pass", "missed", "too noisy"
}

// Baseline is what a goal's value is compared with.
type Baseline struct {
	Name  string `json:"name"`
	Value number `json:"value"`
}

// The goals, and the band in which the same thing twice must lie for a latency to mean anything.
const (
	savingGoal  = 0.25
	ratioGoal   = 1.10
	sidecarGoal = 0.60
	aaLow       = 0.9
	aaHigh      = 1.1

	passed = "pass"
	missed = "missed"
	noisy  = "too noisy"
)

// judge fills in the headline figures and all goals but the leftovers, which are not known yet.
func (res *Result) judge() {
	var savings, all []float64
	var faults, reads float64
	for _, h := range res.Halves {
		all = append(all, h.ratios...)
		for _, s := range h.Servers {
			if s.Offloaded {
				savings = append(savings, s.Saving)
				faults += s.FaultsPer1000 * float64(s.Reads)
				reads += float64(s.Reads)
			}
		}
	}
	ratio := summarize(all)
	res.RedisSaving, res.RedisP99Ratio = number(slices.Min(savings)), ratio.Median
	res.RedisFaultsPer1000 = number(faults / reads)

	res.Goals["redis_saving"] = newGoal(Goal{What: "net saving of the offloaded server, share of its memory, lesser half", Value: res.RedisSaving, Unit: "share",
		Target: fmt.Sprintf(">= %.2f", savingGoal), Runs: len(savings), Spread: number(slices.Max(savings) - slices.Min(savings)),
		Baseline: Baseline{"not offloaded", otherSaving(res)}}, res.RedisSaving >= savingGoal)
	latency := newGoal(Goal{What: "p99 of the offloaded server over the other's, median of the seconds", Value: res.RedisP99Ratio, Unit: "ratio",
		Target: fmt.Sprintf("<= %.2f", ratioGoal), Runs: ratio.N, Spread: ratio.iqr(),
		Baseline: Baseline{"A/A", res.AARatio}}, res.RedisP99Ratio <= ratioGoal)
	if !(res.AARatio >= aaLow && res.AARatio <= aaHigh) {
		latency.Pass, latency.Verdict = false, noisy
	}
	res.Goals["redis_p99_ratio"] = latency
	res.Goals["sidecar_cold_gone"] = newGoal(Goal{What: "share of the sidecar's cold heap that left memory", Value: res.SidecarColdGone, Unit: "share",
		Target: fmt.Sprintf(">= %.2f", sidecarGoal), Runs: 1, Baseline: Baseline{"not offloaded", 0}}, res.SidecarColdGone >= sidecarGoal)
}

// otherSaving is what the server that was not offloaded seems to have saved, mean of the halves: an error bar.
func otherSaving(res *Result) number {
	var xs []float64
	for _, h := range res.Halves {
		for _, s := range h.Servers {
			if !s.Offloaded {
				xs = append(xs, s.Saving)
			}
		}
	}
	return number(mean(xs))
}

// newGoal gives g its verdict.
func newGoal(g Goal, ok bool) Goal {
	g.Pass, g.Verdict = ok, missed
	if ok {
		g.Verdict = passed
	}
	return g
}

func (res *Result) addLeftovers(names []string) {
	res.Leftovers, res.LeftoverNames = len(names), names
	res.Goals["leftovers"] = leftoverGoal(names)
}

func leftoverGoal(names []string) Goal {
	return newGoal(Goal{What: "things still there after everything was put back", Value: number(len(names)), Unit: "count",
		Target: "0", Runs: 1, Baseline: Baseline{"before", 0}}, len(names) == 0)
}

// verdict is nil when all goals were met, else one sentence a goal. Noise alone is errkind.Unknown: the demo cannot
// tell.
func (res *Result) verdict() error {
	noise := fmt.Sprintf("the same thing twice gave a ratio of %.2f, outside %.1f to %.1f", res.AARatio, aaLow, aaHigh)
	return judgement(res.Goals, []string{"redis_saving", "redis_p99_ratio", "sidecar_cold_gone", "leftovers"}, noise)
}

// judgement turns the verdicts into one error, nil when every goal passed. noise explains "too noisy".
func judgement(goals map[string]Goal, order []string, noise string) error {
	var missing, unclear []string
	for _, name := range order {
		g, ok := goals[name]
		switch {
		case !ok || g.Pass:
		case g.Verdict == noisy:
			unclear = append(unclear, fmt.Sprintf("too noisy to judge %s: %s", name, noise))
		default:
			missing = append(missing, fmt.Sprintf("goal %s: %s is %.3g, wanted %s", g.Verdict, name, g.Value, g.Target))
		}
	}
	if len(missing) > 0 {
		return errors.New("demo: " + strings.Join(append(missing, unclear...), "; "))
	}
	if len(unclear) > 0 {
		return errkind.Hint(errkind.New(errkind.Unknown, "demo: %s", strings.Join(unclear, "; ")),
			"stop what else runs on this machine and run it again")
	}
	return nil
}

// write stores the result at path, whole or not at all. An empty path stores nothing.
func (res *Result) write(path string) error {
	if path == "" {
		return nil
	}
	return writeJSON(path, res)
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("demo: write results: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("demo: write results: %w", err)
	}
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("demo: write results: %w", err)
	}
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("demo: write results: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("demo: write results: %w", err)
	}
	return nil
}

// machine says on what the figures were measured.
func machine() string {
	memory := "unknown memory"
	if m, err := proc.ReadMeminfo("/"); err == nil {
		memory = fmt.Sprintf("%.0f GiB", math.Round(float64(m.Total)/(1<<30)))
	}
	return fmt.Sprintf("%s, %d CPUs, %s", sys.Uname(), runtime.NumCPU(), memory)
}
