package mix

import (
	"fmt"
	"time"
)

// Place is where a cgroup's anonymous pages belong.
type Place string

const (
	Nowhere Place = "nowhere" // stays in memory
	InPool  Place = "pool"
	OnDisk  Place = "disk"
)

// Home is what the placement of one cgroup's pages depends on.
type Home struct {
	Pool, Disk bool          // there is one, and it can take pages
	Poor       bool          // the pages do not shrink (see Pool)
	Idle       time.Duration // how long they are expected to stay out, 0 for unknown
}

// LongCold is how long a page must be expected to stay out before a disk is the better place for it even though it
// shrinks. In the pool it goes on occupying a third of itself; from a disk it takes 0.1 to 10 ms longer to come back,
// once. An hour is far beyond the reuse time of any page that a service is known to need (g-swap calls two minutes
// cold).
const LongCold = time.Hour

// Put is the rule of placement: what shrinks and may be needed soon goes to the pool, what does not shrink or is long
// cold to the disk.
func Put(h Home) (Place, string) {
	switch {
	case !h.Pool && !h.Disk:
		return Nowhere, "there is neither a pool nor a disk for them"
	case !h.Disk && h.Poor:
		return Nowhere, "they do not shrink, and there is no disk behind the pool"
	case !h.Disk:
		return InPool, "there is no disk behind the pool"
	case !h.Pool:
		return OnDisk, "there is no pool"
	case h.Poor:
		return OnDisk, "they do not shrink"
	case h.Idle >= LongCold:
		return OnDisk, fmt.Sprintf("they stay out for about %v, longer than %v", h.Idle.Round(time.Minute), LongCold)
	}
	return InPool, "they shrink and may be needed soon"
}
