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
		over, rest = append(over, p[0].FaultsPerMinute), append(rest, p[1].FaultsPerMinute)
		equal = append(equal, p[1].faultsWhileSaving(p[0].Saving))
		gap = append(gap, p[0].Saving-p[1].Saving)
	}
	ratio := summarize(ratios(over, equal))
	res.SavingGap, res.AtRest = number(mean(gap)), summarize(ratios(over, rest))
	g := newGoal(Goal{What: "major faults of composite at rest over tmo's while it saved as much, median of the pairs", Value: ratio.Median, Unit: "ratio",
		Target: fmt.Sprintf("<= %.1f", steadyGoal), Runs: ratio.N, Spread: ratio.iqr(),
		Baseline: Baseline{"tmo, faults a minute", summarize(equal).Median}}, float64(ratio.Median) <= steadyGoal)
	if ratio.N < len(over) || ratio.N == 0 {
		g.Pass, g.Verdict = false, "no equal saving"
	}
	res.Goals["steady_faults"] = g
}

// faultsWhileSaving are the major faults a minute in the part of the block in which the server saved about so much, NaN
// when that was too short.
func (s Steady) faultsWhileSaving(saving float64) float64 {
	var seconds, faults float64
	for i := range max(0, len(s.Track)-1) {
		a, b := s.Track[i], s.Track[i+1]
		if math.Abs(a.Saving-saving) <= sameSaving && math.Abs(b.Saving-saving) <= sameSaving {
			seconds += b.Second - a.Second
			faults += float64(b.Faults - a.Faults)
		}
	}
	if seconds < leastEqual.Seconds() {
		return math.NaN()
	}
	return faults / seconds * 60
}

// pairs joins neighbouring blocks of different laws, server by server, composite first.
func (res *StallResult) pairs() (ps [][2]Steady) {
	const twins = 2
	for n := 0; n+2*twins <= len(res.Steady); n += 2 * twins {
		for i := range twins {
			a, b := res.Steady[n+i], res.Steady[n+twins+i]
			if a.Law != policy.Composite {
				a, b = b, a
			}
			ps = append(ps, [2]Steady{a, b})
		}
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
		t.Row(fmt.Sprint(s.Block), s.Law, s.Server, mb(s.Usage), fmt.Sprintf("%.1f %%", 100*s.Saving), fmt.Sprintf("%.0f", s.FaultsPerMinute))
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
