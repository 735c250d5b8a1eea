// Package replay says what the law gswap would have done to a fleet, from a trace of how that fleet used its memory,
// and searches for the settings that save most within a promotion target. It is the offline half of g-swap
// (Lagar-Cavilla et al., ASPLOS 2019, section 5.3): no kernel, no machine, a week of a thousand jobs in seconds.
//
// Invariants: the same trace and the same seed give the same report; nothing is learnt from an interval before it
// was decided; the age a replay decides on comes from policy.Threshold, the code the daemon runs.
// Ownership: a Job that a Trace yields is valid until the next one; results belong to the caller. One goroutine.
// Failure: an error of the trace's source ends a replay and is returned as it is, and so does the end of its context;
// settings out of range are refused.
// Non-goals: reading and writing traces (offload/trace). Replay does not model time to reclaim, nor that the
// kernel picks pages by its own order: it is the published model, in which what has reached the age is stored.
package replay

import (
	"iter"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
)

// Interval is what one job did in one interval, in bytes.
type Interval struct {
	WorkingSet int64              // touched within policy.Age(0)
	Cold       [policy.Ages]int64 // idle for policy.Age(i) or longer, and less than Age(i+1), at the interval's end
	Promo      [policy.Ages]int64 // touched again in the interval after being idle for that long
}

// Memory is all that the job had.
func (v *Interval) Memory() (n int64) {
	n = v.WorkingSet
	for _, b := range v.Cold {
		n += b
	}
	return n
}

// Job is one job's life, as far as the trace saw it.
type Job struct {
	Name      string        // from the machine that recorded it: hostile text
	Start     time.Duration // of its first interval, since the trace began
	Age       time.Duration // it had reached at Start; 0 when it began in the trace
	Intervals []Interval
}

// Trace is a fleet, job by job.
type Trace struct {
	Interval time.Duration // length of an interval, the same for all; 5 min as published
	Source   string        // who saw it: "mglru", "damon", …, "generated", "refaults"
	Jobs     iter.Seq2[*Job, error]
}

// Fleet sums up what a trace holds.
type Fleet struct {
	Jobs    int     `json:"jobs"`
	Minutes float64 `json:"job_minutes"`
	Memory  float64 `json:"memory_bytes"` // of all jobs together, averaged over the time in which any ran
	Cold    float64 `json:"cold"`         // share of it that was idle for policy.Age(0), in [0,1]
	// Shares of the jobs' own memory that were cold: the tenth, fiftieth and ninetieth job of a hundred.
	JobCold [3]float64 `json:"job_cold"`
}
