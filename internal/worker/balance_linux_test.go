package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit"
)

// choosingBed is a cgroup on a real kernel of either hierarchy with 8 MiB of file cache and 32 MiB of anonymous memory,
// and swap to take them to.
func choosingBed(t *testing.T) (*bed, *Client, string) {
	t.Helper()
	probe.Need(t, probe.Root)
	probe.Need(t, probe.SwapOn)
	h, err := cgroup.Discover("/")
	if err != nil {
		t.Fatal(err)
	}
	if h.Mode == cgroup.V2 {
		probe.Need(t, probe.MemoryReclaim)
	}
	testkit.HostLock(t)
	b := &bed{h: h, path: fmt.Sprintf("/spillway-test-worker-%d-choose", os.Getpid())}
	b.dir = filepath.Join(h.Memory, b.path)
	if err := os.Mkdir(b.dir, 0o755); errors.Is(err, os.ErrPermission) || errors.Is(err, sys.EROFS) {
		t.Skipf("needs a writable cgroup file system: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := emptyAndRemove(context.Background(), b.dir, true); err != nil {
			t.Error(err)
		}
	})
	if b.inode, _, err = inodeAt(b.dir); err != nil {
		t.Fatal(err)
	}
	dir := stateDir(t)
	c := startWorker(t, dir)
	swapDir, err := os.MkdirTemp("/var/tmp", "spillway-test-worker-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(swapDir) })
	_, err = c.Do(t.Context(), Change{SwapFile: &SwapFile{Path: filepath.Join(swapDir, "swap"), Size: 96 * mib, Priority: -1}})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("needs a disk filesystem at /var/tmp: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	role(t, b.dir, "once", dataFile(t, 8*mib))
	role(t, b.dir, "anon", itoa(32*mib))
	return b, c, dir
}

func statOf(t testing.TB, b *bed) (st cgroup.Stat) {
	t.Helper()
	g, err := b.h.Open(b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.Stat(&st); err != nil {
		t.Fatal(err)
	}
	return st
}

// knobsOf are the files that a step may hold, with what they read.
func knobsOf(t testing.TB, b *bed) string {
	t.Helper()
	file := cgroup.FileSwappiness
	if b.h.Mode == cgroup.V2 {
		file = cgroup.FileSwapMax
	}
	return value(t, filepath.Join(b.dir, file))
}

// One cgroup holds both kinds. A step for file cache takes nothing else. One for anonymous memory takes nothing else
// where the kernel has "max"; a weight only leans, and is not asked for more than that some is swapped in the end.
func TestStepReclaimsTheChosenMemory(t *testing.T) {
	b, c, dir := choosingBed(t)
	before, knob := statOf(t, b), knobsOf(t, b)
	if before.File < 7*mib || before.Anon < 30*mib {
		t.Fatalf("the workload is not there: %+v", before)
	}
	step := Step{Cgroup: b.path, Inode: b.inode, Bytes: 4 * mib, Floor: mib, Swappiness: cgroup.FileOnly}
	r, err := c.Step(t.Context(), step)
	after := statOf(t, b)
	t.Logf("file only, by %s: %+v; file %d → %d, anon %d → %d, swap %d", r.By, r, before.File, after.File, before.Anon, after.Anon, after.Swap)
	if err != nil || r.By == "" || r.Swappiness != cgroup.FileOnly {
		t.Errorf("file only: %+v, %v", r, err)
	}
	if before.File-after.File < 3*mib || after.Swap != 0 || before.Anon-after.Anon > mib/4 {
		t.Errorf("file only took file %d → %d, anon %d → %d, swap %d", before.File, after.File, before.Anon, after.Anon, after.Swap)
	}
	if now := knobsOf(t, b); now != knob {
		t.Errorf("the knob reads %q after the step, %q before", now, knob)
	}

	before = after
	step.Swappiness = cgroup.AnonOnly
	for range 6 {
		r, err = c.Step(t.Context(), step)
		if after = statOf(t, b); err != nil || after.Swap > 3*mib {
			break
		}
	}
	t.Logf("anonymous, by %s: %+v; file %d → %d, anon %d → %d, swap %d", r.By, r, before.File, after.File, before.Anon, after.Anon, after.Swap)
	strict := r.By == cgroup.FileReclaim && r.Swappiness == cgroup.AnonOnly
	switch {
	case errors.Is(err, errors.ErrUnsupported): // v2 before 6.11
		if errkind.HintOf(err) == "" || r.Before != r.After || after.Swap != before.Swap {
			t.Errorf("a kernel that cannot: %+v, %v; swap %d", r, err, after.Swap)
		}
	case err != nil || after.Swap < 3*mib || strict && before.File-after.File > mib/4:
		t.Errorf("anonymous: %v; file %d → %d, swap %d → %d", err, before.File, after.File, before.Swap, after.Swap)
	}
	if now := knobsOf(t, b); now != knob {
		t.Errorf("the knob reads %q after the steps, %q before", now, knob)
	}
	// The plain step is what it was.
	if r, err := c.Step(t.Context(), Step{Cgroup: b.path, Bytes: mib, Floor: mib}); err != nil || r.By != "" || r.Swappiness != cgroup.KernelsChoice {
		t.Errorf("plain step: %+v, %v", r, err)
	}
	mustClose(t, c)
	journalEmpty(t, dir)
}

// A deadline calls a step back while it holds the knob.
func TestDeadlineGivesTheBalanceBack(t *testing.T) {
	b, c, dir := choosingBed(t)
	knob := knobsOf(t, b)
	step := Step{Cgroup: b.path, Inode: b.inode, Bytes: 1 << 40, Floor: mib, Swappiness: cgroup.FileOnly}
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := c.Step(ctx, step)
		cancel()
		t.Logf("step: %v", err)
		if now := knobsOf(t, b); now != knob {
			t.Fatalf("the knob reads %q after the deadline, %q before", now, knob)
		}
	}
	// The end of the daemon's end of the pipe, with a step perhaps under way.
	begin(t.Context(), t, c, step)
	c.hangUp()
	<-c.Dead()
	if now := knobsOf(t, b); now != knob {
		t.Errorf("the knob reads %q after the worker's end, %q before", now, knob)
	}
	journalEmpty(t, dir)
}

// On a folder that stands in for v1: what the worker writes, journals and puts back, and what it leaves alone.
func TestBalanceIsJournalled(t *testing.T) {
	for _, tc := range []struct {
		name, file, found string // what the knob reads when somebody looks after both processes died
		mode              testkit.CgroupMode
		from, to          int64
		want, result      string
	}{
		{"v1, ours", cgroup.FileSwappiness, "0\n", testkit.CgroupV1, 60, 0, "60\n", Restored},
		{"v1, somebody else's", cgroup.FileSwappiness, "30\n", testkit.CgroupV1, 60, 0, "30\n", Alone},
		{"v1, back already", cgroup.FileSwappiness, "60\n", testkit.CgroupV1, 60, 0, "60\n", Nothing},
		{"v2, ours", cgroup.FileSwapMax, "8192\n", testkit.CgroupV2, cgroup.Unlimited, 8192, "max\n", Restored},
		{"v2, somebody else's", cgroup.FileSwapMax, "0\n", testkit.CgroupV2, cgroup.Unlimited, 8192, "0\n", Alone},
		{"not a file that a step holds", "memory.limit_in_bytes", "1\n", testkit.CgroupV1, 60, 1, "1\n", Kept},
		{"v2's file on v1", cgroup.FileSwapMax, "8192\n", testkit.CgroupV1, 60, 8192, "8192\n", Kept},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree := testkit.NewCgroupTree(t, tc.mode)
			tree.Put("/pod", testkit.MemGroup{Usage: 100 * mib})
			tree.Set("/pod", tc.file, tc.found)
			bootID(t, tree.Root)
			dir := stateDir(t)
			j, _, err := journal.Open(dir, journal.Config{})
			if err != nil {
				t.Fatal(err)
			}
			id, err := j.Put(journal.Entry{Kind: journal.Balance, Boot: "this-boot", Path: "/pod", Old: "whatever", New: tc.file})
			if err == nil {
				err = errors.Join(j.Intent(id, tc.from, tc.to), j.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			dry, err := restoreAt(t.Context(), tree.Root, dir, true, nil)
			if err != nil || len(dry) != 1 || dry[0].Result != tc.result || tree.Get("/pod", tc.file) != tc.found {
				t.Errorf("dry run: %+v, %v, file %q", dry, err, tree.Get("/pod", tc.file))
			}
			out, err := restoreAt(t.Context(), tree.Root, dir, false, nil)
			if err != nil || len(out) != 1 || out[0].Result != tc.result || (out[0].Err != nil) != (tc.result == Kept) {
				t.Errorf("restore: %+v, %v; want %s", out, err, tc.result)
			}
			if got := tree.Get("/pod", tc.file); got != tc.want {
				t.Errorf("the file reads %q, want %q", got, tc.want)
			}
			if tc.result != Kept {
				journalEmpty(t, dir)
			}
		})
	}
}

// A lasting change of the file that a step holds is refused, and so is the step while the change is written.
func TestStepAndChangeOfOneFileRefuseEachOther(t *testing.T) {
	var st steering
	if err := st.claim("/a"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{st.claim("/a"), st.free("/a")} {
		if !errors.Is(err, ErrInFlight) || errkind.Of(err) != errkind.Unavailable || errkind.HintOf(err) == "" {
			t.Errorf("held file: %v", err)
		}
	}
	st.give("/a")
	if err := errors.Join(st.free("/a"), st.claim("/b"), st.claim("/a")); err != nil {
		t.Error(err)
	}
}

func TestStepRefusesAnImpossibleChoice(t *testing.T) {
	tree := testkit.NewCgroupTree(t, testkit.CgroupV1)
	tree.Put("/pod", testkit.MemGroup{Usage: 100 * mib})
	bootID(t, tree.Root)
	t.Setenv("SPILLWAY_TEST_ROOT", tree.Root)
	c := startWorker(t, stateDir(t))
	for _, sw := range []cgroup.Swappiness{-1, cgroup.AnonOnly + 1} {
		if _, err := c.Step(t.Context(), Step{Cgroup: "/pod", Bytes: mib, Swappiness: sw}); errkind.Of(err) != errkind.Invalid {
			t.Errorf("swappiness %d: %v", sw, err)
		}
	}
	// A step that would take nothing leaves the knob alone, and so has nothing to journal.
	if _, err := c.Step(t.Context(), Step{Cgroup: "/pod", Bytes: mib, Floor: 1 << 40, Swappiness: cgroup.FileOnly}); err != nil {
		t.Error(err)
	}
	if u, err := c.Usage(); err != nil || u.Entries != 0 {
		t.Errorf("%d entries, %v", u.Entries, err)
	}
}

// Both processes can die at any instant of a step that holds the knob; what is left is repaired from the journal.
func TestKillingTheWorkerAmidAChosenReclaim(t *testing.T) {
	b, c, dir := choosingBed(t)
	role(t, b.dir, "reread", dataFile(t, 16*mib))
	knob, rng, dirty := knobsOf(t, b), seeded(t), 0
	for i := range 12 {
		if i > 0 {
			c = startWorker(t, dir) // which also repairs
		}
		go func() {
			for err := error(nil); err == nil; {
				_, err = c.Step(context.Background(), Step{Cgroup: b.path, Inode: b.inode, Bytes: mib, Floor: mib, Swappiness: cgroup.FileOnly})
			}
		}()
		instant(rng, 30*time.Millisecond)
		if err := sys.Kill(c.PID(), sys.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-c.Dead()
		if knobsOf(t, b) != knob {
			dirty++
		}
		if i%2 == 0 {
			if out, err := Restore(t.Context(), dir, false, testLog(t)); err != nil || failures(out) != nil {
				t.Fatalf("round %d: %v, %+v", i, err, out)
			}
		} else {
			mustClose(t, startWorker(t, dir))
		}
		if now := knobsOf(t, b); now != knob {
			t.Fatalf("round %d: the knob reads %q, %q before", i, now, knob)
		}
		journalEmpty(t, dir)
	}
	t.Logf("%d of 12 killings left the knob at another value", dirty)
}
