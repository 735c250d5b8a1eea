package cgroup_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
)

// reclaimGroup makes an empty cgroup with memory.reclaim on a kernel that has it, and opens it.
func reclaimGroup(t *testing.T, name string) *cgroup.Group {
	t.Helper()
	probe.Need(t, probe.Root)
	probe.Need(t, probe.MemoryReclaim)
	h, err := cgroup.Discover("/")
	if err != nil {
		t.Fatal(err)
	}
	path := "/spillway-test-" + name + "-" + strconv.Itoa(os.Getpid())
	dir := filepath.Join(h.Memory, path)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeGroup(t, dir) })
	g, err := h.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// memory.reclaim on the real kernel: file cache leaves, no limit is set, and asking for more than there is gives
// what there is instead of an error.
func TestHostReclaimTakesFileCache(t *testing.T) {
	g := reclaimGroup(t, "reclaim-file")
	start(t, g, "file", 32*mib)
	before, err := g.Usage()
	if err != nil || before < 30*mib {
		t.Fatalf("usage %d, %v", before, err)
	}
	if err := g.Reclaim(8 * mib); err != nil {
		t.Fatal(err)
	}
	after, err := g.Usage()
	if err != nil || before-after < 6*mib {
		t.Errorf("8 MiB asked for: usage %d, was %d, %v", after, before, err)
	}
	if err := g.Reclaim(1 << 40); err != nil {
		t.Errorf("asking for more than there is: %v", err)
	}
	if max, err := os.ReadFile(filepath.Join(g.Dir(), "memory.max")); err != nil || string(max) != "max\n" {
		t.Errorf("memory.max %q, %v: reclaim must leave no limit", max, err)
	}
}

// Anonymous memory goes to swap, and the counters that the law brakes on move when it comes back.
func TestHostReclaimTakesAnonymousMemory(t *testing.T) {
	g := reclaimGroup(t, "reclaim-anon")
	if areas, err := proc.ReadSwaps("/"); err != nil || len(areas) == 0 {
		t.Skipf("needs swap in use: %v", err)
	}
	start(t, g, "anon", 48*mib)
	if err := g.Reclaim(24 * mib); err != nil {
		t.Fatal(err)
	}
	var s cgroup.Stat
	if err := g.Stat(&s); err != nil || s.Swap < 16*mib || !s.Refaults {
		t.Errorf("after 24 MiB: %+v, %v", s, err)
	}
}

// A thread blocked in memory.reclaim is called back by a signal, as the worker does when the daemon dies.
func TestHostReclaimIsInterrupted(t *testing.T) {
	g := reclaimGroup(t, "reclaim-signal")
	start(t, g, "file", 64*mib)
	tid, done := make(chan int, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		tid <- sys.Gettid()
		done <- g.Reclaim(1 << 40)
	}()
	id := <-tid
	for {
		select {
		case err := <-done: // a fast kernel is through before the signal: then it must be no error
			if err != nil && (!errors.Is(err, cgroup.ErrInterrupted) || !errors.Is(err, sys.EINTR)) {
				t.Errorf("interrupted reclaim: %v", err)
			}
			return
		default:
			if err := sys.Tgkill(os.Getpid(), id, sys.SIGURG); err != nil {
				t.Fatal(err)
			}
			runtime.Gosched()
		}
	}
}
