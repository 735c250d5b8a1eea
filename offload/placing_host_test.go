package offload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/tier"
)

// tierable is a cgroup on a kernel that has all the files, with zswap before a disk; else t is skipped.
func tierable(t *testing.T) (h cgroup.Hierarchy, root, parent string) {
	t.Helper()
	probe.Need(t, probe.Root)
	probe.Need(t, probe.SwapOn)
	probe.Need(t, probe.Zswap)
	h, err := cgroup.Discover("/")
	if err != nil || h.Mode != cgroup.V2 {
		t.Skipf("needs a pure cgroup v2 tree: %v, %v", h.Mode, err)
	}
	testkit.HostLock(t)
	set, err := tier.Open("/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	have, on := set.Shrinker()
	pool, disk := false, false
	for _, x := range set.Tiers() {
		pool = pool || x.Kind == tier.KindZswap && x.State == tier.Active
		disk = disk || !x.Memory() && x.State == tier.Active
	}
	if !have || on || !pool || !disk {
		t.Skipf("needs Linux 6.8 with zswap before a disk and its shrinker off: shrinker %v (on %v), pool %v, disk %v", have, on, pool, disk)
	}
	root = fmt.Sprintf("/spillway-place-%d", os.Getpid())
	parent = filepath.Join(h.Memory, root)
	if err := os.Mkdir(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(parent); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
		t.Fatal(err)
	}
	return h, root, parent
}

// counter reads a line of a cgroup's memory.stat; 0 where there is none.
func counter(t *testing.T, dir, key string) int64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if name, val, _ := strings.Cut(strings.TrimSpace(line), " "); name == key {
			n, err := strconv.ParseInt(val, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// taken is what a reclaim did, in pages: the disk was written so many, of which so many came out of the pool, whose
// content grew by so many.
type taken struct{ written, moved, grown int64 }

// reclaim has the kernel take so much of dir, as far as it can. What was written is the whole machine's.
func reclaim(t *testing.T, dir string, n bytesize.Size) taken {
	t.Helper()
	look := func() taken {
		var vm proc.Vmstat
		r, err := proc.OpenReader("/")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.Vmstat(&vm); err != nil {
			t.Fatal(err)
		}
		return taken{int64(vm.PswpOut), counter(t, dir, "zswpwb"), counter(t, dir, "zswapped") / int64(os.Getpagesize())}
	}
	before := look()
	// Less than asked is said by EAGAIN.
	err := os.WriteFile(filepath.Join(dir, "memory.reclaim"), []byte(strconv.FormatInt(int64(n), 10)), 0)
	if err != nil && !errors.Is(err, sys.EAGAIN) {
		t.Fatal(err)
	}
	after := look()
	d := taken{after.written - before.written, after.moved - before.moved, after.grown - before.grown}
	t.Logf("%v taken of %s (%v): %d pages written to the disk, %d of them out of the pool, whose content grew by %d",
		n, filepath.Base(dir), err, d.written, d.moved, d.grown)
	return d
}

func knobOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

const shrinkerFile = "/sys/module/zswap/parameters/shrinker_enabled"

// On a real kernel: a service's pages stay in the pool while the shrinker is on, those of both are limited once they
// are long cold, what comes to the pool from then on goes to the disk or pushes older pages there, and at the end
// everything is as it was. An hour is played in a few seconds: the agent is told that each of its periods is a minute.
func TestPlacingOnThisHost(t *testing.T) {
	_, root, parent := tierable(t)
	hold(t, parent, "web", "text", 96)
	hold(t, parent, "batch", "text", 96)
	web, batch := filepath.Join(parent, "web"), filepath.Join(parent, "batch")
	for _, dir := range []string{web, batch} {
		if d := reclaim(t, dir, 40*bytesize.MiB); d.grown < 16*mib/4096 {
			t.Fatalf("%s: only %d pages went to the pool", dir, d.grown)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w, err := worker.Start(t.Context(), worker.Config{Exe: exe, StateDir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{
		Period: time.Second, Roots: []string{root}, Log: log, Classes: []class.Rule{{Match: root + "/batch", Class: class.Throughput}},
		// Steps would only blur what the test's own reclaim does.
		Floor: 2 * bytesize.GiB,
		Tiers: tier.Setup{WriteBack: tier.Auto},
	}, Deps{Worker: w, Exe: exe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.closeAll)
	at := time.Now()
	minutes := func(n int) {
		for range n {
			at = at.Add(time.Minute)
			a.tick(context.Background(), at, time.Minute)
			a.drainSteps()
		}
	}
	minutes(15)
	if s := knobOf(t, shrinkerFile) + knobOf(t, filepath.Join(web, fileWriteback)) + knobOf(t, filepath.Join(batch, fileWriteback)); s != "Y01" {
		t.Errorf("shrinker, writeback of the service and of the batch job are %q, want Y01; %v", s, a.Status().Wont)
	}
	for range 4 {
		if d := reclaim(t, web, 4*bytesize.MiB); d.written != 0 {
			t.Errorf("%d pages were written to the disk for the service", d.written)
		}
		reclaim(t, batch, 4*bytesize.MiB)
	}
	minutes(80)
	for _, dir := range []string{web, batch} {
		limit, used := knobOf(t, filepath.Join(dir, fileZswapMax)), counter(t, dir, "zswap")
		if n, err := strconv.ParseInt(limit, 10, 64); err != nil || n <= 0 || n >= used {
			t.Errorf("%s: limit %q of %d bytes; %v", dir, limit, used, a.Cgroups())
		}
		t.Logf("%s is limited to %s of %d bytes in the pool", filepath.Base(dir), limit, used)
		if d := reclaim(t, dir, 4*bytesize.MiB); d.written == 0 || d.grown > mib/4096 {
			t.Errorf("%s, over its limit: %+v", dir, d)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Error(err)
	}
	for _, f := range []string{shrinkerFile, filepath.Join(web, fileWriteback), filepath.Join(web, fileZswapMax), filepath.Join(batch, fileZswapMax)} {
		if got := knobOf(t, f); got != map[string]string{"shrinker_enabled": "N", fileWriteback: "1", fileZswapMax: "max"}[filepath.Base(f)] {
			t.Errorf("%s is %q at the end", f, got)
		}
	}
}

// Over a limit the pool does not grow, and for each page that would go there one is written to the disk. Which, is for
// the kernel: since Linux 6.12 each page in the pool is passed over once, and a store looks at one, so at first the new
// pages go.
func TestALimitAloneOnThisHost(t *testing.T) {
	_, _, parent := tierable(t)
	hold(t, parent, "alone", "text", 64)
	dir := filepath.Join(parent, "alone")
	reclaim(t, dir, 32*bytesize.MiB)
	used := counter(t, dir, "zswap")
	file := filepath.Join(dir, fileZswapMax)
	if err := os.WriteFile(file, []byte(strconv.FormatInt(used/2, 10)), 0); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if d := reclaim(t, dir, 4*bytesize.MiB); d.written == 0 || d.grown > mib/4096 {
			t.Errorf("over its limit: %+v", d)
		}
	}
}
