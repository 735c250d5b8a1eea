package sim

import (
	"time"

	"github.com/spillway-io/spillway/offload/heat"
)

// ages are what access tracking sees of one cgroup. Every page has a true age here, so the readings are those of a
// perfect tracker with the resolution of its scans: the eight bits of age a page that g-swap keeps.
type ages struct {
	scan   int32 // ticks between two scans; 0: nobody tracks
	tick   time.Duration
	minute [ages8]int64   // pages touched again in the last minute, by the age they had reached, in scans
	slots  [][ages8]int64 // the same for each of the ticks that make up the minute
	slot   int

	scanned int32 // tick of the latest reading
	latest  *heat.Reading
}

const ages8 = 256

func newAges(scan, tick time.Duration) *ages {
	a := &ages{tick: tick}
	if scan > 0 {
		a.scan = int32(max(1, scan/tick))
		a.slots = make([][ages8]int64, max(1, time.Minute/tick))
	}
	return a
}

// again notes that a page of that age, in ticks, was touched.
func (a *ages) again(age int32) {
	if a.scan == 0 {
		return
	}
	if n := age / a.scan; n > 0 { // what was seen at the last scan did not get old
		a.slots[a.slot][min(n, ages8-1)]++
		a.minute[min(n, ages8-1)]++
	}
}

// next opens a tick and forgets what is older than a minute.
func (a *ages) next() {
	if a.scan == 0 {
		return
	}
	a.slot = (a.slot + 1) % len(a.slots)
	for i, n := range a.slots[a.slot] {
		a.minute[i] -= n
	}
	a.slots[a.slot] = [ages8]int64{}
}

// reading is the latest scan's. It is made anew when a scan is due.
func (a *ages) reading(c *cgroup) *heat.Reading {
	if a.scan == 0 {
		return nil
	}
	now := c.m.now
	elapsed := time.Duration(now) * a.tick
	if a.latest != nil && now/a.scan == a.scanned/a.scan {
		return a.latest
	}
	a.scanned = now
	var cold [ages8]int64
	working := int64(0)
	recent := now - int32(heat.WorkingSetIdle/a.tick)
	for i := range c.m.pages[c.first : c.first+c.n] {
		pg := &c.m.pages[c.first+int32(i)]
		if pg.flags&resident == 0 {
			continue
		}
		cold[min((now-pg.last)/a.scan, ages8-1)]++
		if pg.last > recent {
			working++
		}
	}
	a.latest = &heat.Reading{
		At: time.Unix(0, 0).Add(elapsed), Span: elapsed, Scan: time.Duration(a.scan) * a.tick,
		Cold: a.histogram(&cold, c.pageBytes()), Promo: a.histogram(&a.minute, c.pageBytes()),
		WorkingSet: working * c.pageBytes(), Source: "sim",
	}
	return a.latest
}

func (a *ages) histogram(n *[ages8]int64, each int64) heat.Histogram {
	h := make(heat.Histogram, 0, 16) // never nil: an empty one was seen to be empty
	for i, pages := range n {
		if pages > 0 {
			h = append(h, heat.Age{Idle: time.Duration(int32(i)*a.scan) * a.tick, Bytes: pages * each})
		}
	}
	return h
}
