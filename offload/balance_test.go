package offload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/tier"
)

// mixed has plenty of both kinds.
var mixed = testkit.MemGroup{Usage: 400 * mib, Anon: 200 * mib, File: 200 * mib}

func (w *fakeWorker) choices() (list []cgroup.Swappiness) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.steps {
		list = append(list, s.Swappiness)
	}
	return list
}

// kernel makes m look like a release with zswap before a swap file.
func (m *machine) kernel(release string) {
	m.file("proc/sys/kernel/osrelease", release+"\n")
	for name, text := range map[string]string{"enabled": "Y", "compressor": "lzo", "max_pool_percent": "20"} {
		m.file("sys/module/zswap/parameters/"+name, text+"\n")
	}
}

func TestChoicesReachTheWorker(t *testing.T) {
	for _, tc := range []struct {
		name, release string
		mode          testkit.CgroupMode
		group         testkit.MemGroup
		change        func(*Config)
		want          func(cgroup.Swappiness) bool
		detail        string
	}{
		{"configured", "6.12.0", testkit.CgroupV2, mixed, func(c *Config) {
			c.Params = map[class.Class]Targets{"latency": {Ratio: 0.01, FileOnly: true}}
		}, func(s cgroup.Swappiness) bool { return s == cgroup.FileOnly }, "its class says so"},
		{"configured, v1", "6.18.0", testkit.CgroupV1, mixed, func(c *Config) {
			c.Params = map[class.Class]Targets{"latency": {Ratio: 0.01, FileOnly: true}}
		}, func(s cgroup.Swappiness) bool { return s == cgroup.FileOnly }, "its class says so"},
		{"young and mostly shared memory", "6.12.0", testkit.CgroupV2, testkit.MemGroup{Usage: 400 * mib, Anon: 50 * mib, File: 350 * mib, Shmem: 200 * mib}, nil,
			func(s cgroup.Swappiness) bool { return s == cgroup.FileOnly }, "pin it"},
		{"no file cache to speak of", "6.12.0", testkit.CgroupV2, testkit.MemGroup{Usage: 400 * mib, Anon: 399 * mib, File: mib}, nil,
			func(s cgroup.Swappiness) bool { return s == cgroup.KernelsChoice }, "hardly any file cache"},
		{"weighed", "6.12.0", testkit.CgroupV2, mixed, nil,
			func(s cgroup.Swappiness) bool { return s != cgroup.KernelsChoice }, "takes file cache to learn"},
		{"before 6.11", "6.1.0", testkit.CgroupV2, mixed, nil,
			func(s cgroup.Swappiness) bool { return s == cgroup.FileOnly || s == cgroup.KernelsChoice }, "takes file cache to learn"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t, tc.mode)
			m.kernel(tc.release)
			m.Put("/app", testkit.MemGroup{})
			m.Put("/app/web", tc.group)
			w := newFakeWorker()
			a := m.agent(w, func(c *Config) {
				c.Roots = []string{"/app"}
				if tc.change != nil {
					tc.change(c)
				}
			})
			ticks(a, 6, time.Now())
			got := w.choices()
			for _, s := range got {
				if !tc.want(s) {
					t.Errorf("a step by %v", s)
				}
			}
			details := ""
			for _, d := range a.Decisions("/app/web", 10) {
				details += d.Detail + "\n"
			}
			if len(got) == 0 || !strings.Contains(details, tc.detail) {
				t.Errorf("%d steps; no %q in\n%s", len(got), tc.detail, details)
			}
		})
	}
}

// A kernel that refuses what its version promised: said once, shown in Status, and the next steps are coarser.
func TestARefusedChoiceFallsBackVisibly(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.kernel("6.12.0")
	m.Put("/app", testkit.MemGroup{})
	m.Put("/app/web", mixed)
	w := newFakeWorker()
	refuse := func(s cgroup.Swappiness) bool { return s != cgroup.FileOnly && s != cgroup.KernelsChoice }
	w.answer = func(_ context.Context, s worker.Step) (worker.StepResult, error) {
		if refuse(s.Swappiness) {
			return worker.StepResult{}, fmt.Errorf("step: %w", cgroup.MissingSwappiness(s.Swappiness))
		}
		return worker.StepResult{Before: s.Bytes, By: cgroup.FileSwapMax, Swappiness: s.Swappiness}, nil
	}
	a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
	at := ticks(a, 12, time.Now())
	weights := 0
	for _, s := range w.choices() {
		if refuse(s) {
			weights++
		}
	}
	if weights != 1 {
		t.Errorf("a weight was tried %d times, want once: %v", weights, w.choices())
	}
	if wont := strings.Join(a.Status().Wont, "\n"); !strings.Contains(wont, "as its version promises") {
		t.Errorf("status says nothing of it:\n%s", wont)
	}
	// Not even file cache alone: from then on everything is left to the kernel.
	refuse = func(s cgroup.Swappiness) bool { return s != cgroup.KernelsChoice }
	ticks(a, 40, at)
	tail := w.choices()
	for _, s := range tail[len(tail)-5:] {
		if s != cgroup.KernelsChoice {
			t.Errorf("the last steps: %v", tail[len(tail)-5:])
		}
	}
}

// changingWorker also notes changes.
type changingWorker struct {
	*fakeWorker
	changes []worker.Change
	undone  []string
	err     error
}

func (w *changingWorker) Do(_ context.Context, c worker.Change) (worker.Done, error) {
	w.changes = append(w.changes, c)
	return worker.Done{ID: fmt.Sprint(len(w.changes))}, w.err
}

func (w *changingWorker) Undo(_ context.Context, id string) error {
	w.undone = append(w.undone, id)
	return nil
}

// Pages that do not shrink go past the pool where the kernel can keep them out of it and a disk is there for them; else
// only file cache is taken. Either is said, and the change is taken back when the cgroup is not managed any more.
func TestIncompressibleCgroupsLeaveThePool(t *testing.T) {
	for _, tc := range []struct {
		name      string
		zswapMax  bool
		writeback string
		fails     bool
		changes   int
	}{
		{"kept out", true, "1", false, 1},
		{"no such file", false, "", false, 0},
		{"may not reach the disk", true, "0", false, 0},
		{"the worker cannot", true, "1", true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t, testkit.CgroupV2)
			m.kernel("6.12.0")
			m.Put("/app", testkit.MemGroup{})
			g := testkit.MemGroup{Usage: 800 * mib, Anon: 400 * mib, File: 400 * mib}
			m.Put("/app/web", g)
			if tc.zswapMax {
				m.Set("/app", "memory.zswap.max", "max\n")
				m.Set("/app/web", "memory.zswap.max", "max\n")
				m.Set("/app/web", "memory.zswap.writeback", tc.writeback+"\n")
			}
			w := &changingWorker{fakeWorker: newFakeWorker()}
			if tc.fails {
				w.err = errors.New("no")
			}
			a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
			at := ticks(a, 2, time.Now())
			for range 6 { // what is stepped ends up in the pool, as large as it was
				g.Swap, g.Zswap, g.Zswapped = g.Swap+4*mib, g.Zswap+4*mib, g.Zswapped+4*mib
				m.Put("/app/web", g)
				at = ticks(a, 1, at)
			}
			row := a.Cgroups()[0]
			if !row.Incompressible {
				t.Fatalf("not noticed: %+v; steps %v", row, w.choices())
			}
			if len(w.changes) != tc.changes {
				t.Fatalf("changes %+v, want %d", w.changes, tc.changes)
			}
			kept := tc.changes == 1 && !tc.fails
			if tc.changes == 1 {
				if k := w.changes[0].Knob; k == nil || k.Value != "0" || k.Path != filepath.Join(m.Memory, "app/web/memory.zswap.max") {
					t.Errorf("change %+v", w.changes[0])
				}
			}
			ticks(a, 2, at)
			list := w.choices()
			if last := list[len(list)-1]; (last == cgroup.FileOnly) == kept {
				t.Errorf("last step by %v, kept out of the pool: %v", last, kept)
			}
			a.cfg.Roots = []string{"/elsewhere"}
			if err := a.scan(); err != nil {
				t.Fatal(err)
			}
			if (len(w.undone) == 1) != kept {
				t.Errorf("undone %v", w.undone)
			}
		})
	}
}

// A step for file cache never asks for more than half of it.
func TestFileStepsAreBoundByTheFileCache(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.kernel("6.12.0")
	m.Put("/app", testkit.MemGroup{})
	m.Put("/app/web", testkit.MemGroup{Usage: 2000 * mib, Anon: 1900 * mib, File: 2 * mib})
	w := newFakeWorker()
	a := m.agent(w, func(c *Config) {
		c.Roots = []string{"/app"}
		c.Params = map[class.Class]Targets{"latency": {Ratio: 0.01, FileOnly: true}}
	})
	ticks(a, 4, time.Now())
	for _, s := range w.steps {
		if s.Bytes > mib {
			t.Errorf("asked for %d bytes of 2 MiB", s.Bytes)
		}
	}
	if len(w.steps) == 0 {
		t.Error("no steps")
	}
}

func TestStatusSaysHowFarPressureCounts(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.kernel("6.12.0")
	a := m.agent(newFakeWorker(), nil)
	say := func() string { s := a.Status(); return strings.Join(append(s.Will, s.Wont...), "\n") }
	if s := a.Status(); s.PSIShare != nil || s.PSIShareWhy == "" || !strings.Contains(say(), "not measured yet") {
		t.Errorf("before the canary: %v %q", s.PSIShare, s.PSIShareWhy)
	}
	for _, tc := range []struct {
		share float64
		want  string
	}{{0.03, "counts 3 %"}, {0.8, "read memory pressure, which counts 80 %"}, {math.NaN(), "which share of refault stalls"}} {
		a.tiers.Record(tier.Measurement{Tier: "zswap", At: time.Now(), PSICounted: tc.share, PSIFrom: "the canary's own pressure"})
		if s := a.Status(); (s.PSIShare == nil) != math.IsNaN(tc.share) || s.PSIShare != nil && *s.PSIShare != tc.share || !strings.Contains(say(), tc.want) {
			t.Errorf("share %v: %v; %s", tc.share, s.PSIShare, say())
		}
	}
}
