package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spillway-io/spillway/bench/laws"
	"github.com/spillway-io/spillway/bench/workloads"
	"github.com/spillway-io/spillway/offload/policy"
)

// twinGoals are the goals named W.…: each workload under -law, the build, and one server under every law.
// A goal W.x is accompanied by W.x.p99 and W.x.aa.
func (b *bench) twinGoals() (out []goalRun) {
	cfg := workloads.Config{Exe: b.exe, Law: b.law, Quick: b.quick, Out: os.Stdout}
	suffix := b.lawSuffix()
	for _, w := range workloads.All(cfg) {
		name := "W." + w.Name + suffix
		out = append(out, goalRun{name, func(ctx context.Context) (map[string]Goal, error) { return pairGoals(ctx, name, cfg, w) }})
	}
	if slices.Contains(policy.Names(), b.law) { // the real daemon builds, under a law of its own
		name := "W.build" + suffix
		out = append(out, goalRun{name, func(ctx context.Context) (map[string]Goal, error) { return buildGoals(ctx, name, cfg) }})
	}
	for _, law := range lawNames() {
		cfg, name := cfg, "W.redis."+law
		cfg.Law = law
		out = append(out, goalRun{name, func(ctx context.Context) (map[string]Goal, error) {
			return pairGoals(ctx, name, cfg, workloads.Redis(cfg))
		}})
	}
	return out
}

// lawSuffix is what -law adds to a goal's name.
func (b *bench) lawSuffix() string {
	if b.law == policy.Composite {
		return ""
	}
	return "." + b.law
}

// lawNames lists what can decide in these experiments: nothing, the published laws, the product's.
func lawNames() []string {
	return slices.Concat([]string{workloads.Off}, laws.Names(), slices.Sorted(slices.Values(policy.Names())))
}

// wanted says whether -goal asks for a goal: by its name, by a group such as W or W.redis, or, when nothing is
// asked for, for everything but the W goals, which take more than another hour, and G9, which is G4 for a quarter of
// one.
func wanted(only, name string) bool {
	work := strings.HasPrefix(name, "W")
	switch only {
	case "":
		return !work && name != "G9"
	case "W":
		return work
	}
	return only == name || strings.HasPrefix(name, only+".")
}

// pairGoals measures one pair of twins. Without its program the goal is left out, and says why.
func pairGoals(ctx context.Context, name string, cfg workloads.Config, w workloads.Workload) (map[string]Goal, error) {
	begin := time.Now()
	r, err := workloads.Run(ctx, cfg, w)
	var missing *workloads.Missing
	if errors.As(err, &missing) {
		fmt.Printf("%s: left out: %v\n", name, missing)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p99 := r.P99()
	if math.IsNaN(p99.Median) || math.IsNaN(r.AA.Median) {
		return nil, fmt.Errorf("%s: no whole second of both twins was measured", name)
	}
	saving := goal(w.What+": net saving of the offloaded twin", "share of its memory", "reported", r.Nets(), reported)
	saving.Extra = finite(pairExtra(r))
	saving.Extra["took_s"] = time.Since(begin).Seconds()
	aa := goal("p99 ratio of the two twins, both off (A/A)", "ratio", "0.9 to 1.1", []float64{r.AA.Median}, func(v float64) bool { return v >= 0.9 && v <= 1.1 })
	aa.Spread = [2]float64{r.AA.Q1, r.AA.Q3}
	latency := Goal{
		What: "p99 of the offloaded twin over the other's, second by second: median and quartiles", Value: p99.Median, Unit: "ratio", Target: "<= 1.10",
		Baseline: &Baseline{"A/A", r.AA.Median}, Spread: [2]float64{p99.Q1, p99.Q3}, Pass: p99.Median <= 1.10,
	}
	for _, h := range r.Halves {
		latency.Runs = append(latency.Runs, goal("", "", "", h.Ratio, reported).Value)
	}
	if w.Adversary != nil {
		latency.Target, latency.Pass = "reported", true
	} else if !aa.Pass {
		latency.Pass, latency.Verdict = false, "too noisy"
	}
	goals := map[string]Goal{name: saving, name + ".p99": latency, name + ".aa": aa}
	if w.Adversary != nil { // it has no objective that noise could hide
		aa.Target, aa.Pass = "reported", true
		goals[name+".aa"] = aa
	}
	return goals, leftBehind(r.Leftovers)
}

func reported(float64) bool { return true }

func leftBehind(names []string) error {
	if len(names) > 0 {
		return fmt.Errorf("left behind: %q", names)
	}
	return nil
}

// pairExtra is everything else about a pair: means of the two halves, of the offloaded twin and of the other.
func pairExtra(r *workloads.Result) map[string]float64 {
	out := map[string]float64{}
	for word, of := range map[string]func(workloads.Half) workloads.Twin{
		"on":  func(h workloads.Half) workloads.Twin { return h.Twins[h.On] },
		"off": func(h workloads.Half) workloads.Twin { return h.Twins[1-h.On] },
	} {
		for key, pick := range map[string]func(workloads.Twin) float64{
			"start_mb": func(t workloads.Twin) float64 { return float64(t.Start) / 1e6 }, "end_mb": func(t workloads.Twin) float64 { return float64(t.End) / 1e6 },
			"saving": func(t workloads.Twin) float64 { return t.Saving }, "p50_us": func(t workloads.Twin) float64 { return t.P50 },
			"p99_us": func(t workloads.Twin) float64 { return t.P99 }, "requests_per_s": func(t workloads.Twin) float64 { return t.Throughput },
			"major_faults_per_1000": func(t workloads.Twin) float64 { return t.MajorPer1000 }, "refaults_per_1000": func(t workloads.Twin) float64 { return t.RefaultPer1k },
			"stall_share": func(t workloads.Twin) float64 { return t.Stall }, "limit_stalls": func(t workloads.Twin) float64 { return float64(t.LimitStalls) },
			"oom_kills": func(t workloads.Twin) float64 { return float64(t.OOMKills) }, "steps": func(t workloads.Twin) float64 { return float64(t.Steps) },
			"taken_mb": func(t workloads.Twin) float64 { return float64(t.Taken) / 1e6 },
		} {
			out[word+"_"+key] = r.Mean(func(h workloads.Half) float64 { return pick(of(h)) })
		}
	}
	for key, pick := range map[string]func(workloads.Half) float64{
		"pool_growth_mb": func(h workloads.Half) float64 { return float64(h.Pool) / 1e6 }, "stored_growth_mb": func(h workloads.Half) float64 { return float64(h.Stored) / 1e6 },
		"swapped_out_mb": func(h workloads.Half) float64 { return float64(h.Out) / 1e6 }, "to_device_mb": func(h workloads.Half) float64 { return float64(h.Device) / 1e6 },
		"zswap_refused_pages": func(h workloads.Half) float64 { return float64(h.Poor) }, "dying_cgroups_growth": func(h workloads.Half) float64 { return float64(h.Dying) },
	} {
		out[key] = r.Mean(pick)
	}
	names, count := r.Reasons()
	for _, n := range names {
		out["decided_"+n] = float64(count[n])
	}
	return out
}

// finite leaves out what is unknown: JSON has no word for it.
func finite(m map[string]float64) map[string]float64 {
	maps.DeleteFunc(m, func(_ string, v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	return m
}

// buildGoals builds this repository's command with a cold cache, without and with the agent in turn.
func buildGoals(ctx context.Context, name string, cfg workloads.Config) (map[string]Goal, error) {
	pkg, pairs := "./cmd/spillway", 1
	if cfg.Quick {
		pkg = "./internal/cgroup"
	}
	dir, err := filepath.Abs("..")
	if err != nil {
		return nil, err
	}
	r, err := workloads.Build(ctx, cfg, dir, pkg, pairs)
	var missing *workloads.Missing
	if errors.As(err, &missing) {
		fmt.Printf("%s: left out: %v\n", name, missing)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ratio, saved := r.Ratio()
	wall := goal("go build "+pkg+" with a cold cache: wall time with the agent over that without", "ratio", "<= 1.10", ratio, atMost(1.10))
	wall.Baseline = &Baseline{"seconds without", r.Off[0].Wall.Seconds()}
	memory := goal("mean footprint of the build that the agent saved", "share", "reported", saved, reported)
	memory.Extra = finite(map[string]float64{
		"off_s": r.Off[0].Wall.Seconds(), "on_s": r.On[0].Wall.Seconds(),
		"off_mean_mb": float64(r.Off[0].Mean) / 1e6, "on_mean_mb": float64(r.On[0].Mean) / 1e6,
		"off_peak_mb": float64(r.Off[0].Peak) / 1e6, "on_peak_mb": float64(r.On[0].Peak) / 1e6,
		"off_major_faults": float64(r.Off[0].Major), "on_major_faults": float64(r.On[0].Major),
		"on_steps": float64(r.On[0].Steps), "on_taken_mb": float64(r.On[0].Taken) / 1e6,
	})
	return map[string]Goal{name: wall, name + ".memory": memory}, leftBehind(r.Leftovers)
}
