package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit"
)

func limitOf(t testing.TB, b *bed) int64 {
	t.Helper()
	g, err := b.h.Open(b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var st cgroup.Stat
	if err := g.Stat(&st); err != nil {
		t.Fatal(err)
	}
	return st.Limit
}

func TestStepTakesMemoryAndRestoresTheLimit(t *testing.T) {
	b := newBed(t, "step")
	role(t, b.dir, "reread", dataFile(t, 16*mib))
	dir := stateDir(t)
	c := startWorker(t, dir)
	r, err := c.Step(t.Context(), Step{Cgroup: b.path, Inode: b.inode, Bytes: 2 * mib, Floor: mib})
	if err != nil || r.Before < 12*mib || r.After >= r.Before || r.Took <= 0 {
		t.Errorf("step: %+v, %v", r, err)
	}
	if l := limitOf(t, b); l != cgroup.Unlimited {
		t.Errorf("limit is %d after the step", l)
	}
	entries, _, err := journal.Read(dir)
	if err != nil || len(entries) != 1 || entries[0].Kind != journal.Limit || entries[0].Pending || entries[0].Inode != b.inode || entries[0].Old != "max" {
		t.Errorf("journal %+v, %v", entries, err)
	}
	if r, err := c.Step(t.Context(), Step{Cgroup: b.path, Bytes: mib, Floor: 1 << 40}); err != nil || r.Before != r.After {
		t.Errorf("step below the floor: %+v, %v", r, err)
	}
	mustClose(t, c)
	journalEmpty(t, dir)
}

func TestStepRefuses(t *testing.T) {
	b := newBed(t, "refuse")
	c := startWorker(t, stateDir(t))
	self, err := b.h.Self()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		step Step
		kind errkind.Kind
		is   error
	}{
		{"own cgroup", Step{Cgroup: self, Bytes: mib}, errkind.Denied, nil},
		{"root", Step{Cgroup: "/", Bytes: mib}, errkind.Denied, nil},
		{"climbing path", Step{Cgroup: "/x/../..", Bytes: mib}, errkind.Invalid, nil},
		{"no such cgroup", Step{Cgroup: "/spillway-test-none\xff", Bytes: mib}, errkind.NotFound, cgroup.ErrGone},
		{"another inode", Step{Cgroup: b.path, Inode: b.inode + 1, Bytes: mib}, errkind.NotFound, cgroup.ErrGone},
		{"no bytes", Step{Cgroup: b.path, Bytes: 0}, errkind.Invalid, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := c.Step(t.Context(), tc.step)
			if err == nil || errkind.Of(err) != tc.kind || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("got %v (kind %v), want kind %v and %v", err, errkind.Of(err), tc.kind, tc.is)
			}
		})
	}
}

func TestStepOnACgroupThatVanished(t *testing.T) {
	b := newBed(t, "vanish")
	stay, line := role(t, b.dir, "reread", dataFile(t, 4*mib))
	dir := stateDir(t)
	c := startWorker(t, dir)
	step := Step{Cgroup: b.path, Inode: b.inode, Bytes: mib / 2}
	if _, err := c.Step(t.Context(), step); err != nil {
		t.Fatalf("%v (workload said %q)", err, line)
	}
	stay.Process.Kill()
	stay.Wait()
	if err := emptyAndRemove(t.Context(), b.dir, false); err != nil && errkind.Of(err) != errkind.Unavailable {
		t.Fatal(err)
	}
	if err := emptyAndRemove(t.Context(), b.dir, true); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Step(t.Context(), step); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("removed: %v, want cgroup.ErrGone", err)
	}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Step(t.Context(), step); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("path reused: %v, want cgroup.ErrGone", err)
	}
	ino, _, err := inodeAt(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Step(t.Context(), Step{Cgroup: b.path, Inode: ino, Bytes: mib}); err != nil {
		t.Errorf("the new cgroup: %v", err)
	}
	if u, err := c.Usage(); err != nil || u.Entries != 0 {
		t.Errorf("%d entries in the journal, %v; an empty cgroup needs none and a vanished one must be forgotten", u.Entries, err)
	}
}

// A huge step into swap takes far longer than the deadline.
func TestDeadlineCallsABlockedStepBack(t *testing.T) {
	probe.Need(t, probe.SwapOn)
	testkit.HostLock(t)
	b := newBed(t, "blocked")
	dir := stateDir(t)
	c := startWorker(t, dir)
	swapDir, err := os.MkdirTemp("/var/tmp", "spillway-test-worker-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(swapDir)
	_, err = c.Do(t.Context(), Change{SwapFile: &SwapFile{Path: filepath.Join(swapDir, "swap"), Size: 160 * mib, Priority: -1}})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("needs a disk filesystem at /var/tmp: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	load, _ := role(t, b.dir, "anon", itoa(96*mib))
	step := Step{Cgroup: b.path, Inode: b.inode, Bytes: 1 << 40, Floor: mib}

	// One that is cancelled once the worker says that it has begun.
	ctx, cancel := context.WithCancel(t.Context())
	first := begin(ctx, t, c, step)
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled step: %v", err)
	}
	if l := limitOf(t, b); l != cgroup.Unlimited {
		t.Errorf("limit is %d after the cancelling", l)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	r, err := c.Step(ctx, step)
	t.Logf("called back after %v: %+v", r.Took, r)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("step of everything in 10 ms: %+v, %v; want the deadline", r, err)
	}
	// The same as a batch, whose other step fails at once.
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	got := answers{}
	c.Steps(ctx, []Step{step, {Cgroup: "/spillway-test-none", Bytes: mib}}, got.take(t))
	if len(got) != 2 || !errors.Is(got[0], context.DeadlineExceeded) || !errors.Is(got[1], cgroup.ErrGone) && !errors.Is(got[1], context.DeadlineExceeded) {
		t.Errorf("batch of everything in 10 ms: %v", got)
	}
	if l := limitOf(t, b); l != cgroup.Unlimited {
		t.Errorf("limit is %d after the deadline", l)
	}

	// The end of the daemon's end of the pipe with a step under way.
	begin(context.Background(), t, c, step)
	start := time.Now()
	c.hangUp()
	<-c.Dead()
	t.Logf("undone in %v, swapoff included", time.Since(start))
	if l := limitOf(t, b); l != cgroup.Unlimited {
		t.Errorf("limit is %d after the worker's end", l)
	}
	if exists(filepath.Join(swapDir, "swap")) {
		t.Error("swap file is still there")
	}
	if err := sys.Kill(load.Process.Pid, 0); err != nil {
		t.Errorf("the workload died: %v", err)
	}
	journalEmpty(t, dir)
}

// begin starts a step and returns once the worker is at it; the channel has its end.
func begin(ctx context.Context, t *testing.T, c *Client, step Step) <-chan error {
	end := make(chan error, 1)
	go func() {
		for {
			_, err := c.Step(ctx, step)
			if !errors.Is(err, ErrInFlight) { // the question below was there first
				end <- err
				return
			}
		}
	}()
	for len(end) == 0 {
		// Takes nothing, and is refused while another step is under way.
		if _, err := c.Step(t.Context(), Step{Cgroup: step.Cgroup, Bytes: 4096, Floor: 1 << 40}); errors.Is(err, ErrInFlight) {
			break
		}
	}
	return end
}

func TestStepWithoutAJournalChangesNothing(t *testing.T) {
	b := newBed(t, "nojournal")
	role(t, b.dir, "reread", dataFile(t, 8*mib))
	// Writes: the limit's entry and the first intent and its end pass, then the disk is full.
	t.Setenv("SPILLWAY_TEST_WRITES", "3")
	dir := stateDir(t)
	c := startWorker(t, dir)
	step := Step{Cgroup: b.path, Inode: b.inode, Bytes: mib, Floor: mib}
	if _, err := c.Step(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	r, err := c.Step(t.Context(), step)
	if !errors.Is(err, sys.ENOSPC) || errkind.Of(err) != errkind.Exhausted || errkind.HintOf(err) == "" || r.Before != r.After {
		t.Errorf("step with a full disk: %+v, %v", r, err)
	}
	if l := limitOf(t, b); l != cgroup.Unlimited {
		t.Errorf("limit is %d", l)
	}
	knob := filepath.Join(b.dir, "memory.swappiness")
	if _, err := c.Do(t.Context(), Change{Knob: &Knob{knob, "10"}}); !errors.Is(err, sys.ENOSPC) {
		t.Errorf("knob with a full disk: %v", err)
	}
	if v := value(t, knob); v != "60" {
		t.Errorf("swappiness is %s, changed without a journal", v)
	}
	if _, err := c.Do(t.Context(), Change{Mkdir: &Mkdir{filepath.Join(b.dir, "x"), true}}); !errors.Is(err, sys.ENOSPC) || exists(filepath.Join(b.dir, "x")) {
		t.Errorf("cgroup with a full disk: %v", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Errorf("undoing on a full disk: %v", err)
	}
}

// The v2 way, on a folder: what is asked for never goes below the floor.
func TestStepReclaimsOnV2(t *testing.T) {
	tree := testkit.NewCgroupTree(t, testkit.CgroupV2)
	tree.Put("/pod", testkit.MemGroup{Usage: 100 * mib})
	bootID(t, tree.Root)
	t.Setenv("SPILLWAY_TEST_ROOT", tree.Root)
	c := startWorker(t, stateDir(t))
	if r, err := c.Step(t.Context(), Step{Cgroup: "/pod", Bytes: 30 * mib, Floor: 90 * mib}); err != nil || r.Before != 100*mib {
		t.Errorf("%+v, %v", r, err)
	}
	if got := tree.Get("/pod", "memory.reclaim"); got != "10485760" {
		t.Errorf("asked to reclaim %q, want what is above the floor", got)
	}
	tree.Set("/pod", "memory.reclaim", "")
	if _, err := c.Step(t.Context(), Step{Cgroup: "/pod", Bytes: mib, Floor: 100 * mib}); err != nil || tree.Get("/pod", "memory.reclaim") != "" {
		t.Errorf("at the floor: %v, asked for %q", err, tree.Get("/pod", "memory.reclaim"))
	}
	tree.Remove("/pod")
	if _, err := c.Step(t.Context(), Step{Cgroup: "/pod", Inode: 1, Bytes: mib}); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("removed: %v", err)
	}
}

func bootID(t testing.TB, root string) {
	t.Helper()
	dir := filepath.Join(root, "proc/sys/kernel/random")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "boot_id"), []byte("this-boot\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTwoWorkersOnOneStateDir(t *testing.T) {
	dir := stateDir(t)
	c := startWorker(t, dir)
	_, err := Start(t.Context(), Config{Exe: testExe(t), StateDir: dir})
	if errkind.Of(err) != errkind.Unavailable || !strings.Contains(err.Error(), itoa(c.PID())) || errkind.HintOf(err) == "" {
		t.Errorf("second worker: %v, want unavailable, naming process %d", err, c.PID())
	}
	if _, err := Restore(t.Context(), dir, false, nil); errkind.Of(err) != errkind.Unavailable {
		t.Errorf("restore beside a worker: %v", err)
	}
	if _, err := c.Usage(); err != nil {
		t.Errorf("the first worker: %v", err)
	}
	mustClose(t, c)
	mustClose(t, startWorker(t, dir))
	if _, err := Start(t.Context(), Config{Exe: testExe(t), StateDir: "relative"}); errkind.Of(err) != errkind.Invalid {
		t.Errorf("relative state directory: %v", err)
	}
	if _, err := Start(t.Context(), Config{Exe: "/bin/false", StateDir: dir}); errkind.Of(err) != errkind.Unavailable {
		t.Errorf("a program that is no worker: %v", err)
	}
}

// BenchmarkPeriod is what the daemon's side of one period with 200 steps costs: the steps take nothing, so that only
// the pipe is measured.
func BenchmarkPeriod(b *testing.B) {
	var beds []*bed
	for i := range 200 {
		beds = append(beds, newBed(b, "bench"+itoa(i)))
	}
	c := startWorker(b, stateDir(b))
	user, system, _, _ := sys.Rusage(sys.UsageSelf)
	before := user + system
	for b.Loop() {
		var wg sync.WaitGroup
		for _, bed := range beds {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
				defer cancel()
				if _, err := c.Step(ctx, Step{Cgroup: bed.path, Inode: bed.inode, Bytes: mib, Floor: mib}); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	user, system, _, _ = sys.Rusage(sys.UsageSelf)
	b.ReportMetric(float64((user+system-before).Microseconds())/float64(200*b.N), "daemon-cpu-µs/step")
}
