package demo

import (
	"fmt"
	"io"
	"math"

	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/offload/policy"
)

// judge computes the goals, but for the leftovers.
func (res *StallResult) judge() {
	c, t := res.Laws[policy.Composite], res.Laws[policy.TMO]
	res.Goals["stalls_named"] = newGoal(Goal{What: "injected refault stalls that composite answered with a zero step naming refault cost within two periods",
		Value: number(c.Named), Unit: "count", Target: fmt.Sprintf(">= %d", namedGoal), Runs: len(c.Stalls),
		Baseline: Baseline{"tmo, zero steps for any reason", number(t.Zero)}}, c.Named >= namedGoal)
	alarms := float64(c.Alarms) / float64(c.Calm)
	res.Goals["false_alarms"] = newGoal(Goal{What: "calm periods in which composite stopped for a signal", Value: number(alarms), Unit: "share",
		Target: fmt.Sprintf("<= %.2f", alarmGoal), Runs: c.Calm,
		Baseline: Baseline{"tmo", number(float64(t.Alarms) / float64(t.Calm))}}, alarms <= alarmGoal)

	var over, equal, rest, gap []float64
	for _, p := range res.pairs() {
		over, rest = append(over, p.composite.FaultsPerMinute), append(rest, p.tmo.FaultsPerMinute)
		gap = append(gap, p.composite.Saving-p.tmo.Saving)
		if math.Abs(p.composite.Saving-p.held.Saving) <= sameSaving {
			equal = append(equal, p.held.FaultsPerMinute)
		} else {
			equal = append(equal, math.NaN())
		}
	}
	ratio := summarize(ratios(over, equal))
	res.SavingGap, res.AtRest = number(mean(gap)), summarize(ratios(over, rest))
	g := newGoal(Goal{What: "major faults of composite at rest over tmo's held at that size, median of the pairs", Value: ratio.Median, Unit: "ratio",
		Target: fmt.Sprintf("<= %.1f", steadyGoal), Runs: ratio.N, Spread: ratio.iqr(),
		Baseline: Baseline{"tmo, faults a minute", summarize(equal).Median}}, float64(ratio.Median) <= steadyGoal)
	if ratio.N < len(over) || ratio.N == 0 {
		g.Pass, g.Verdict = false, "no equal saving"
	}
	res.Goals["steady_faults"] = g
}

// atRest is one server in two neighbouring blocks.
type atRest struct {
	composite, tmo, held Steady
}

// pairs joins neighbouring blocks of different laws, server by server.
func (res *StallResult) pairs() (ps []atRest) {
	of := map[string]*atRest{}
	var order []string
	for _, s := range res.Steady {
		key := fmt.Sprint((s.Block-1)/2, s.Server)
		p := of[key]
		if p == nil {
			p = &atRest{}
			of[key] = p
			order = append(order, key)
		}
		switch {
		case s.Law == policy.Composite:
			p.composite = s
		case s.Held:
			p.held = s
		default:
			p.tmo = s
		}
	}
	for _, key := range order {
		ps = append(ps, *of[key])
	}
	return ps
}

func printStalls(w io.Writer, res *StallResult) {
	fmt.Fprintf(w, "\n%s\n\n", cli.Escape(res.Machine))
	t := cli.NewTable("LAW", ">STALLS", ">NAMED", ">ZERO STEP", ">STILL TOOK", ">PSI", ">CALM", ">FALSE ALARMS")
	for _, law := range []string{policy.Composite, policy.TMO} {
		s := res.Laws[law]
		t.Row(law, fmt.Sprint(len(s.Stalls)), fmt.Sprint(s.Named), fmt.Sprint(s.Zero), mb(s.Taken), percent(s.PSI.Median), fmt.Sprint(s.Calm), fmt.Sprint(s.Alarms))
	}
	t.Write(w)
	fmt.Fprint(w, "(NAMED: a zero step naming refault cost within two periods; PSI: share of the\nstall's cost that memory PSI saw; CALM: periods that no stall explains)\n\n")
	t = cli.NewTable("BLOCK", "LAW", "SERVER", ">RESIDENT", ">SAVED", ">FAULTS/MIN")
	for _, s := range res.Steady {
		law := s.Law
		if s.Held {
			law += ", held"
		}
		t.Row(fmt.Sprint(s.Block), law, s.Server, mb(s.Usage), fmt.Sprintf("%.1f %%", 100*s.Saving), fmt.Sprintf("%.0f", s.FaultsPerMinute))
	}
	t.Write(w)
	fmt.Fprintf(w, "at rest composite saves %+.1f points and has %.2f of tmo's faults\n\n", 100*res.SavingGap, res.AtRest.Median)
	printGoals(w, res.Goals, []string{"stalls_named", "false_alarms", "steady_faults", "leftovers"})
}

func percent(n number) string {
	if math.IsNaN(float64(n)) {
		return "unknown"
	}
	return fmt.Sprintf("%.1f %%", 100*n)
}
