package main

import (
	"context"
	"fmt"
	"math"
	"path"

	"github.com/spillway-io/spillway/bench/workloads"
)

// nodeSaving asks what a whole small node saves, beside what was published for a fleet: W.node.
func nodeSaving(ctx context.Context, name string, cfg workloads.Config) (map[string]Goal, []string, error) {
	r, err := workloads.Node(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	goals := nodeGoals(name, r)
	all, tax, app := r.Saving()
	fmt.Printf("  node: %.1f %% of used memory saved: %.1f %% by applications, %.1f %% by tax\n"+
		"  published for a fleet (TMO, ASPLOS 2022): 20 to 32 %%: 7 to 19 %% by applications, 13 %% by tax\n"+
		"  this mix: %.0f %% of used memory is tax, %.0f %% is cold by design\n", 100*all, 100*app, 100*tax, 100*r.TaxShare(), 100*r.ColdShare())
	return goals, r.Leftovers, nil
}

func nodeGoals(name string, r *workloads.NodeResult) map[string]Goal {
	all, tax, app := r.Saving()
	percent := func(what, target string, v, published float64) Goal {
		g := goal(what, "% of used memory", target, []float64{100 * v}, reported)
		g.Baseline = &Baseline{"published, the least of " + target, published}
		g.Target = "published " + target
		return g
	}
	node := percent("net saving of a node of two services, a batch job and three sidecars", "20 to 32", all, 20)
	node.Extra = finite(map[string]float64{"tax_percent_of_used": 100 * r.TaxShare(), "cold_percent_by_design": 100 * r.ColdShare(), "major_faults_per_1000": r.Faults})
	for _, m := range r.Members {
		key := path.Base(m.Name)
		node.Extra[key+"_mb"], node.Extra[key+"_saved_mb"], node.Extra[key+"_cold"] = float64(m.Start)/1e6, float64(m.Saved)/1e6, m.Cold
	}
	goals := map[string]Goal{
		name:          node,
		name + ".app": percent("of it by the services and the batch job", "7 to 19", app, 7),
		name + ".tax": percent("of it by the sidecars", "13", tax, 13),
	}
	var ratio, still []float64
	for _, l := range r.Reads {
		ratio, still = append(ratio, l.After/l.Before), append(still, l.Before/l.First)
	}
	if len(ratio) > 0 && !math.IsNaN(ratio[0]+still[0]) {
		aa := goal("p99 of the services before the agent, twice (A/A)", "ratio", "0.9 to 1.1", still, func(v float64) bool { return v >= 0.9 && v <= 1.1 })
		p99 := goal("p99 of the services in the last part over that before the agent; not at the same time", "ratio", "reported", ratio, reported)
		p99.Baseline = &Baseline{"A/A", aa.Value}
		if !aa.Pass {
			p99.Verdict = "too noisy"
		}
		aa.Target, aa.Pass = "reported", true // no target depends on it
		goals[name+".p99"], goals[name+".aa"] = p99, aa
	}
	return goals
}
