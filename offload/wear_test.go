package offload

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/policy"
)

// drive is a swap partition whose counters follow what is swapped out to it.
type drive struct {
	*machine
	swapOut, foreign int64 // bytes
}

func newDrive(m *machine) *drive {
	d := &drive{machine: m}
	m.file("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/sdz2 partition 4194304 1024 -2\n")
	m.file("dev/sdz2", "")
	m.file("proc/sys/kernel/random/boot_id", "0b9d4f3a-first\n")
	d.counters()
	return d
}

func (d *drive) counters() {
	d.file("proc/diskstats", fmt.Sprintf("   8   2 sdz2 1 0 8 0 1 0 %d 0 0 0 0 0 0 0 0 0 0\n", (d.swapOut+d.foreign)/512))
	d.file("proc/vmstat", fmt.Sprintf("pswpin 0\npswpout %d\npgmajfault 0\n", d.swapOut/int64(os.Getpagesize())))
}

// TestDeviceWritesStayWithinTheBudget runs the adversary against the whole agent: a service that dirties all its memory
// again in every period, so that each step writes all it takes. Half an hour in one-second periods.
func TestDeviceWritesStayWithinTheBudget(t *testing.T) {
	t.Parallel()
	for name, law := range map[string]string{"composite": "composite", "a law that does not ease": "tmo"} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, testkit.CgroupV2)
			d := newDrive(m)
			m.Put("/app", testkit.MemGroup{})
			g := testkit.MemGroup{Usage: 400 * mib, Anon: 400 * mib, InactiveAnon: 400 * mib}
			paths := []string{"/app/a", "/app/b", "/app/c"}
			for _, p := range paths {
				m.Put(p, g)
			}
			w := newFakeWorker()
			var now int
			perSecond := make([]int64, 1800)
			var mu sync.Mutex // steps of one tick run side by side
			w.answer = func(_ context.Context, s worker.Step) (worker.StepResult, error) {
				mu.Lock()
				defer mu.Unlock()
				if s.Swappiness != cgroup.FileOnly {
					d.swapOut += s.Bytes
					perSecond[now] += s.Bytes
				}
				return worker.StepResult{Before: g.Usage, After: g.Usage - s.Bytes}, nil
			}
			const budget = 24 * bytesize.GiB // a day: 170 MiB in ten minutes
			a := m.agent(w, func(c *Config) {
				c.Roots, c.Law, c.Endurance.Budget = []string{"/app"}, law, budget
			})
			at := time.Now()
			for now = range perSecond {
				at = ticks(a, 1, at)
				d.counters()
			}
			limit := int64(budget) / 144
			var worst, total int64
			for i := range perSecond {
				var sum int64
				for _, n := range perSecond[i:min(i+600, len(perSecond))] {
					sum += n
				}
				worst = max(worst, sum)
				total += perSecond[i]
			}
			t.Logf("worst ten minutes %d MiB of %d, %d MiB in all", worst/mib, limit/mib, total/mib)
			if worst > limit*11/10 {
				t.Errorf("%d MiB in ten minutes, the budget is %d MiB", worst/mib, limit/mib)
			}
			if total < limit {
				t.Errorf("only %d MiB in half an hour: the budget is not used", total/mib)
			}
			e := a.Status().Endurance
			if e == nil || math.Abs(float64(e.Written-total)) > float64(20*mib) || len(e.Drives) != 1 || e.Drives[0].Device != "sdz2" {
				t.Errorf("status %+v, wrote %d", e, total)
			}
		})
	}
}

// ask runs a few periods in which nothing is written, and returns the newest decision.
func ask(t *testing.T, a *Agent, path string, at time.Time) (time.Time, policy.Reason, string) {
	t.Helper()
	at = ticks(a, 5, at)
	d := a.Decisions(path, 1)
	if len(d) == 0 {
		t.Fatal("no decision")
	}
	return at, policy.Reason(d[0].Reason), d[0].Detail
}

func TestWhoPaysForWriting(t *testing.T) {
	anon := testkit.MemGroup{Usage: 400 * mib, Anon: 399 * mib, File: mib, InactiveAnon: 300 * mib}
	files := testkit.MemGroup{Usage: 400 * mib, File: 400 * mib, InactiveFile: 300 * mib}
	for _, c := range []struct {
		name  string
		mode  testkit.CgroupMode
		group testkit.MemGroup
		setup func(*machine)
		pays  bool
	}{
		{"anonymous memory to a partition", testkit.CgroupV2, anon, nil, true},
		{"anonymous memory to a partition, v1", testkit.CgroupV1, anon, nil, true},
		{"file cache only", testkit.CgroupV2, files, nil, false},
		{"zswap in front of it writes back", testkit.CgroupV2, anon, func(m *machine) { m.kernel("6.12.0") }, true},
		{"zswap without write-back", testkit.CgroupV2, anon, func(m *machine) {
			m.kernel("6.12.0")
			m.Set("/app/a", "memory.zswap.writeback", "0\n")
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, c.mode)
			d := newDrive(m)
			m.Put("/app", testkit.MemGroup{})
			m.Put("/app/a", c.group)
			if c.setup != nil {
				c.setup(m)
			}
			w := newFakeWorker()
			a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
			at, why, _ := ask(t, a, "/app/a", time.Now())
			if why == policy.WriteBudget {
				t.Fatal("the budget is spent at the start")
			}
			d.swapOut += 10 << 30 // somebody's pages went out: the kernel's own doing
			d.counters()
			at, why, detail := ask(t, a, "/app/a", at)
			a.mu.Lock()
			price := a.view.wear.Price
			a.mu.Unlock()
			if price != 1 {
				t.Fatalf("price %v", price)
			}
			stopped := why == policy.WriteBudget || strings.Contains(detail, "budget for writing to flash")
			if stopped != c.pays {
				t.Errorf("%s: %s", why, detail)
			}
			if _, why, detail = ask(t, a, "/app/a", at.Add(15*time.Minute)); why == policy.WriteBudget {
				t.Errorf("still stopped when the window has passed: %s", detail)
			}
		})
	}
}

// With the budget spent a kernel that can be told takes file cache alone.
func TestSpentBudgetLeavesFileCache(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	d := newDrive(m)
	m.kernel("6.12.0")
	m.Put("/app", testkit.MemGroup{})
	m.Put("/app/a", mixed)
	w := newFakeWorker()
	a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
	at := ticks(a, 3, time.Now())
	d.swapOut += 10 << 30
	d.counters()
	at = ticks(a, 4, at)
	n := len(w.choices())
	ticks(a, 10, at)
	for _, s := range w.choices()[n:] {
		if s != cgroup.FileOnly {
			t.Errorf("a step by %v with the budget spent", s)
		}
	}
	if len(w.choices()) == n {
		t.Error("no step at all")
	}
}

// What lands in a compressed disk in memory is no wear.
func TestZramCostsNothing(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.file("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition 4194304 1024 100\n")
	m.file("sys/block/zram0/mm_stat", "4096 4096 4096 0 0 0 0 0 0\n")
	m.Put("/app", testkit.MemGroup{})
	m.Put("/app/a", busy)
	a := m.agent(newFakeWorker(), func(c *Config) { c.Roots = []string{"/app"} })
	at := ticks(a, 3, time.Now())
	m.file("proc/diskstats", " 252   0 zram0 1 0 8 0 1 0 20971520 0 0 0 0 0 0 0 0 0 0\n") // 10 GiB
	m.file("proc/vmstat", "pswpin 0\npswpout 2621440\npgmajfault 0\n")
	_, why, detail := ask(t, a, "/app/a", at)
	if e := a.Status().Endurance; why == policy.WriteBudget || len(e.Drives) != 0 {
		t.Errorf("%s %s, %+v", why, detail, e)
	}
}

func TestWritesAreSharedOut(t *testing.T) {
	m := newMachine(t, testkit.CgroupV1)
	d := newDrive(m)
	m.Put("/app", testkit.MemGroup{})
	g := busy
	m.Put("/app/a", g)
	m.Put("/app/b", g)
	m.Put("/app/idle", g)
	a := m.agent(newFakeWorker(), func(c *Config) { c.Roots = []string{"/app"} })
	at := ticks(a, 4, time.Now())
	a1, b1 := g, g
	a1.Swap, b1.Swap = 30*mib, 10*mib
	m.Put("/app/a", a1)
	m.Put("/app/b", b1)
	d.swapOut += 40 * mib
	d.counters()
	ticks(a, 8, at)
	got := map[string]int64{}
	for _, c := range a.Cgroups() {
		got[c.Path] = c.Written / mib
	}
	if got["/app/a"] != 30 || got["/app/b"] != 10 || got["/app/idle"] != 0 {
		t.Errorf("%v MiB, want 30, 10 and 0", got)
	}
}

// wearAgent is an agent that remembers in dir.
func wearAgent(t *testing.T, m *machine, dir string) *Agent {
	t.Helper()
	a, err := New(Config{Period: time.Second, Roots: []string{"/app"}, Endurance: Endurance{TBW: 600e12, Budget: defaultBudget}}, Deps{Root: m.Root, Worker: newFakeWorker(), StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWearSurvivesTheDaemon(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	d := newDrive(m)
	m.Put("/app", testkit.MemGroup{})
	dir := t.TempDir()
	a := wearAgent(t, m, dir)
	at := ticks(a, 4, time.Now())
	d.swapOut += 300 * mib
	d.counters()
	ticks(a, 4, at)
	before := a.Status().Endurance
	a.closeAll()
	d.swapOut += 100 * mib // while no daemon runs
	d.counters()
	a = wearAgent(t, m, dir)
	ticks(a, 4, at)
	after := a.Status().Endurance
	if gone := before.Left - after.Left; gone < 99*mib || gone > 101*mib {
		t.Errorf("left %d MiB, then %d MiB: the 100 MiB between are lost", before.Left/mib, after.Left/mib)
	}
	if after.Drives[0].Written != 400*mib || after.Written != 0 {
		t.Errorf("the drive's history %+v, since the start %d", after.Drives[0], after.Written)
	}
	a.closeAll()
	info, err := os.Stat(filepath.Join(dir, wearFile))
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() > 4<<10 {
		t.Errorf("state file %v, %v", info, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.tmp")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}

	// A file that cannot be trusted is kept aside, and until the window has passed nothing is written.
	if err := os.WriteFile(filepath.Join(dir, wearFile), []byte(`{"version":1,"saved":`), 0o600); err != nil {
		t.Fatal(err)
	}
	a = wearAgent(t, m, dir)
	defer a.closeAll()
	ticks(a, 1, at)
	if e := a.Status().Endurance; e.Left != 0 || e.Price != 1 {
		t.Errorf("after a torn file: left %d, price %v", e.Left, e.Price)
	}
	if _, err := os.Stat(filepath.Join(dir, wearFile+".damaged")); err != nil {
		t.Error(err)
	}
}

// A pipe in the file's place must not hold up the start: nobody has its other end. What it replaced is unknown, so the
// budget begins spent; it is kept aside, and the next save puts a file there again.
func TestSomethingElseInPlaceOfTheWearState(t *testing.T) {
	for what, put := range map[string]func(name string) error{
		"pipe":      func(name string) error { return unix.Mkfifo(name, 0o600) },
		"directory": func(name string) error { return os.MkdirAll(filepath.Join(name, "x"), 0o700) },
		"link":      func(name string) error { return os.Symlink("/dev/zero", name) },
	} {
		t.Run(what, func(t *testing.T) {
			m := newMachine(t, testkit.CgroupV2)
			newDrive(m)
			m.Put("/app", testkit.MemGroup{})
			dir := t.TempDir()
			name := filepath.Join(dir, wearFile)
			if err := put(name); err != nil {
				t.Fatal(err)
			}
			a := wearAgent(t, m, dir)
			ticks(a, 1, time.Now())
			if e := a.Status().Endurance; e.Left != 0 || e.Price != 1 {
				t.Errorf("left %d, price %v", e.Left, e.Price)
			}
			a.closeAll()
			if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
				t.Errorf("after the end there is %v, %v", info, err)
			}
			if info, err := os.Lstat(name + ".damaged"); err != nil || info.Mode().IsRegular() {
				t.Errorf("kept aside: %v, %v", info, err)
			}
		})
	}
}

func TestEnduranceConfig(t *testing.T) {
	for _, c := range []struct {
		e    Endurance
		want string
	}{
		{Endurance{}, ""},
		{Endurance{Off: true}, ""},
		{Endurance{TBW: 600e12}, ""},
		{Endurance{Budget: 10 << 20}, "less than 1 GiB a day"},
		{Endurance{TBW: 1e12, Years: 50}, "less than 1 GiB a day"},
		{Endurance{Budget: -1}, "negative"},
		{Endurance{Years: -1}, "years"},
		{Endurance{Years: math.NaN()}, "years"},
		{Endurance{Burst: 600 << 20}, "more than ten minutes"},
		{Endurance{Burst: 1 << 20}, "under 8 MiB"},
	} {
		err := Config{Endurance: c.e}.Check()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c.e, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || errkind.Of(err) != errkind.Invalid || errkind.HintOf(err) == ""):
			t.Errorf("%+v: %v, want %q with a hint", c.e, err, c.want)
		}
	}
	// 600 TB in five years are 3.8 MB a second, whoever writes them.
	b := Endurance{TBW: 600e12}.resolved().budget()
	if !b.Whole || math.Abs(b.Rate-3.8e6) > 1e4 {
		t.Errorf("%+v", b)
	}
	b = Endurance{}.resolved().budget()
	if b.Whole || math.Abs(b.Rate-994e3) > 1e3 {
		t.Errorf("%+v", b)
	}
}

func TestEnduranceReload(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	newDrive(m)
	m.Put("/app", testkit.MemGroup{})
	a := m.agent(newFakeWorker(), nil)
	cfg := a.cfg
	cfg.Endurance.Off = true
	if err := a.apply(cfg); err != nil || a.Status().Endurance != nil {
		t.Errorf("%v, %+v", err, a.Status().Endurance)
	}
	cfg.Endurance = Endurance{Budget: 160 << 30}
	if err := a.apply(cfg); err != nil {
		t.Fatal(err)
	}
	if e := a.Status().Endurance; e == nil || e.Budget != 160<<30 {
		t.Errorf("%+v", e)
	}
}

func TestRecommend(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.Put("/app", testkit.MemGroup{})
	g := testkit.MemGroup{Usage: 120 * mib, Anon: 120 * mib}
	m.Put("/app/a", g)
	m.Put("/app/small", testkit.MemGroup{Usage: 10 * mib, Anon: 10 * mib})
	m.Put("/other", busy)
	a := m.agent(newFakeWorker(), func(c *Config) {
		c.Roots = []string{"/app"}
		c.Params = map[class.Class]Targets{"latency": {Ratio: 0.01, Hold: 1000}}
	})
	at := ticks(a, 2, time.Now())
	g.RefaultAnon = 20000 // it hurts, and the law holds from then on
	m.Put("/app/a", g)
	ticks(a, 900, at)
	rs, err := a.Recommend("/app/a")
	if err != nil || len(rs) != 1 {
		t.Fatal(rs, err)
	}
	r := rs[0]
	if r.UpperBound || r.Resources.Requests.Memory != fmt.Sprintf("%dMi", r.Request/mib) || r.Request < 125*mib || r.Request > 145*mib {
		t.Errorf("%+v", r)
	}
	if time.Duration(r.Watched) < 14*time.Minute || r.RefaultCost <= 0 || r.Level != "low" || r.Raise == "" || r.Floor != 16*mib {
		t.Errorf("%+v", r)
	}
	all, err := a.Recommend("")
	if err != nil || len(all) != 2 {
		t.Errorf("%v %v, want the two managed ones", all, err)
	}
	for _, r := range all {
		if r.Request < 16*mib {
			t.Errorf("%s: request %d below the floor", r.Cgroup, r.Request)
		}
	}
	if _, err := a.Recommend("/other"); errkind.Of(err) != errkind.Unavailable || !strings.Contains(err.Error(), "outside the roots") {
		t.Errorf("observed only: %v", err)
	}
	if _, err := a.Recommend("/nowhere"); errkind.Of(err) != errkind.NotFound {
		t.Errorf("unknown: %v", err)
	}
}

// What this adds to each cgroup's period allocates nothing.
func TestWearAndSizesAllocateNothing(t *testing.T) {
	m := newMachine(t, testkit.CgroupV1)
	newDrive(m)
	m.Put("/app", testkit.MemGroup{})
	m.Put("/app/a", busy)
	a := m.agent(newFakeWorker(), func(c *Config) { c.Roots = []string{"/app"} })
	at := ticks(a, 4, time.Now())
	x := a.targets["/app/a"]
	a.wear.price = 0.5
	d := policy.Decision{Reason: policy.Holding}
	s := policy.Sample{Period: time.Second, Usage: 400 * mib}
	n := testing.AllocsPerRun(100, func() {
		a.writePrice(x, at)
		a.spend(x, at, cgroup.KernelsChoice, &d)
		a.noteOut(x)
		a.mu.Lock()
		a.noteSizeLocked(x, time.Second, s, &d, 0)
		a.mu.Unlock()
	})
	if n != 0 {
		t.Errorf("%v allocations a period", n)
	}
}
