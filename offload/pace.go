package offload

import "time"

// turnsPerSecond is how many managed cgroups get a turn in a second at most. At 200 turns a second the daemon costs one
// to two per cent of a core (docs/bench/offload.md); a node with thousands of cgroups is decided on more slowly instead
// of costing more.
const turnsPerSecond = 400

// stride is how many periods apart a cgroup's turns are.
func stride(managed int, period time.Duration) int {
	perPeriod := max(1, int(turnsPerSecond*period.Seconds()))
	return max(1, (managed+perPeriod-1)/perPeriod)
}

// turns gives every managed cgroup whose turn it is one.
func (a *Agent) turns(now time.Time, period time.Duration) {
	managed := 0
	for _, t := range a.targets {
		if t.managed {
			managed++
		}
	}
	a.managed = managed
	every := stride(managed, a.cfg.Period)
	for _, t := range a.targets {
		if t.managed && t.place%every == a.turn%every {
			a.decide(t, now, period)
		}
	}
	a.turn++
}
