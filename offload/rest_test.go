package offload

import (
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/testkit"
)

// A cgroup so close to its floor that no step can be due is watched by its usage, read every tenth period, and read at
// once when it grows.
func TestNearFloorReadsSeldom(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	floor := 100 * mib
	g := testkit.MemGroup{Usage: floor + mib, Anon: floor}
	m.Put("/app/a", g)
	a := m.agent(newFakeWorker(), func(c *Config) { c.Roots, c.Floor = []string{"/app"}, 100<<20 })
	tg := a.targets["/app/a"]
	reads, last, at := 0, time.Time{}, time.Now()
	tick := func(n int) {
		for range n {
			at = ticks(a, 1, at)
			if tg.readAt != last {
				reads, last = reads+1, tg.readAt
			}
		}
	}
	tick(1 + 2*(idleReads+1))
	if reads != 3 {
		t.Errorf("read %d times in %d periods, want 3: at first and every %dth", reads, 1+2*(idleReads+1), idleReads+1)
	}
	g.Usage, g.Anon = floor+4*mib, floor+3*mib
	m.Put("/app/a", g)
	reads = 0
	tick(3)
	if reads != 3 {
		t.Errorf("read %d times in 3 periods after it grew", reads)
	}
}
