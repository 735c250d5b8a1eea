package offload

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/class"
)

var busy = testkit.MemGroup{Usage: 400 * mib, Anon: 380 * mib, File: 20 * mib, InactiveAnon: 300 * mib, InactiveFile: 10 * mib}

// The fence: only leaves below a root are acted on; never the daemon's own cgroup, an ancestor of a root, an
// inner cgroup, a class "off" or anything else on the machine.
func TestActsOnlyInsideTheFence(t *testing.T) {
	for _, mode := range []testkit.CgroupMode{testkit.CgroupV1, testkit.CgroupV2, testkit.CgroupHybrid} {
		t.Run(string(mode), func(t *testing.T) {
			m := newMachine(t, mode)
			for _, p := range []string{
				"/system.slice", "/system.slice/decoy", "/app", "/app/web", "/app/web/nested", "/app/db", "/app/never",
				"/app/self", "/application", "/spillway-canary-1",
			} {
				m.Put(p, busy)
			}
			m.Place(0, "/app/self", "/app/self")
			w := newFakeWorker()
			a := m.agent(w, func(c *Config) {
				c.Roots = []string{"/app"}
				c.Classes = []class.Rule{{Match: "/app/never", Class: class.Off}}
			})
			ticks(a, 4, time.Now())
			got := w.taken()
			want := map[string]bool{"/app/web/nested": true, "/app/db": true}
			for p := range got {
				if !want[p] {
					t.Errorf("took from %s", p)
				}
			}
			for p := range want {
				if got[p] == 0 {
					t.Errorf("took nothing from %s", p)
				}
			}
		})
	}
}

func TestWithoutRootsItOnlyAdvises(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.Put("/system.slice", busy)
	m.Put("/system.slice/app.service", busy)
	w := newFakeWorker()
	a := m.agent(w, nil)
	ticks(a, 3, time.Now())
	if got := w.taken(); len(got) != 0 {
		t.Errorf("took from %v without roots", got)
	}
	s := a.Status()
	if s.Node != "node-7" {
		t.Errorf("node %q", s.Node)
	}
	// 10 MiB of inactive file cache and half of 300 MiB of inactive anonymous memory.
	want := "would save about 160 MiB; add roots: [/system.slice]"
	if !slices.Contains(s.Advice, want) {
		t.Errorf("advice %q lacks %q", s.Advice, want)
	}
	if !strings.Contains(strings.Join(s.Wont, "\n"), "there are no roots") {
		t.Errorf("wont %q does not say that there are no roots", s.Wont)
	}
}

func TestKubepodsAreRootsByThemselves(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	pod := "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod6a1d7a3c_30a8_4a26_8b0f_5d8b1e0f2f11.slice"
	for _, p := range []string{"/kubepods.slice", "/kubepods.slice/kubepods-besteffort.slice", pod, pod + "/cri-containerd-1111111111111111111111111111111111111111111111111111111111111111.scope"} {
		m.Put(p, busy)
	}
	w := newFakeWorker()
	a := m.agent(w, nil)
	ticks(a, 3, time.Now())
	if got := w.taken(); len(got) != 1 {
		t.Fatalf("took from %v, want the one container", got)
	}
	rows := a.Cgroups()
	if !rows[0].Managed || rows[0].Class != "throughput" {
		t.Errorf("first row %+v, want the managed BestEffort container as throughput", rows[0])
	}
}

func TestNeverBelowTheFloor(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.Put("/app", busy)
	small := testkit.MemGroup{Usage: 65 * mib, Anon: 60 * mib, Min: 64 * mib}
	m.Put("/app/small", small)
	w := newFakeWorker()
	a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
	at := ticks(a, 2, time.Now())
	for _, s := range w.steps {
		if s.Floor < 64*mib {
			t.Errorf("step asked with floor %d, memory.min is %d", s.Floor, 64*mib)
		}
		if s.Bytes > mib {
			t.Errorf("step of %d would go below the floor", s.Bytes)
		}
	}
	before := len(w.steps)
	small.Usage = 64 * mib
	m.Put("/app/small", small)
	ticks(a, 30, at)
	if len(w.steps) != before {
		t.Errorf("%d steps at the floor", len(w.steps)-before)
	}
}

// Without swap anonymous memory cannot leave: only what is above it may be asked for.
func TestWithoutSwapOnlyFilesAreTaken(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.meminfo(8<<20, 4<<20, 0, 0)
	m.file("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")
	m.Put("/app", busy)
	m.Put("/app/a", busy)
	w := newFakeWorker()
	a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
	ticks(a, 2, time.Now())
	if len(w.steps) == 0 {
		t.Fatal("no step although 20 MiB of file cache could go")
	}
	if got, want := w.steps[0].Floor, 16*mib+380*mib; got != want {
		t.Errorf("floor %d, want %d: the configured floor and the anonymous memory", got, want)
	}
}

func TestBrakeStopsAtOnceAndInterruptsSteps(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.Put("/app", busy)
	m.Put("/app/a", busy)
	w := newFakeWorker()
	started := make(chan struct{}, 1)
	w.answer = func(ctx context.Context, s worker.Step) (worker.StepResult, error) {
		started <- struct{}{}
		<-ctx.Done()
		return worker.StepResult{}, ctx.Err()
	}
	a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
	at := time.Now()
	for range 2 {
		at = at.Add(time.Second)
		a.tick(context.Background(), at, time.Second)
	}
	<-started
	a.stopUntil(time.Now().Add(time.Hour), "test")
	a.drainSteps() // returns only because the brake interrupted the step
	n := len(w.steps)
	ticks(a, 5, at)
	if len(w.steps) != n {
		t.Error("a step was taken while the brake was on")
	}
	if s := a.Status(); s.Paused != "test" {
		t.Errorf("paused %q", s.Paused)
	}
	if d := a.Decisions("/app/a", 1); d[0].Reason != "host-pressure" {
		t.Errorf("reason %q, want host-pressure", d[0].Reason)
	}
}

// The canary's own stalls must not stop offloading for everybody: no step while it measures, none held against it.
func TestCanaryDoesNotPullTheBrake(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.Put("/app", busy)
	m.Put("/app/a", busy)
	w := newFakeWorker()
	a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
	now := time.Now()
	a.measure(measuring{on: true}, now)
	now = ticks(a, 5, now)
	if len(w.steps) != 0 {
		t.Errorf("%d steps while the canary measures", len(w.steps))
	}
	a.measure(measuring{}, now)
	if !a.host.quiet(now.Add(settle - time.Millisecond)) {
		t.Error("a trigger just after the canary would stop everybody")
	}
	ticks(a, 8, now)
	if len(w.steps) != 5 { // settle covers the first three of the eight periods
		t.Errorf("%d steps in the eight periods after it, want 5", len(w.steps))
	}
}

func TestLowMemoryBrakesWithoutPSI(t *testing.T) {
	m := newMachine(t, testkit.CgroupV1)
	m.Put("/app", busy)
	m.Put("/app/a", busy)
	w := newFakeWorker()
	a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
	m.meminfo(8<<20, 8<<20/100, 1<<20, 1<<20) // 1 % available
	ticks(a, 3, time.Now())
	if len(w.steps) != 0 {
		t.Errorf("%d steps with 1 %% of memory available", len(w.steps))
	}
}

func TestRefaultsBrakeWherePressureIsBlind(t *testing.T) {
	m := newMachine(t, testkit.CgroupHybrid)
	m.Put("/app", busy)
	g := busy
	m.Put("/app/a", g)
	w := newFakeWorker()
	a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
	at := ticks(a, 5, time.Now())
	n := len(w.steps)
	if n == 0 {
		t.Fatal("no step in calm periods")
	}
	g.RefaultAnon += 20000 // a cold scan: 20,000 pages come back, pressure stays 0
	m.Put("/app/a", g)
	ticks(a, 1, at)
	if len(w.steps) != n {
		t.Error("took memory in the period of the scan")
	}
	d := a.Decisions("/app/a", 1)[0]
	if d.Step != 0 || d.Reason != "refault-cost" || !strings.Contains(d.Detail, "refault") {
		t.Errorf("decision %+v, want a zero step that names refault cost", d)
	}
}

// On a hybrid machine pressure comes from the cgroup2 directory of a cgroup's tasks; two cgroups whose tasks
// share one have none.
func TestHybridPressure(t *testing.T) {
	m := newMachine(t, testkit.CgroupHybrid)
	for i, p := range []string{"/app/own", "/app/shared1", "/app/shared2", "/app/root"} {
		g := busy
		g.Procs = []int{100 + i}
		m.Put(p, g)
	}
	m.Put("/app", testkit.MemGroup{Usage: 1600 * mib})
	m.PutUnified("/own", 0, 0)
	m.PutUnified("/both", 0, 0)
	m.Place(100, "/app/own", "/own")
	m.Place(101, "/app/shared1", "/both")
	m.Place(102, "/app/shared2", "/both")
	m.Place(103, "/app/root", "/")
	a := m.agent(newFakeWorker(), func(c *Config) { c.Roots = []string{"/app"} })
	at := ticks(a, 2, time.Now())
	m.PutUnified("/own", 50_000, 20_000) // 50 ms in memory, 20 ms in io
	m.pressure(50, 20)                   // of which a busy host may count next to nothing
	ticks(a, 1, at)
	for _, c := range a.Cgroups() {
		switch c.Path {
		case "/app/own":
			if !c.PSI || c.MemSome != 0.05 || c.IOSome != 0.02 {
				t.Errorf("own: psi %v mem %v io %v, want 5 %% and 2 %%", c.PSI, c.MemSome, c.IOSome)
			}
		case "/app/shared1", "/app/shared2":
			if c.PSI || !strings.Contains(c.PSIWhy, "share a cgroup2 directory") {
				t.Errorf("%s: psi %v, why %q", c.Path, c.PSI, c.PSIWhy)
			}
		case "/app/root":
			if c.PSI || !strings.Contains(c.PSIWhy, "root of the cgroup2 hierarchy") {
				t.Errorf("%s: psi %v, why %q", c.Path, c.PSI, c.PSIWhy)
			}
		}
	}
}

func TestVanishedAndReusedPaths(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.Put("/app", busy)
	m.Put("/app/a", busy)
	m.Put("/app/b", busy)
	w := newFakeWorker()
	a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
	at := ticks(a, 2, time.Now())
	m.Remove("/app/a")
	a.lastScan = time.Time{}
	at = ticks(a, 2, at)
	if _, err := a.Explain("/app/a"); errkind.Of(err) != errkind.NotFound {
		t.Errorf("explain of a vanished cgroup: %v", err)
	}
	n := w.taken()["/app/b"]
	ticks(a, 1, at)
	if w.taken()["/app/b"] != n+1 {
		t.Error("its neighbour is not looked after any more")
	}
}

func TestReload(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.Put("/app", busy)
	m.Put("/app/a", busy)
	w := newFakeWorker()
	next := Config{Period: time.Second, Roots: []string{"/app"}, Classes: []class.Rule{{Match: "/app/a", Class: class.Off}}}
	var fail error
	cfg := Config{Period: time.Second, Roots: []string{"/app"}, Params: map[class.Class]Targets{"latency": {Ratio: 0.01}}}
	a, err := New(cfg, Deps{Root: m.Root, Worker: w, Reload: func() (Config, error) { return next, fail }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	if err := a.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range a.Cgroups() {
		if c.Path == "/app/a" && (c.Managed || c.Last != nil || c.Refaults != 0) {
			t.Errorf("class off did not take effect: %+v", c)
		}
	}
	fail = errkind.New(errkind.Invalid, "line 3: unknown key")
	if err := a.Reload(ctx); !errors.Is(err, fail) {
		t.Errorf("reload error %v", err)
	}
	fail, next.Tiers.Zswap = nil, "on"
	if err := a.Reload(ctx); errkind.HintOf(err) == "" || !strings.Contains(err.Error(), "tiers changed") {
		t.Errorf("changing tiers at run time: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
	if err := a.Reload(t.Context()); errkind.Of(err) != errkind.Unavailable {
		t.Errorf("reload after the end: %v", err)
	}
}

func TestDeadWorkerEndsRun(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	w := newFakeWorker()
	a := m.agent(w, func(c *Config) { c.Canary.Off = true })
	close(w.dead)
	err := a.Run(t.Context())
	if errkind.Of(err) != errkind.Unavailable || !strings.Contains(errkind.HintOf(err), "spillway restore") {
		t.Errorf("Run returned %v, hint %q", err, errkind.HintOf(err))
	}
}

func TestRecentDecisionsSayWhatCameOfThem(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.Put("/app", busy)
	for _, p := range []string{"/app/a", "/app/b", "/app/c"} {
		m.Put(p, busy)
	}
	a := m.agent(newFakeWorker(), func(c *Config) { c.Roots = []string{"/app"} })
	ticks(a, 300, time.Now()) // more than the ring holds
	steps := 0
	for _, d := range a.Decisions("", recentLen) {
		if d.Step > 0 {
			steps++
			if d.Reclaimed != d.Step {
				t.Fatalf("%s at %v: took %d of %d", d.Cgroup, d.Time, d.Reclaimed, d.Step)
			}
		}
	}
	if steps == 0 {
		t.Fatal("no step among the recent decisions")
	}
}

// The kernel frees whole folios and takes more than a small step asks for: what it took ahead is taken off later
// steps, and close to the floor nothing is asked for at all.
func TestOvertakingIsPaidBack(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.Put("/app", busy)
	g := busy
	g.Usage = 100 * mib
	m.Put("/app/a", g)
	w := newFakeWorker()
	var asked, taken int64
	w.answer = func(_ context.Context, s worker.Step) (worker.StepResult, error) {
		asked += s.Bytes
		took := (s.Bytes + 2*mib - 1) / (2 * mib) * 2 * mib
		taken += took
		g.Usage -= took
		m.Put("/app/a", g)
		return worker.StepResult{Before: g.Usage + took, After: g.Usage}, nil
	}
	a := m.agent(w, func(c *Config) { c.Roots, c.Floor = []string{"/app"}, 64<<20 })
	start := g.Usage
	ticks(a, 20, time.Now())
	if most := int64(float64(start)*0.01*20) + 2*mib; taken > most {
		t.Errorf("took %d in 20 periods, 1 %% each is %d", taken, most)
	}
	if n := len(a.Decisions("/app/a", kept)); n > 12 {
		t.Errorf("sampled %d times in 20 periods although most of them only paid back", n)
	}
	if taken == 0 || asked >= taken {
		t.Fatalf("asked %d, took %d: the case does not overtake", asked, taken)
	}
	ticks(a, 200, time.Now().Add(time.Minute))
	if g.Usage < 64*mib {
		t.Errorf("usage %d is below the floor", g.Usage)
	}
}

// A cgroup that rests at its floor is read rarely; what it saved must not be forgotten for that.
func TestSavingLastsAtTheFloor(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.Put("/app", busy)
	m.Put("/app/a", testkit.MemGroup{Usage: 10 * mib, Anon: 10 * mib, Swap: 100 * mib, Zswap: 30 * mib, Zswapped: 100 * mib})
	a := m.agent(newFakeWorker(), func(c *Config) { c.Roots = []string{"/app"} })
	at := ticks(a, 300, time.Now())
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := a.targets["/app/a"].row.saving.sustained(at); got < 60*mib {
		t.Errorf("saving %d after five minutes at the floor, want about 98 MiB of 100 net of its metadata", got)
	}
}

func TestLabelsStayApart(t *testing.T) {
	long := strings.Repeat("é", 200)
	seen := map[string]bool{}
	for _, s := range []string{"/a", long, long + "y", strings.Repeat("x", 300), strings.Repeat("x", 301), "/\xff\n"} {
		l := label(s)
		if !utf8.ValidString(l) || len(l) > 256 || seen[l] {
			t.Errorf("label of %.20q… is %q", s, l)
		}
		seen[l] = true
	}
}

func TestDryRunDecidesAndTakesNothing(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.Put("/app", busy)
	m.Put("/app/a", busy)
	w := newFakeWorker()
	a := m.agent(w, func(c *Config) { c.Roots, c.DryRun = []string{"/app"}, true })
	ticks(a, 3, time.Now())
	if len(w.steps) != 0 {
		t.Error("a dry run took a step")
	}
	if d := a.Decisions("/app/a", 1); len(d) == 0 || d[0].Step == 0 {
		t.Errorf("decisions %+v, want the step it would take", d)
	}
}

func TestMetricsAgreeWithStatus(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	hostile := "/app/a\n\x1b[31m\"" + strings.Repeat("x", 180)
	m.Put("/app", busy)
	m.Put(hostile, busy)
	reg := prometheus.NewPedanticRegistry()
	a, err := New(Config{Roots: []string{"/app"}, Period: time.Second}, Deps{Root: m.Root, Worker: newFakeWorker(), Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	defer a.closeAll()
	ticks(a, 3, time.Now())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range families {
		if f.GetName() != "spillway_offload_cgroup_resident_bytes" {
			continue
		}
		for _, s := range f.GetMetric() {
			found = true
			if s.GetGauge().GetValue() != float64(400*mib) {
				t.Errorf("resident %v", s.GetGauge().GetValue())
			}
			for _, l := range s.GetLabel() {
				if strings.ContainsAny(l.GetValue(), "\n\x1b") {
					t.Errorf("label %q is not escaped", l.GetValue())
				}
			}
		}
	}
	if !found {
		t.Error("no series for the managed cgroup")
	}
}
