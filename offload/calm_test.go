package offload

import (
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/testkit"
)

// TestCalmHostNeedsNoReads: while the host does not stall, no cgroup can, and its files are not read; once the host
// stalls they are, and what a cgroup stalled during the pause is not blamed on the last period.
func TestCalmHostNeedsNoReads(t *testing.T) {
	m := newMachine(t, testkit.CgroupHybrid)
	g := busy
	g.Procs = []int{100}
	m.Put("/app", g)
	m.PutUnified("/own", 0, 0)
	m.Place(100, "/app", "/own")
	a := m.agent(newFakeWorker(), func(c *Config) { c.Roots = []string{"/app"} })
	some := func() (mem, io float64) {
		t.Helper()
		for _, c := range a.Cgroups() {
			if c.Path == "/app" {
				if !c.PSI {
					t.Fatalf("no pressure: %s", c.PSIWhy)
				}
				return c.MemSome, c.IOSome
			}
		}
		t.Fatal("no /app")
		return 0, 0
	}
	at := ticks(a, 6, time.Now())
	m.PutUnified("/own", 40_000, 0) // a host that does not count it would be a broken kernel: it shows what is read
	at = ticks(a, 1, at)
	if mem, io := some(); mem != 0 || io != 0 {
		t.Errorf("calm host: %v and %v read, want 0", mem, io)
	}
	m.pressure(3_000, 0)
	at = ticks(a, 1, at)
	if mem, _ := some(); mem != 0.003 {
		t.Errorf("after the pause: %v, want the host's 3 ms at most", mem)
	}
	m.pressure(20_000, 9_000)
	m.PutUnified("/own", 47_000, 8_000)
	at = ticks(a, 1, at)
	if mem, io := some(); mem != 0.007 || io != 0.008 {
		t.Errorf("%v and %v, want 7 and 8 ms", mem, io)
	}
	// A kernel sums up late: the cgroup is read for as long as its totals may lag behind the host's.
	m.PutUnified("/own", 47_000, 14_000)
	ticks(a, 1, at)
	if _, io := some(); io != 0.006 {
		t.Errorf("%v a period later, want 6 ms", io)
	}
}

func TestMostNeedsHistory(t *testing.T) {
	start := time.Unix(1000, 0)
	var c calm
	if _, _, ok := c.most(time.Second); ok {
		t.Error("knows a bound before it has seen anything")
	}
	for i := range 4 {
		c.note(hostTotals{at: start.Add(time.Duration(i) * time.Second), mem: uint64(i * 100), io: 7})
		_, _, ok := c.most(time.Second)
		if want := i == 3; ok != want {
			t.Errorf("after %d seconds: known %v, want %v", i, ok, want)
		}
	}
	if mem, io, _ := c.most(time.Second); mem != 300*time.Microsecond || io != 0 {
		t.Errorf("bound %v and %v, want 300µs and 0", mem, io)
	}
	var slow calm // periods longer than the lag: the last one says it all
	for i := range 3 {
		slow.note(hostTotals{at: start.Add(time.Duration(i) * 6 * time.Second), mem: uint64(i * i * 100)})
	}
	if mem, _, ok := slow.most(6 * time.Second); !ok || mem != 300*time.Microsecond {
		t.Errorf("bound %v known %v, want 300µs", mem, ok)
	}
	if _, _, ok := c.most(10 * time.Second); ok {
		t.Error("knows a bound for longer than it has watched")
	}
	c.forget()
	if _, _, ok := c.most(time.Second); ok {
		t.Error("knows a bound after an unreadable period")
	}
}
