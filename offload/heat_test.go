package offload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/track"
)

// heatMachine is a node on which clear_refs works, with one managed and one observed cgroup.
func heatMachine(t *testing.T) *machine {
	m := newMachine(t, testkit.CgroupV2)
	app := busy
	app.Procs = []int{7}
	m.Put("/app", app)
	m.Put("/other", busy)
	m.Place(7, "/app", "/app")
	m.file("proc/self/smaps", "")
	m.file("proc/self/clear_refs", "")
	m.file("proc/7/smaps", "0-1 rw-p 0 00:00 0\nPss: 65536 kB\nPrivate_Dirty: 65536 kB\nReferenced: 16384 kB\n")
	m.file("proc/7/clear_refs", "")
	return m
}

// seeing is a law that remembers its samples.
type seeing struct{ last policy.Sample }

func (*seeing) Name() string { return "seeing" }

func (s *seeing) Decide(x policy.Sample) policy.Decision {
	s.last = x
	return policy.Decision{Reason: policy.Steady, Detail: "sees"}
}

func TestHeatReachesTheLawAndTheAPI(t *testing.T) {
	m := heatMachine(t)
	a := m.agent(newFakeWorker(), func(c *Config) {
		c.Roots = []string{"/app"}
		c.Heat = track.Config{ClearRefs: true}
	})
	law := new(seeing)
	a.deps.NewLaw = func(string, policy.Params) (policy.Law, error) { return law, nil }
	at := time.Now()
	if _, err := a.Heat("/app"); errkind.Of(err) != errkind.Unknown || errkind.HintOf(err) == "" {
		t.Errorf("before the first scan: %v", err)
	}
	for i := range 2 {
		if _, err := a.scanHeat(t.Context(), at.Add(time.Duration(i)*2*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	h, err := a.Heat("/app")
	if err != nil || h.Source != "clear-refs" || h.Seen != 64*mib || h.Curve[1].Bytes != 48*mib || !h.Curve[1].Known || h.WorkingSet != 16*mib {
		t.Errorf("%+v, %v", h, err)
	}
	ticks(a, 4, at)
	if r := law.last.Heat; r == nil || r.Cold.Colder(2*time.Minute) != 48*mib {
		t.Errorf("the law sees %+v", r)
	}
	if _, err := a.Heat("/other"); errkind.Of(err) != errkind.Unsupported || errkind.HintOf(err) == "" {
		t.Errorf("an observed cgroup: %v", err)
	}
	if _, err := a.Heat("/none"); errkind.Of(err) != errkind.NotFound {
		t.Errorf("no cgroup: %v", err)
	}
	m.file("proc/7/smaps", "Pss: nonsense\n")
	if _, err := a.scanHeat(t.Context(), at.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Heat("/app"); err == nil {
		t.Error("a reading of nonsense")
	}
}

// Without a source, in a dry run and when switched off nothing is opened, nothing runs, and the answer says why.
func TestWithoutHeatThereIsAReason(t *testing.T) {
	for name, change := range map[string]func(*machine, *Config){
		"nothing here": func(m *machine, c *Config) { c.Heat.ClearRefs = false },
		"off":          func(m *machine, c *Config) { c.Heat.Source = track.Off },
		"dry run":      func(m *machine, c *Config) { c.DryRun = true },
		"by name":      func(m *machine, c *Config) { c.Heat.Source = track.MGLRU },
	} {
		m := heatMachine(t)
		a := m.agent(newFakeWorker(), func(c *Config) {
			c.Roots = []string{"/app"}
			c.Heat.ClearRefs = true
			change(m, c)
		})
		a.trackHeat(t.Context()) // returns at once
		if _, err := a.Heat("/app"); !errors.Is(err, errors.ErrUnsupported) || errkind.HintOf(err) == "" {
			t.Errorf("%s: %v, hint %q", name, err, errkind.HintOf(err))
		}
		if a.heat.of("/app", 0) != nil {
			t.Errorf("%s: a reading", name)
		}
		if b, err := os.ReadFile(filepath.Join(m.Root, "proc/7/clear_refs")); err != nil || len(b) != 0 {
			t.Errorf("%s: bits were cleared: %q, %v", name, b, err)
		}
	}
}

func TestHeatIsFixedAtStart(t *testing.T) {
	m := heatMachine(t)
	a := m.agent(newFakeWorker(), func(c *Config) { c.Heat.ClearRefs = true })
	cfg := a.cfg
	cfg.Heat.Every = time.Minute
	if err := a.apply(cfg); errkind.Of(err) != errkind.Invalid || errkind.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
	if _, err := (Config{Heat: track.Config{Source: "sundial"}}).Resolved(); errkind.Of(err) != errkind.Invalid {
		t.Errorf("an unknown source: %v", err)
	}
}

// The goroutine ends with its context, and scans before that.
func TestTrackHeatEnds(t *testing.T) {
	m := heatMachine(t)
	a := m.agent(newFakeWorker(), func(c *Config) {
		c.Roots = []string{"/app"}
		c.Heat.ClearRefs = true
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.trackHeat(ctx) }()
	for {
		if b, err := os.ReadFile(filepath.Join(m.Root, "proc/7/clear_refs")); err != nil || len(b) > 1 { // two writes of a byte each
			if fmt.Sprint(string(b), err) != "14<nil>" {
				t.Errorf("cleared with %q, %v", b, err)
			}
			break
		}
	}
	cancel()
	<-done
}

// A dry run since a reload tracks nothing, like one from the start, and tracking resumes after the next.
func TestDryRunEndsTracking(t *testing.T) {
	m := heatMachine(t)
	a := m.agent(newFakeWorker(), func(c *Config) {
		c.Roots = []string{"/app"}
		c.Heat.ClearRefs = true
	})
	at := time.Now()
	scan := func(dry bool) (cleared bool) {
		t.Helper()
		cfg := a.cfg
		cfg.DryRun = dry
		if err := a.apply(cfg); err != nil {
			t.Fatal(err)
		}
		m.file("proc/7/clear_refs", "")
		if _, err := a.scanHeat(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Hour) // an epoch
		b, err := os.ReadFile(filepath.Join(m.Root, "proc/7/clear_refs"))
		if err != nil {
			t.Fatal(err)
		}
		return len(b) > 0
	}
	for range 2 { // two make a reading
		if !scan(false) {
			t.Error("nothing was cleared")
		}
	}
	if scan(true) {
		t.Error("a dry run cleared referenced bits")
	}
	if _, err := a.Heat("/app"); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "a dry run does not track") {
		t.Errorf("in a dry run: %v", err)
	}
	if no := strings.Join(a.Status().Wont, "\n"); !strings.Contains(no, "know how recently memory was touched: a dry run") {
		t.Errorf("status will not %q", no)
	}
	if !scan(false) {
		t.Error("tracking did not resume")
	}
}

// A process whose page tables are held for ever (here: a pipe in place of its smaps) holds up a scan, not the end.
func TestAScanThatHangsIsAbandoned(t *testing.T) {
	m := heatMachine(t)
	a := m.agent(newFakeWorker(), func(c *Config) {
		c.Roots = []string{"/app"}
		c.Heat.ClearRefs = true
	})
	if _, err := a.scanHeat(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(m.Root, "proc/7/smaps")
	if err := errors.Join(os.Remove(name), unix.Mkfifo(name, 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := a.patientScan(ctx, time.Now(), time.Millisecond); done <- err }()
	w, err := os.OpenFile(name, os.O_WRONLY, 0) // returns when the scan reads
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cancel()
	if err := <-done; !errors.Is(err, errAbandoned) {
		t.Error(err)
	}
}
