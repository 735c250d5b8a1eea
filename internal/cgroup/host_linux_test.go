package cgroup_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/swap"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit"
)

const mib = 1 << 20

// The test binary is also the process that fills a cgroup: with "anon" it touches memory, with "file" it
// writes a file; then it says so and waits for its input to close.
func TestMain(m *testing.M) {
	if kind := os.Getenv("SPILLWAY_TEST_FILL"); kind != "" {
		if err := fill(kind, os.Getenv("SPILLWAY_TEST_FILE")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func fill(kind, file string) error {
	size, err := strconv.Atoi(os.Getenv("SPILLWAY_TEST_BYTES"))
	if err != nil {
		return err
	}
	switch kind {
	case "anon":
		b, err := sys.MmapAnon(size)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += 8 { // compressible, but no page equal to another
			b[i], b[i+1], b[i+2] = byte(i>>12), byte(i>>20), byte(i>>3)
		}
	case "file":
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		defer f.Close()
		for range size / mib {
			if _, err := f.Write(make([]byte, mib)); err != nil {
				return err
			}
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	fmt.Println("filled")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// hostGroup makes an empty v1 memory cgroup on this host and opens it.
func hostGroup(t *testing.T, name string) (h cgroup.Hierarchy, g *cgroup.Group) {
	t.Helper()
	probe.Need(t, probe.Root)
	probe.Need(t, probe.MemoryV1)
	h, err := cgroup.Discover("/")
	if err != nil {
		t.Fatal(err)
	}
	path := "/spillway-test-" + name + "-" + strconv.Itoa(os.Getpid())
	dir := filepath.Join(h.Memory, path)
	if err := os.Mkdir(dir, 0o755); errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
		t.Skipf("needs a writable cgroup file system: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeGroup(t, dir) })
	if g, err = h.Open(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return h, g
}

// removeGroup tries for a while: the last task of a cgroup leaves it a little after it was waited for.
func removeGroup(t *testing.T, dir string) {
	deadline := time.Now().Add(5 * time.Second)
	for {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("cgroup left behind: %v", err)
			return
		}
		runtime.Gosched()
	}
}

// start runs a process that fills g with bytes and returns once they are there.
func start(t *testing.T, g *cgroup.Group, kind string, bytes int) (pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	// The shell joins the cgroup before it becomes the test binary, so everything is charged there.
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `echo 0 > "$1/cgroup.procs" && exec "$2"`, "sh", g.Dir(), os.Args[0])
	cmd.Env = append(os.Environ(), "SPILLWAY_TEST_FILL="+kind, "SPILLWAY_TEST_BYTES="+strconv.Itoa(bytes),
		"SPILLWAY_TEST_FILE="+filepath.Join(t.TempDir(), "data"))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("filling process: %v", err)
		}
		cancel()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "filled\n" {
		t.Fatalf("filling process said %q: %v", line, err)
	}
	return cmd.Process.Pid
}

func limitText(t *testing.T, g *cgroup.Group) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.Dir(), "memory.limit_in_bytes"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func setLimit(t *testing.T, g *cgroup.Group, n int64) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.Dir(), "memory.limit_in_bytes"), []byte(strconv.FormatInt(n, 10)), 0); err != nil {
		t.Fatal(err)
	}
}

func TestHostShrinkTakesFileCache(t *testing.T) {
	_, g := hostGroup(t, "file")
	start(t, g, "file", 32*mib)
	before := limitText(t, g)
	var got [2]int64
	r, err := g.Shrink(8*mib, 4*mib, func(old, target int64) error {
		if now := limitText(t, g); now != before {
			t.Errorf("limit is %s before the intent is recorded", now)
		}
		got = [2]int64{old, target}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := r.Before - r.After; took < 7*mib || took > 12*mib {
		t.Errorf("took %d bytes of 8 MiB: %+v", took, r)
	}
	if want := [2]int64{cgroup.Unlimited, r.Before - 8*mib}; got != want {
		t.Errorf("intent %d, want %d", got, want)
	}
	if after := limitText(t, g); after != before || !r.Restored {
		t.Errorf("limit %s, was %s; %+v", after, before, r)
	}
}

func TestHostShrinkRestoresAFiniteLimit(t *testing.T) {
	_, g := hostGroup(t, "finite")
	start(t, g, "file", 16*mib)
	setLimit(t, g, 200*mib)
	r, err := g.Shrink(4*mib, 0, func(old, _ int64) error {
		if old != 200*mib {
			t.Errorf("old limit %d", old)
		}
		return nil
	})
	if err != nil || !r.Restored || r.After >= r.Before {
		t.Fatalf("%+v, %v", r, err)
	}
	if now := limitText(t, g); now != strconv.Itoa(200*mib) {
		t.Errorf("limit %s", now)
	}
	var s cgroup.Stat
	if err := g.Stat(&s); err != nil || s.Limit != 200*mib || s.File < 4*mib {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestHostShrinkRespectsTheFloor(t *testing.T) {
	_, g := hostGroup(t, "floor")
	start(t, g, "file", 16*mib)
	r, err := g.Shrink(1<<40, 12*mib, func(_, target int64) error {
		if target != 12*mib {
			t.Errorf("target %d below the floor", target)
		}
		return nil
	})
	if err != nil || r.After > r.Before || r.After < 10*mib {
		t.Errorf("%+v, %v", r, err)
	}
	intents := 0
	count := func(_, _ int64) error { intents++; return nil }
	if r, err = g.Shrink(mib, 1<<40, count); err != nil || intents != 0 || !r.Restored {
		t.Errorf("at the floor: %d intents, %+v, %v", intents, r, err)
	}
	usage, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	setLimit(t, g, usage+mib) // above usage, so that it can be set; still below the target of a step of one page
	if _, err := g.Shrink(4096, usage+2*mib, count); err != nil || intents != 0 {
		t.Errorf("limit below target: %d intents, %v", intents, err)
	}
}

func TestHostShrinkAbortsWithoutAJournal(t *testing.T) {
	_, g := hostGroup(t, "abort")
	start(t, g, "file", 8*mib)
	full := errors.New("journal full")
	before := limitText(t, g)
	r, err := g.Shrink(2*mib, 0, func(_, _ int64) error { return full })
	if !errors.Is(err, full) || r.Before != r.After {
		t.Errorf("%+v, %v", r, err)
	}
	if now := limitText(t, g); now != before {
		t.Errorf("limit %s", now)
	}
}

func TestHostRestoreLeavesAForeignLimit(t *testing.T) {
	_, g := hostGroup(t, "foreign")
	changed, err := g.RestoreLimit(cgroup.Unlimited, 64*mib)
	if changed || err != nil {
		t.Errorf("nothing of ours: changed %v, %v", changed, err)
	}
	setLimit(t, g, 64*mib)
	if changed, err = g.RestoreLimit(cgroup.Unlimited, 65*mib); changed || err != nil || limitText(t, g) != strconv.Itoa(64*mib) {
		t.Errorf("foreign limit: changed %v, %v, now %s", changed, err, limitText(t, g))
	}
	if changed, err = g.RestoreLimit(cgroup.Unlimited, 64*mib); !changed || err != nil || limitText(t, g) == strconv.Itoa(64*mib) {
		t.Errorf("our limit: changed %v, %v, now %s", changed, err, limitText(t, g))
	}
}

func TestHostShrinkTakesAnonymousMemory(t *testing.T) {
	probe.Need(t, probe.SwapOn)
	testkit.HostLock(t)
	t.Run("busy without swap", shrinkWithoutSwap)
	swapFile := filepath.Join("/var/tmp", "spillway-test-swap-"+strconv.Itoa(os.Getpid()))
	if err := swap.MakeFile(swapFile, 128*mib); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(swapFile) })
	if err := swap.On(swapFile, -1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := swap.Off(swapFile); err != nil {
			t.Error(err)
		}
	})
	_, g := hostGroup(t, "anon")
	start(t, g, "anon", 64*mib)
	r, err := g.Shrink(16*mib, 0, func(_, _ int64) error { return nil })
	if err != nil || r.Before-r.After < 15*mib || !r.Restored {
		t.Fatalf("%+v, %v", r, err)
	}
	var s cgroup.Stat
	if err := g.Stat(&s); err != nil || s.Swap < 12*mib || !s.Refaults {
		t.Errorf("%+v, %v", s, err)
	}
	t.Run("a signal calls the thread back", func(t *testing.T) { interruptShrink(t, g) })
}

func shrinkWithoutSwap(t *testing.T) {
	if areas, err := proc.ReadSwaps("/"); err != nil || len(areas) > 0 {
		t.Skipf("needs a host without swap: %+v, %v", areas, err)
	}
	_, g := hostGroup(t, "busy")
	start(t, g, "anon", 16*mib)
	before := limitText(t, g)
	r, err := g.Shrink(12*mib, 0, func(_, _ int64) error { return nil })
	if err != nil || !r.Busy || !r.Restored {
		t.Errorf("%+v, %v", r, err)
	}
	if now := limitText(t, g); now != before {
		t.Errorf("limit %s, was %s", now, before)
	}
}

// interruptShrink asks for far more than can go quickly and signals the blocked thread until it returns.
func interruptShrink(t *testing.T, g *cgroup.Group) {
	before := limitText(t, g)
	tid := make(chan int, 1)
	type outcome struct {
		r   cgroup.ShrinkResult
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		r, err := g.Shrink(1<<40, 0, func(_, _ int64) error { tid <- sys.Gettid(); return nil })
		done <- outcome{r, err}
	}()
	id := <-tid
	for {
		select {
		case o := <-done:
			if !errors.Is(o.err, cgroup.ErrInterrupted) || !errors.Is(o.err, sys.EINTR) || !o.r.Restored {
				t.Errorf("%+v, %v", o.r, o.err)
			}
			if now := limitText(t, g); now != before {
				t.Errorf("limit %s, was %s", now, before)
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

func TestHostVanishedCgroup(t *testing.T) {
	h, g := hostGroup(t, "gone")
	inode := g.Inode()
	if err := os.Remove(g.Dir()); err != nil {
		t.Fatal(err)
	}
	checkGone := func(when string) {
		t.Helper()
		var s cgroup.Stat
		_, errUsage := g.Usage()
		_, errProcs := g.Procs(10)
		_, errShrink := g.Shrink(4096, 0, func(_, _ int64) error { return nil })
		_, errRestore := g.RestoreLimit(cgroup.Unlimited, 4096)
		for what, err := range map[string]error{"stat": g.Stat(&s), "usage": errUsage, "procs": errProcs, "shrink": errShrink, "restore": errRestore} {
			if !errors.Is(err, cgroup.ErrGone) {
				t.Errorf("%s: %s: %v", when, what, err)
			}
		}
	}
	checkGone("removed")
	if _, err := h.Open(g.Path()); !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("open: %v", err)
	}
	if err := os.Mkdir(g.Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	checkGone("path reused")
	again, err := h.Open(g.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Inode() == inode {
		t.Errorf("the successor has the same inode %d", inode)
	}
}

func TestHostReadOnlyMount(t *testing.T) {
	h, g := hostGroup(t, "ro")
	start(t, g, "file", 4*mib)
	mnt := t.TempDir()
	if err := unix.Mount(h.Memory, mnt, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs bind mounts: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mnt, 0); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("", mnt, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	ro := h
	ro.Memory = mnt
	view, err := ro.Open(g.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	intents := 0
	_, err = view.Shrink(mib, 0, func(_, _ int64) error { intents++; return nil })
	if errkind.Of(err) != errkind.Denied || intents != 0 || !strings.Contains(errkind.HintOf(err), "remount") {
		t.Errorf("%d intents, kind %v, %v, hint %q", intents, errkind.Of(err), err, errkind.HintOf(err))
	}
}

func TestHostProcsAndList(t *testing.T) {
	h, g := hostGroup(t, "procs")
	pid := start(t, g, "file", mib)
	child := filepath.Join(g.Dir(), "a \x1b[31m "+strings.Repeat("x", 200))
	if err := os.Mkdir(child, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeGroup(t, child) })
	if pids, err := g.Procs(10); err != nil || len(pids) != 1 || pids[0] != pid {
		t.Errorf("processes %v, %v; want %d", pids, err, pid)
	}
	if pids, err := g.Procs(0); err != nil || len(pids) != 0 {
		t.Errorf("at most none: %v, %v", pids, err)
	}
	entries, err := h.List()
	if err != nil {
		t.Fatal(err)
	}
	var own, inner bool
	for _, e := range entries {
		switch e.Path {
		case g.Path():
			own = !e.Leaf && e.Inode == g.Inode()
		case g.Path() + "/" + filepath.Base(child):
			inner = e.Leaf
		}
	}
	if !own || !inner {
		t.Errorf("own found: %v, child found: %v in %+v", own, inner, entries)
	}
	if err := os.Remove(child); err != nil {
		t.Fatal(err)
	}
	if self, err := h.Self(); err != nil {
		t.Error(err)
	} else if s, err := h.Open(self); err != nil {
		t.Errorf("own cgroup %q: %v", self, err)
	} else {
		s.Close()
	}
	if got := math.MaxInt64 / int64(os.Getpagesize()) * int64(os.Getpagesize()); limitText(t, g) != strconv.FormatInt(got, 10) {
		t.Errorf("unlimited reads %s, this package takes %d for it", limitText(t, g), got)
	}
}
