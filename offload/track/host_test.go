package track_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/heat"
	"github.com/spillway-io/spillway/offload/track"
)

const (
	mib     = int64(1) << 20
	hogMark = "SPILLWAY_TRACK_HOG"
	hogSize = 64 * mib
	hotSize = 16 * mib
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(hogMark); dir != "" {
		if err := hogMain(dir); err != nil {
			fmt.Println("hog:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 3 && os.Args[1] == "worker" {
		if err := worker.Main(context.Background(), os.Stdin, os.Stdout, worker.MainConfig{StateDir: os.Args[3]}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// hogMain joins the cgroup, fills its memory, and then touches what each line of its standard input names.
func hogMain(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
		return err
	}
	b, err := sys.MmapAnon(int(hogSize))
	if err == nil {
		err = sys.NoHugePages(b)
	}
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		if i%4096 < 64 {
			b[i] = byte(r.Uint32())
		}
	}
	fmt.Println("ok")
	var sum byte
	stop := func() {}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		part := b
		if what, ok := strings.CutPrefix(in.Text(), "keep "); ok {
			stop()
			stop = keepTouching(b[:map[string]int64{"all": hogSize, "hot": hotSize}[what]])
			fmt.Println("ok")
			continue
		}
		if in.Text() == "hot" {
			part = b[:hotSize]
		}
		for range 3 {
			for i := 0; i < len(part); i += 4096 {
				sum += part[i]
			}
		}
		fmt.Println("ok", sum)
	}
	return nil
}

// keepTouching touches b over and over, until it is told to stop. Unmapping more than 33 pages flushes the TLB: an
// emulated processor would keep every translation, and mark no page again whose mark was cleared.
func keepTouching(b []byte) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var sum byte
		for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; {
			for i := 0; i < len(b); i += 4096 {
				sum += b[i]
			}
			if m, err := sys.MmapAnon(64 * 4096); err == nil {
				for i := 0; i < len(m); i += 4096 {
					m[i] = 1
				}
				_ = sys.Munmap(m)
			}
			<-tick.C
		}
		runtime.KeepAlive(sum)
	}()
	return func() { cancel(); <-done }
}

// hog is a process with a known hot and cold part in a cgroup of its own.
type hog struct {
	t     *testing.T
	group track.Group
	h     cgroup.Hierarchy
	in    io.Writer
	out   *bufio.Reader
	pid   int
}

func startHog(t *testing.T, name string) *hog {
	t.Helper()
	probe.Need(t, probe.Root)
	h, err := cgroup.Discover("/")
	if err != nil {
		t.Skipf("needs a memory cgroup: %v", err)
	}
	g := &hog{t: t, h: h, group: track.Group{Path: fmt.Sprintf("/spillway-test-%s-%d", name, os.Getpid())}}
	dir := filepath.Join(h.Memory, g.group.Path)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	g.group.Inode = sys.Inode(info)
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), hogMark+"="+dir)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	g.in, g.out, g.pid = in, bufio.NewReader(out), c.Process.Pid
	g.answer()
	return g
}

func (g *hog) answer() {
	g.t.Helper()
	if line, err := g.out.ReadString('\n'); !strings.HasPrefix(line, "ok") {
		g.t.Fatalf("the hog says %q (%v)", line, err)
	}
}

// touch has the hog touch its "hot" part or "all" of its memory.
func (g *hog) touch(part string) {
	g.t.Helper()
	fmt.Fprintln(g.in, part)
	g.answer()
}

// scan is one scan at a made-up time: nothing here depends on how fast the machine is.
func (g *hog) scan(tr *track.Tracker, at time.Time) (heat.Reading, bool) {
	g.t.Helper()
	res, err := tr.Scan(context.Background(), at, []track.Group{g.group})
	if err != nil {
		g.t.Fatal(err)
	}
	if err := res.Errors[g.group]; err != nil {
		g.t.Fatal(err)
	}
	r, ok := res.Readings[g.group]
	g.t.Logf("%v of processor time; %v in all, %v promoted", res.CPU, r.Cold, r.Promo)
	return r, ok
}

var start = time.Unix(1e9, 0)

// near fails t unless got is within 3 MiB of want: the hog is a Go program with a heap and a runtime of its own, and
// pages whose translation stays in the processor are not marked again.
func near(t *testing.T, what string, got, want int64) {
	t.Helper()
	if got < want-3*mib || got > want+3*mib {
		t.Errorf("%s: %d KiB, want about %d KiB", what, got>>10, want>>10)
	}
}

// A real process with a hot quarter: the cold part is what was not touched, and what comes back is counted once, by
// age.
func TestClearRefsSeesTheColdPart(t *testing.T) {
	g := startHog(t, "clear-refs")
	if err := track.Check("/", track.ClearRefs); err != nil {
		t.Skip(err)
	}
	tr, err := track.Open("/", g.h, track.Config{Source: track.ClearRefs}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if _, ok := g.scan(tr, start); ok {
		t.Error("a reading before any bit was cleared")
	}
	var r heat.Reading
	for i := range 4 {
		g.touch("hot")
		r, _ = g.scan(tr, start.Add(time.Duration(i+1)*2*time.Minute))
	}
	const cold = hogSize - hotSize
	eight := r
	if got := r.Cold.Colder(9 * time.Minute); got != 0 {
		t.Errorf("%d bytes are older than the watching", got)
	}
	near(t, "promoted", r.Promo.Colder(0), 0)
	near(t, "working set", r.WorkingSet, r.Cold.Total()-r.Cold.Colder(2*time.Minute))

	g.touch("all")
	r, _ = g.scan(tr, start.Add(10*time.Minute))
	// What stays idle is the program's own: its runtime, and under the race detector a good deal more.
	rest := r.Cold.Colder(10 * time.Minute)
	near(t, "idle after everything was touched", min(rest, r.Cold.Total()-hogSize), rest)
	near(t, "idle for 2 minutes", eight.Cold.Colder(2*time.Minute)-rest, cold)
	near(t, "idle for 8 minutes", eight.Cold.Colder(8*time.Minute)-rest, cold)
	near(t, "promoted in two minutes after eight", 2*r.Promo.Colder(8*time.Minute), cold)
}

// The machine's real state: whatever is found is a source, or an error that says what to do; somebody else's kdamond
// runs on afterwards.
func TestThisMachineSaysWhatItHas(t *testing.T) {
	states := func() string {
		var b strings.Builder
		files, _ := filepath.Glob("/sys/kernel/mm/damon/admin/kdamonds/*/state")
		for _, f := range files {
			s, err := os.ReadFile(f)
			fmt.Fprintln(&b, f, string(s), err)
		}
		return b.String()
	}
	before := states()
	for _, k := range []track.Kind{track.MGLRU, track.DAMON, track.Idle, track.ClearRefs} {
		err := track.Check("/", k)
		t.Logf("%s: %v", k, err)
		if k == track.DAMON && err == nil && strings.Contains(before, " on") {
			t.Error("DAMON is offered")
		}
	}
	if after := states(); after != before {
		t.Errorf("kdamonds were %q, are %q", before, after)
	}
}

// In a guest, whose kernel has it: off, without debugfs, on.
func TestGenerationsSeeTheColdPart(t *testing.T) {
	if os.Getenv("SPILLWAY_GUEST") == "" {
		t.Skip("switches the LRU and mounts debugfs: runs in a guest only")
	}
	testkit.HostLock(t)
	const enabled, debugfs = "/sys/kernel/mm/lru_gen/enabled", "/sys/kernel/debug"
	old, err := os.ReadFile(enabled)
	if err != nil {
		t.Fatal(err)
	}
	set := func(v string) {
		if err := os.WriteFile(enabled, []byte(v), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(strings.TrimSpace(string(old))) })
	missing := func(do string) {
		t.Helper()
		err := track.Check("/", track.MGLRU)
		if m, ok := err.(*probe.Missing); !ok || !strings.Contains(m.Do, do) {
			t.Errorf("%v, want one whose advice has %q", err, do)
		}
	}
	set("n")
	missing("echo y > " + enabled)
	set("0x1")
	missing("echo 0x7")
	set("y")
	missing("mount -t debugfs")
	if err := unix.Mount("none", debugfs, "debugfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(debugfs, 0); err != nil {
			t.Error(err)
		}
	})
	g := startHog(t, "mglru")
	tr, err := track.Open("/", g.h, track.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if tr.Source() != "mglru" {
		t.Fatalf("source %q", tr.Source())
	}
	// Ages are the kernel's own and so real, if short; what is cold is known by count, not by time.
	var r heat.Reading
	for range 6 {
		g.touch("hot")
		r, _ = g.scan(tr, time.Now())
	}
	t.Logf("%v", r.Cold)
	const cold = hogSize - hotSize
	near(t, "older than the last scan", r.Cold.Colder(r.Cold[len(r.Cold)-1].Idle), cold)
	near(t, "in all", r.Cold.Total(), hogSize)
	g.touch("all")
	r, _ = g.scan(tr, time.Now())
	t.Logf("%v %v", r.Cold, r.Promo)
	near(t, "promoted after everything was touched", int64(float64(r.Promo.Colder(r.Span))*r.Scan.Minutes()), cold)
}

// In a guest whose kernel has DAMON, with nobody using it: hot and cold parts are told apart, the hot one when it cools
// down, and nothing stays set up.
func TestDAMONSeesTheColdPart(t *testing.T) {
	if os.Getenv("SPILLWAY_GUEST") == "" {
		t.Skip("sets up a kdamond: runs in a guest only")
	}
	testkit.HostLock(t)
	if err := track.Check("/", track.DAMON); err != nil {
		t.Skip(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := worker.Start(t.Context(), worker.Config{Exe: exe, StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	kdamonds := func() string {
		b, err := os.ReadFile("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds")
		return fmt.Sprint(strings.TrimSpace(string(b)), err)
	}
	g := startHog(t, "damon")
	tr, err := track.Open("/", g.h, track.Config{Source: track.DAMON}, w)
	if err != nil {
		t.Fatal(err)
	}
	track.Quicken(tr, 100*time.Millisecond)
	if got := kdamonds(); got != "0<nil>" {
		t.Errorf("%s kdamonds after probing", got)
	}
	// Ages are the kernel's own and so real: each look waits for a while of the hog's constant touching.
	const cold = hogSize - hotSize
	colder := func(part string, good func(int64) bool) (r heat.Reading) {
		t.Helper()
		g.touch("keep " + part)
		tick := time.NewTicker(3 * time.Second)
		defer tick.Stop()
		for range 30 {
			<-tick.C
			if r, _ = g.scan(tr, time.Now()); r.Span > 12*time.Second && good(r.Cold.Colder(10*time.Second)) {
				t.Logf("%s hot: %d of %d KiB were not touched for 10 s", part, r.Cold.Colder(10*time.Second)>>10, r.Cold.Total()>>10)
				return r
			}
		}
		t.Errorf("%s hot: %d MiB were not touched for 10 s, as DAMON sees it: %v", part, r.Cold.Colder(10*time.Second)/mib, r.Cold)
		return r
	}
	r := colder("hot", func(n int64) bool { return n > cold-8*mib && n < cold+8*mib })
	if got := r.Cold.Total(); got < hogSize || got > hogSize+32*mib {
		t.Errorf("%d MiB in memory, want %d and a Go program", got/mib, hogSize/mib)
	}
	if got := kdamonds(); got != "1<nil>" {
		t.Errorf("%s kdamonds while it runs", got)
	}
	colder("all", func(n int64) bool { return n < 16*mib })
	colder("none", func(n int64) bool { return n > hogSize-8*mib })
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	if got := kdamonds(); got != "0<nil>" {
		t.Errorf("%s kdamonds at the end", got)
	}
}
