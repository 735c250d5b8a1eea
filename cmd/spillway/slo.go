package main

import (
	"fmt"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
)

// sloLines say what is known of one cgroup's service level; nil is a cgroup without a signal.
func sloLines(s *admin.SLO) []string {
	if s == nil {
		return []string{"no SLO signal: targets of the class"}
	}
	learnt := fmt.Sprintf("multiplier %.3g× after %s (%s compared): %s", s.Multiplier, count(s.Blocks, "block"), count(s.Pairs, "pair"), s.Why)
	lines := []string{s.Source + ": " + sloSignal(*s), learnt}
	if s.PerMiB != nil {
		lines = append(lines, "costs "+interval(s.PerMiB, "%.3g")+" µs of p99 per MiB saved")
	} else if s.Pairs >= 6 { // fewer can say nothing
		lines = append(lines, "what a MiB saved costs is not known: holding hardly changed the saving")
	}
	if s.PerPermille != nil {
		lines = append(lines, "costs "+interval(s.PerPermille, "%.3g")+" µs of p99 per 0.1 % of the time spent on refaults")
	}
	if s.Inflation != nil {
		lines = append(lines, fmt.Sprintf("p99 while taking ÷ p99 while holding: %s, at most %.3g allowed", interval(s.Inflation, "%.3f"), s.MaxInflation))
	}
	return lines
}

// sloStatus is one line for each cgroup with a signal, for status; a node may have hundreds.
func sloStatus(list []admin.SLO) (lines []string) {
	const most = 10
	for i, s := range list {
		if i == most {
			return append(lines, fmt.Sprintf("and %d more: spillway status -o json", len(list)-most))
		}
		l := fmt.Sprintf("%s: %s, multiplier %.3g×, %s", s.Cgroup, sloSignal(s), s.Multiplier, count(s.Blocks, "block"))
		if s.PerMiB != nil {
			l += ", " + interval(s.PerMiB, "%.3g") + " µs per MiB"
		}
		lines = append(lines, l+", "+s.Source)
	}
	return lines
}

// sloSignal is the last window.
func sloSignal(s admin.SLO) string {
	if s.P99 <= 0 {
		return s.State + ": " + s.StateWhy
	}
	round := func(d admin.Duration) time.Duration { return time.Duration(d).Round(time.Microsecond) }
	l := fmt.Sprintf("p99 %v", round(s.P99))
	if s.AtLeast {
		l = fmt.Sprintf("p99 above %v", round(s.P99))
	}
	if s.MaxP99 > 0 {
		l += fmt.Sprintf(" of at most %v", time.Duration(s.MaxP99))
	}
	if s.StateWhy != "" {
		return l + " (" + s.State + ": " + s.StateWhy + ")"
	}
	return l
}

// interval prints an estimate with its 95 % interval.
func interval(i *admin.Interval, format string) string {
	bound := func(v *float64, none string) string {
		if v == nil {
			return none
		}
		return fmt.Sprintf(format, *v)
	}
	return fmt.Sprintf(format+" (95 %%: %s to %s)", i.Estimate, bound(i.Low, "-∞"), bound(i.High, "∞"))
}
