package offload

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/tier"
)

// A cgroup whose files others evict is not blamed: what came back was not taken by its steps, which take anonymous
// memory. Nor is one in which no step was taken for long.
func TestOthersEvictionsAreNotBlamed(t *testing.T) {
	for _, mode := range []testkit.CgroupMode{testkit.CgroupV1, testkit.CgroupHybrid, testkit.CgroupV2} {
		t.Run(string(mode), func(t *testing.T) {
			m := newMachine(t, mode)
			m.Put("/app", testkit.MemGroup{})
			g := mixed
			m.Put("/app/web", g)
			w := newFakeWorker()
			a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
			at := ticks(a, 2, time.Now())
			for range 20 {
				g.Swap += int64(5 * mib) // at least what a step took
				g.RefaultFile += 10_000  // 40 MiB a second
				m.Put("/app/web", g)
				at = ticks(a, 1, at)
				if d := a.Decisions("/app/web", 1)[0]; d.Reason == "refault-cost" || d.Reason == "hold" {
					t.Fatalf("blamed: %+v", d)
				}
			}
			d := a.Decisions("/app/web", 1)[0]
			if d.Step == 0 || !strings.Contains(d.Detail, "39.1 MiB of file cache came back that no step had taken") {
				t.Errorf("decision %+v", d)
			}
			if row := a.Cgroups()[0]; row.Refaults < 9_000 {
				t.Errorf("the row hides the refaults: %v a second", row.Refaults)
			}
		})
	}
}

// What our own steps evict and the cgroup reads again stops them within two periods, also when it reads as fast as they
// take, so that its usage never falls.
func TestOurOwnEvictionsBrake(t *testing.T) {
	for _, mode := range []testkit.CgroupMode{testkit.CgroupV1, testkit.CgroupHybrid, testkit.CgroupV2} {
		t.Run(string(mode), func(t *testing.T) {
			m := newMachine(t, mode)
			m.Put("/app", testkit.MemGroup{})
			g := mixed
			m.Put("/app/web", g)
			w := newFakeWorker()
			a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
			at := ticks(a, 2, time.Now()) // the second takes the first step
			steps := len(w.steps)
			if steps == 0 {
				t.Fatal("no step to begin with")
			}
			for period := 1; ; period++ {
				g.RefaultFile += uint64(w.steps[len(w.steps)-1].Bytes) / 4096
				g.MajorFaults = g.RefaultFile
				m.Put("/app/web", g)
				at = ticks(a, 1, at)
				d := a.Decisions("/app/web", 1)[0]
				if d.Reason == "refault-cost" {
					break
				}
				if period == 2 {
					t.Fatalf("after two periods: %+v", d)
				}
			}
		})
	}
}

func TestComebackFades(t *testing.T) {
	var c comeback
	c.took(1*mib, 4*mib, true) // the cgroup read as it was taken from
	if c.taken != 4*mib {
		t.Errorf("took %d of a step that the kernel took whole", c.taken)
	}
	c.took(1*mib, 4*mib, false)
	if c.taken != 5*mib {
		t.Errorf("took %d", c.taken)
	}
	c.note(c.taken, 256, time.Second)
	if c.ours != 256 || c.others != 0 || c.taken != 0 {
		t.Errorf("%+v", c)
	}
	c.note(0, 0, 10*owedHalf)
	c.note(0, 1000, time.Second)
	if c.ours > 2 || c.others < 998 {
		t.Errorf("a claim never ends: %+v", c)
	}
}

// A refault that a major fault waited for costs what a page alone does, one that readahead brought what a page in order
// does; without pressure, where a wait in read(2) could not be seen, each costs the former.
func TestFileCost(t *testing.T) {
	const alone, inOrder = 80 * time.Microsecond, 1500 * time.Nanosecond
	for _, tc := range []struct {
		name                  string
		mode                  testkit.CgroupMode
		majors, anon, refault uint64
		want                  time.Duration
	}{
		{"all waited", testkit.CgroupV2, 100, 0, 100, alone},
		{"readahead", testkit.CgroupV2, 0, 0, 100, inOrder},
		{"half", testkit.CgroupV2, 50, 0, 100, (alone + inOrder) / 2},
		{"the faults were anonymous", testkit.CgroupV2, 50, 50, 100, inOrder},
		{"no pressure", testkit.CgroupV1, 0, 0, 100, alone},
		{"nothing came back", testkit.CgroupV2, 50, 0, 0, alone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t, tc.mode)
			m.Put("/app", testkit.MemGroup{})
			m.Put("/app/web", mixed)
			a := m.agent(newFakeWorker(), func(c *Config) { c.Roots = []string{"/app"} })
			now := time.Now()
			a.measure(measuring{file: &tier.FileCost{P50: alone, InOrder: inOrder, P99: time.Millisecond, Dir: "/var/tmp", Type: "ext4", At: now}}, now.Add(-time.Hour))
			ticks(a, 3, now)
			web := a.targets["/app/web"]
			web.stat.MajorFaults += tc.majors
			s, ok := a.sample(web, time.Second)
			if !ok {
				t.Fatal("no sample")
			}
			s.RefaultFile, s.RefaultAnon = tc.refault, tc.anon
			if got := a.fileCost(web, &s); got != tc.want {
				t.Errorf("cost %v, want %v", got, tc.want)
			}
			if f := a.Status().FileRefault; f == nil || time.Duration(f.P50) != alone || f.FileSystem != "ext4" {
				t.Errorf("status %+v", f)
			}
		})
	}
}

func TestFileCostUnknownSaysWhy(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	a := m.agent(newFakeWorker(), nil)
	a.measure(measuring{fileWhy: "no disk"}, time.Now())
	if s := a.Status(); s.FileRefault != nil || s.FileRefaultWhy != "no disk" {
		t.Errorf("%+v, %q", s.FileRefault, s.FileRefaultWhy)
	}
}

// TestPayingBackHidesNoStall: a large cgroup whose last step took too much is still read every period, so that a stall
// is answered at once.
func TestPayingBackHidesNoStall(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	g := busy
	m.Put("/app", g)
	w := newFakeWorker()
	w.answer = func(_ context.Context, s worker.Step) (worker.StepResult, error) {
		return worker.StepResult{Before: g.Usage, After: g.Usage - 8*s.Bytes}, nil // seven steps ahead
	}
	a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
	at := ticks(a, 3, time.Now())
	if n := len(w.steps); n != 1 {
		t.Fatalf("%d steps, want one and then paying back", n)
	}
	g.RefaultAnon += 1500
	m.Put("/app", g)
	ticks(a, 1, at)
	if d := a.Decisions("/app", 1); len(d) != 1 || d[0].Reason != string(policy.RefaultCost) {
		t.Errorf("a stall while paying back is answered by %+v", d)
	}
}
