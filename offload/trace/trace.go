// Package trace reads and writes traces of how jobs used their memory, for offload/replay; docs/format/trace.md says
// what the bytes mean.
//
// Promise: what Write wrote, Read yields again, in bytes rounded down to pages. A file that ends early or was damaged
// is an error, never a shorter trace. A reader holds one job, whatever the file says of its length.
// Ownership: the reader and writer given stay the caller's to close; a Trace of Read can be walked once.
// Failure: errors of kind Invalid for a file that is none of ours; those of the reader and writer as they are.
// Non-goals: where traces come from (`spillway offload record`) and what they tell (offload/replay).
package trace

import (
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload/policy"
)

// magic is the first line of a file; another format gets another number.
const magic = "spillway trace 1\n"

// Bounds that a file must keep, so that no length in it is believed before its bytes are there.
const (
	minInterval  = time.Second
	maxInterval  = 24 * time.Hour
	maxText      = 4096    // bytes of a name
	maxIntervals = 1 << 17 // of one job: a year and more at 5 min, 37 MB in memory
	maxJobs      = 1 << 24
	maxSeconds   = 1 << 33 // of any time: 270 years
	maxPages     = 1 << 38 // of any amount: 1 PiB
	unit         = 4096
)

// Tags before a job or an interval.
const (
	tagEnd  = 0
	tagMore = 1
)

func invalid(format string, a ...any) error {
	return errkind.Hint(errkind.New(errkind.Invalid, "trace: "+format, a...),
		"record it again with `spillway offload record`, or replay a made-up fleet with `spillway offload tune --generate 1`")
}

// ages in seconds, as the header names them.
func ages() (out [policy.Ages]uint64) {
	for i := range out {
		out[i] = uint64(policy.Age(i) / time.Second)
	}
	return out
}
