package offload

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/offload/slo"
)

// watched makes an agent with one objective for /app/a, whose signal the test sets.
func watched(m *machine, w Actuator, bound time.Duration) (a *Agent, signal *slo.Reading) {
	m.t.Helper()
	m.Put("/app", busy)
	m.Put("/app/a", busy)
	m.Put("/app/b", busy)
	a = m.agent(w, func(c *Config) {
		c.Roots = []string{"/app"}
		c.SLO = []SLO{{Cgroup: "/app/a", P99: bound, Source: slo.Config{
			Prometheus: &slo.Prometheus{URL: "http://127.0.0.1:1/metrics", Metric: "took_seconds"},
		}}}
	})
	signal = &slo.Reading{State: slo.Good, P99: time.Millisecond, Count: 100}
	n := uint64(0)
	a.objectives[0].latest = func() (slo.Reading, uint64) { n++; return *signal, n }
	return a, signal
}

func learnt(t *testing.T, a *Agent, path string) (found bool, multiplier float64, why string) {
	t.Helper()
	e, err := a.Explain(path)
	if err != nil {
		t.Fatal(err)
	}
	if e.Cgroup.SLO == nil {
		return false, 0, ""
	}
	return true, e.Cgroup.SLO.Multiplier, e.Cgroup.SLO.Why
}

// A p99 above its bound stops steps on that cgroup at once, and on no other; the decision says why.
func TestAboveItsSLONothingIsTaken(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	w := newFakeWorker()
	a, signal := watched(m, w, 5*time.Millisecond)
	at := ticks(a, 3, time.Now())
	signal.P99 = 9 * time.Millisecond
	before := w.taken()
	at = ticks(a, 4, at)
	after := w.taken()
	if after["/app/a"] != before["/app/a"] {
		t.Errorf("%d steps above the SLO", after["/app/a"]-before["/app/a"])
	}
	if after["/app/b"] != before["/app/b"]+4 {
		t.Errorf("its neighbour got %d steps in 4 periods", after["/app/b"]-before["/app/b"])
	}
	d := a.Decisions("/app/a", 1)[0]
	if d.Reason != "slo" || d.Signal != "slo-p99" || !strings.Contains(d.Detail, "p99 9ms was above the SLO of 5ms") {
		t.Errorf("decision %+v", d)
	}
	if _, scale, _ := learnt(t, a, "/app/a"); scale > 0.51 {
		t.Errorf("multiplier %v after four periods above the SLO", scale)
	}
	_ = at
}

// Without a signal the law runs as if there were no objective; a cgroup without one has nothing to show.
func TestNoSignalChangesNothing(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	w := newFakeWorker()
	a, signal := watched(m, w, 0)
	*signal = slo.Reading{State: slo.Missing, Why: "no histogram"}
	ticks(a, 40, time.Now())
	n := w.taken()
	if n["/app/a"] == 0 || n["/app/a"] != n["/app/b"] {
		t.Errorf("steps %v", n)
	}
	if found, scale, why := learnt(t, a, "/app/a"); !found || scale != 1 || why != "no SLO signal: targets of the class" {
		t.Errorf("%v %v %q", found, scale, why)
	}
	if found, _, _ := learnt(t, a, "/app/b"); found {
		t.Error("a cgroup without an objective shows one")
	}
	if st := a.Status(); len(st.SLO) != 1 || st.SLO[0].Cgroup != "/app/a" {
		t.Errorf("status %+v", st.SLO)
	}
}

// With a calm signal pairs are compared: about half of the periods hold, and the rest act.
func TestItHoldsToCompare(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	w := newFakeWorker()
	a, _ := watched(m, w, 0)
	ticks(a, 120, time.Now())
	n := w.taken()
	if n["/app/a"] < 40 || n["/app/a"] > 80 || n["/app/b"] < 100 {
		t.Errorf("steps %v in 120 periods", n)
	}
	e, err := a.Explain("/app/a")
	if err != nil {
		t.Fatal(err)
	}
	if s := e.Cgroup.SLO; s.Blocks < 18 || s.Pairs < 8 || s.Inflation == nil || s.Source != "prometheus took_seconds at http://127.0.0.1:1/metrics" {
		t.Errorf("%+v", s)
	}
}

// A probe that asks for nothing that could leave must not stretch a target; a service's own figures may.
func TestProbesOfNothingAreBlind(t *testing.T) {
	for _, c := range []struct {
		source slo.Config
		want   bool
	}{
		{slo.Config{TCP: &slo.TCP{}}, true},
		{slo.Config{Redis: &slo.Redis{}}, true},
		{slo.Config{Redis: &slo.Redis{Key: "k"}}, true},
		{slo.Config{HTTP: &slo.HTTP{}}, false},
		{slo.Config{Prometheus: &slo.Prometheus{}}, false},
	} {
		if blind(c.source) != c.want {
			t.Errorf("%v: want %v", c.source, c.want)
		}
	}
}

func TestSLOMetricsAndReload(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	a, _ := watched(m, newFakeWorker(), 0)
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(&collector{a}); err != nil {
		t.Fatal(err)
	}
	ticks(a, 20, time.Now())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range families {
		seen[f.GetName()] = true
	}
	for _, n := range []string{"slo_p99_seconds", "slo_multiplier_ratio", "slo_hold", "slo_blocks_total"} {
		if !seen["spillway_offload_"+n] {
			t.Errorf("no %s", n)
		}
	}
	cfg := a.cfg
	cfg.SLO = nil
	if err := a.apply(cfg); err != nil {
		t.Fatal(err)
	}
	if found, _, _ := learnt(t, a, "/app/a"); found {
		t.Error("the objective outlived its removal from the configuration")
	}
}

// A reload that leaves an entry as it is, whatever else it changes, keeps what was learnt from it; one that puts
// another entry before it does not, and neither does another period.
func TestReloadKeepsWhatWasLearnt(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	a, _ := watched(m, newFakeWorker(), 0)
	ticks(a, 60, time.Now())
	blocks := func() int {
		t.Helper()
		e, err := a.Explain("/app/a")
		if err != nil {
			t.Fatal(err)
		}
		if e.Cgroup.SLO == nil {
			return 0
		}
		return e.Cgroup.SLO.Blocks
	}
	learnt, first := blocks(), a.cfg.SLO[0]
	if learnt == 0 {
		t.Fatal("nothing was learnt")
	}
	other := SLO{Cgroup: "/app/b", P99: time.Second, Source: slo.Config{TCP: &slo.TCP{Address: "127.0.0.1:2"}}}
	all := SLO{Cgroup: "/app/*", Source: other.Source}
	for _, c := range []struct {
		name   string
		list   []SLO
		period time.Duration
		want   int
	}{
		{"another entry", []SLO{first, other}, a.cfg.Period, learnt},
		{"the other away, and the order changed", []SLO{first}, a.cfg.Period, learnt},
		{"before it one for others", []SLO{other, first}, a.cfg.Period, learnt},
		{"before it one that matches", []SLO{all, first}, a.cfg.Period, 0},
	} {
		cfg := a.cfg
		cfg.SLO, cfg.Period = c.list, c.period
		if err := a.apply(cfg); err != nil {
			t.Fatal(err)
		}
		a.closeObjectives()
		if got := blocks(); got != c.want {
			t.Errorf("%s: %d blocks, want %d", c.name, got, c.want)
		}
	}
}
