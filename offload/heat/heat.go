// Package heat says how recently memory was touched: histograms of idle ages, the cold curve, and g-swap's
// promotion histogram. It is pure; offload/track reads the kernel.
//
// Invariants: ages are at least zero, ascending and distinct; bytes are never negative.
// Ownership: values belong to who got them; nothing here keeps a reference.
package heat

import "time"

// Age is an amount of memory that was last touched at least Idle ago, and less than the next Age's Idle ago.
type Age struct {
	Idle  time.Duration `json:"idle"`
	Bytes int64         `json:"bytes"`
}

// Histogram is memory by idle age, ascending. What a kernel can tell differs: four generations, a few hundred
// regions or one bit a page, so the bounds belong to the histogram.
type Histogram []Age

// Colder sums what was not touched for at least idle. A bucket that idle falls into is not counted: what cannot be
// told to be cold is warm.
func (h Histogram) Colder(idle time.Duration) (bytes int64) {
	for _, a := range h {
		if a.Idle >= idle {
			bytes += a.Bytes
		}
	}
	return bytes
}

// Total is all memory the histogram knows of, bytes.
func (h Histogram) Total() int64 { return h.Colder(0) }

// Reading is what access tracking knows of one cgroup at a moment.
type Reading struct {
	At    time.Time     `json:"at"`
	Span  time.Duration `json:"span"` // how long it has been watched; nothing can look colder than this
	Scan  time.Duration `json:"scan"` // distance of two scans, the resolution of ages
	Cold  Histogram     `json:"cold"` // resident memory by idle age, now
	Promo Histogram     `json:"promo,omitempty"`
	// Promo is memory that was touched again in the last minute, by the age it had reached. Nil: this source cannot see
	// it.
	WorkingSet int64  `json:"working_set"` // bytes touched within the last 120 s (g-swap's definition)
	Source     string `json:"source"`      // "mglru", "damon", "idle-bitmap", "clear-refs"
}
