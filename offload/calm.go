package offload

import "time"

// calm remembers the host's pressure totals of the last periods. While a task of any cgroup stalls, the host counts it
// too, so no cgroup can have stalled for longer than the host: while the whole host is calm, the pressure files of
// hundreds of cgroups need not be read at all. It belongs to the goroutine in Run.
type calm struct {
	ring [16]hostTotals // newest last; unread ones have no time
}

// hostTotals are the host's "some" totals at a moment, microseconds.
type hostTotals struct {
	at      time.Time
	mem, io uint64
}

// psiLag is how far behind the kernel's totals may be: they are summed up every 2 s, by a clock of each group's own.
const psiLag = 2500 * time.Millisecond

func (c *calm) note(now hostTotals) {
	copy(c.ring[:], c.ring[1:])
	c.ring[len(c.ring)-1] = now
}

// forget says that the totals could not be read.
func (c *calm) forget() { *c = calm{} }

// most is how long any cgroup can have stalled in the last span, and in what the totals may lag behind it. ok is false
// when that much has not been seen.
func (c *calm) most(span time.Duration) (mem, io time.Duration, ok bool) {
	span = max(span, psiLag)
	last := c.ring[len(c.ring)-1]
	for i := len(c.ring) - 2; i >= 0 && !c.ring[i].at.IsZero(); i-- {
		if before := c.ring[i]; last.at.Sub(before.at) >= span {
			return usec(diff(last.mem, before.mem)), usec(diff(last.io, before.io)), true
		}
	}
	return 0, 0, false
}

// negligible is the share of a law's pressure target below which pressure is read as none.
const negligible = 0.1
