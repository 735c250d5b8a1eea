package offload

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/internal/testkit/herd"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/tier"
)

// swapKnobs is what must be the same after a test that makes tiers.
func swapKnobs(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	files, err := filepath.Glob("/sys/module/zswap/parameters/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, "/proc/sys/vm/page-cluster", "/proc/swaps") {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[f] = string(b)
	}
	return out
}

// hold makes a cgroup below parent with a process that holds mib MiB of a kind, cold.
func hold(t *testing.T, parent, name, kind string, mib int) {
	t.Helper()
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "holder", kind, strconv.Itoa(mib), dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed: the error says only that
		var err error
		herd.Eventually(context.Background(), 5*time.Second, func() bool { err = os.Remove(dir); return err == nil })
		if err != nil {
			t.Error(err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("holder: %q, %v", line, err)
	}
}

// On the real kernel, with zswap before a swap file: of two cold neighbours, the one whose pages do not shrink is
// noticed soon and left alone from then on, although the pool is charged to nobody on cgroup v1; from the other more is
// taken.
func TestIncompressibleNeighbourOnThisHost(t *testing.T) {
	probe.Need(t, probe.Root)
	probe.Need(t, probe.SwapOn)
	probe.Need(t, probe.Zswap)
	h, err := cgroup.Discover("/")
	if err != nil {
		t.Skipf("needs a memory controller: %v", err)
	}
	testkit.HostLock(t)
	if areas, err := proc.ReadSwaps("/"); err != nil || len(areas) > 0 {
		t.Skipf("needs a host without swap of its own, to know where pages go: %v, %v", areas, err)
	}
	knobs := swapKnobs(t)
	dir, err := os.MkdirTemp("/var/tmp", "spillway-test-") // a tmpfs cannot hold swap
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	root := fmt.Sprintf("/spillway-pool-%d", os.Getpid())
	parent := filepath.Join(h.Memory, root)
	if err := os.Mkdir(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(parent); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	if h.Mode == cgroup.V2 {
		if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
			t.Fatal(err)
		}
	}
	hold(t, parent, "random", "random", 96)
	hold(t, parent, "text", "text", 96)

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w, err := worker.Start(t.Context(), worker.Config{Exe: exe, StateDir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	// t.Cleanup is last in, first out: the worker restores while the holders still live, which takes their pages back
	// in.
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Error(err)
		}
		if after := swapKnobs(t); !maps.Equal(knobs, after) {
			t.Errorf("the host was\n%v\nand is\n%v", knobs, after)
		}
	})
	cluster := 0
	a, err := New(Config{
		Period: time.Second, Roots: []string{root}, Params: map[class.Class]Targets{"latency": {Ratio: 0.01}}, Log: log,
		Tiers: tier.Setup{Zswap: tier.On, PageCluster: &cluster, SwapFile: &tier.SwapFile{Path: filepath.Join(dir, "swap"), Size: 512 * bytesize.MiB}},
	}, Deps{Worker: w, Exe: exe})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.closeAll)
	if err := a.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := func() (random, text admin.Cgroup) {
		for _, c := range a.Cgroups() {
			switch c.Path {
			case root + "/random":
				random = c
			case root + "/text":
				text = c
			}
		}
		return random, text
	}
	out := func(c admin.Cgroup) (n int64) {
		for _, b := range c.Offloaded {
			n += b
		}
		return n
	}
	at := time.Now()
	var random, text admin.Cgroup
	for range 120 {
		at = ticks(a, 1, at)
		if random, text = rows(); random.Incompressible || out(random) > 24*mib {
			break
		}
	}
	t.Logf("noticed: %v, after %v of the random heap and %v of the text", random.Incompressible, bytesize.Size(out(random)), bytesize.Size(out(text)))
	if !random.Incompressible || text.Incompressible {
		t.Fatalf("random: %v, text: %v; want the first alone to be marked\n%+v", random.Incompressible, text.Incompressible, a.Decisions("", 40))
	}
	atRandom, atText := out(random), out(text)
	ticks(a, 25, at)
	random, text = rows()
	t.Logf("25 periods later: %v and %v", bytesize.Size(out(random)), bytesize.Size(out(text)))
	if d := a.Decisions(root+"/random", 1)[0]; d.Step > 0 || !strings.Contains(d.Detail, "incompressible: ") {
		t.Errorf("last decision %+v", d)
	}
	if grown := out(random) - atRandom; grown > 2*mib {
		t.Errorf("%v more of the random heap was taken", bytesize.Size(grown))
	}
	if grown := out(text) - atText; grown < 4*mib {
		t.Errorf("only %v more of the text was taken", bytesize.Size(grown))
	}
}
