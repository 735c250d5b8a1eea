package track

import "time"

// Quicken has DAMON sample at this distance, whatever it costs (an emulated processor is slow), and watch processes
// from their birth on.
func Quicken(t *Tracker, sample time.Duration) {
	d := t.src.(*damon)
	d.sample, d.ripe, d.share = sample, 0, 100
}
