package offload

import (
	"fmt"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/testkit"
)

func TestStride(t *testing.T) {
	for _, c := range []struct {
		managed int
		period  time.Duration
		want    int
	}{
		{0, time.Second, 1}, {1, time.Second, 1}, {400, time.Second, 1}, {401, time.Second, 2}, {2000, time.Second, 5},
		{2400, 6 * time.Second, 1}, {2401, 6 * time.Second, 2}, {100_000, 10 * time.Minute, 1},
	} {
		if got := stride(c.managed, c.period); got != c.want {
			t.Errorf("%d cgroups, a period of %v: every %d periods, want %d", c.managed, c.period, got, c.want)
		}
	}
}

// TestManyCgroupsTakeTurns: with more cgroups than turns a second, each still gets its turn, and counts what happened
// since its last one over the time since then.
func TestManyCgroupsTakeTurns(t *testing.T) {
	m := newMachine(t, testkit.CgroupV1) // which holds the fewest files open
	const n = turnsPerSecond + 1         // every second period
	m.Put("/app", testkit.MemGroup{Usage: n * 400 * mib})
	for i := range n {
		m.Put(fmt.Sprintf("/app/job-%d", i), busy)
	}
	w := newFakeWorker()
	a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
	at := ticks(a, 2, time.Now()) // everyone is read once
	if got := len(w.taken()); got != 0 {
		t.Fatalf("%d cgroups were taken from before two reads", got)
	}
	ticks(a, 2, at)
	if got := len(w.taken()); got != n {
		t.Errorf("%d of %d cgroups had a turn", got, n)
	}
	for _, s := range w.steps {
		if s.Cgroup == "/app/job-0" && s.Bytes > 4*mib {
			t.Errorf("a step of %d bytes", s.Bytes)
		}
	}
	if d, err := a.Explain("/app/job-0"); err != nil || len(d.Decisions) == 0 {
		t.Errorf("explain: %+v, %v", d, err)
	}
	for _, tg := range a.targets {
		if tg.managed && tg.watched != time.Second+2*time.Second {
			t.Fatalf("%s has been watched for %v, want a period and two", tg.path, tg.watched)
		}
	}
}

func TestManyCgroupsRememberLess(t *testing.T) {
	for n, want := range map[int]int{0: kept, 1: kept, 100: kept, 200: kept / 2, 400: kept / 4, 2000: keptLeast, 100_000: keptLeast} {
		if got := memory(n); got != want {
			t.Errorf("%d cgroups remember %d decisions each, want %d", n, got, want)
		}
	}
}
