// Package rightsize says how much memory a workload should request, from what it used while memory that it did not need
// was taken away. It is pure: observations in, a recommendation out.
//
// Two kinds of time are told apart. While a law takes memory and nothing comes back, the usage is only an upper bound.
// While it rests, because the size is known to be safe or because something began to hurt, the usage is what the
// workload needs. A recommendation is the need's 98th percentile and at least the law's safe size, plus what the
// workload holds in a pool that nobody is charged for, plus a tenth; while there is no need to go by, it is the usage's
// percentile and says that this is an upper bound. It is never below the floor.
//
// Promise: a History has a fixed size (about 1.5 KB), and Observe allocates nothing. Ownership: a History belongs to
// one goroutine, or to its owner's lock; a copy is a snapshot. Failure: none; too little to go by is a low confidence.
// Non-goals: processor time, limits, applying anything.
package rightsize

import "time"

const (
	halfLife = 24 * time.Hour // of the weight of what was seen: yesterday counts half
	rank     = 0.98           // of the need; the rest of the time is what a node's spare memory is for
	margin   = 1.10
)

// Observation is one period of one cgroup.
type Observation struct {
	Period time.Duration
	Usage  int64 // bytes resident
	// Resting says that the law left the size alone because of what the workload needs: safe size, hold or a signal at
	// its target. False while it takes, and when it could not take for reasons of the host's.
	Resting bool
	Cost    float64 // share of the period spent on refaults, in [0,∞)
}

// History is what is remembered of one cgroup; the zero value is empty.
type History struct {
	watched time.Duration
	base    time.Duration // watched when a weight was 1
	resting time.Duration
	usage   histogram // all time
	need    histogram // resting time
	cost    float64   // weighted sum of Cost over resting time
}

// Observe adds one period. Senseless ones (no time, no usage) are left out.
func (h *History) Observe(o Observation) {
	if o.Period <= 0 || o.Usage <= 0 {
		return
	}
	h.watched += o.Period
	if h.watched-h.base > maxGrowth {
		f := 1 / weightAt(h.watched-h.base)
		h.usage.scale(f)
		h.need.scale(f)
		h.cost *= f
		h.base = h.watched
	}
	w := o.Period.Seconds() * weightAt(h.watched-h.base)
	h.usage.add(o.Usage, w)
	if !o.Resting {
		return
	}
	h.resting += o.Period
	h.need.add(o.Usage, w)
	if o.Cost > 0 { // not NaN
		h.cost += min(o.Cost, 1) * w
	}
}

// maxGrowth is when weights are scaled back to one, far from the end of float32.
const maxGrowth = 32 * halfLife
