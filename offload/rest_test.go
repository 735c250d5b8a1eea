package offload

import (
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/slo"
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

// After a stall a small cgroup is not read again before its hold is over; a large one is read in every period, and so
// is one whose sensitivity is learnt.
func TestSmallRestsThroughAHold(t *testing.T) {
	objective := []SLO{{Cgroup: "/app/a", P99: time.Second, Source: slo.Config{
		Prometheus: &slo.Prometheus{URL: "http://127.0.0.1:1/metrics", Metric: "took_seconds"},
	}}}
	for _, tt := range []struct {
		usage int64
		slo   []SLO
		reads int
	}{{50 * mib, nil, 0}, {400 * mib, nil, idleReads}, {50 * mib, objective, idleReads}} {
		m := newMachine(t, testkit.CgroupV2)
		g := testkit.MemGroup{Usage: tt.usage, Anon: tt.usage, RefaultAnon: 1}
		m.Put("/app/a", g)
		a := m.agent(newFakeWorker(), func(c *Config) { c.Roots, c.SLO = []string{"/app"}, tt.slo })
		at := ticks(a, 2, time.Now())
		g.RefaultAnon = 3000
		m.Put("/app/a", g)
		for n := 0; a.Decisions("/app/a", 1)[0].Reason != string(policy.RefaultCost); n++ {
			if at = ticks(a, 1, at); n > idleReads {
				t.Fatalf("the stall was not answered")
			}
		}
		tg := a.targets["/app/a"]
		reads, last := 0, tg.readAt
		for range idleReads {
			if at = ticks(a, 1, at); tg.readAt != last {
				reads, last = reads+1, tg.readAt
			}
		}
		if reads != tt.reads {
			t.Errorf("%d MiB: read %d times in %d periods of its hold, want %d", tt.usage/mib, reads, idleReads, tt.reads)
		}
	}
}
