package tier

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/internal/worker"
)

// TestMain lets the test binary be the two programs that the code under test starts: the worker and the canary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "worker" || os.Args[1] == "canary") {
		if err := hidden(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func hidden(command string, args []string) error {
	if command == "canary" {
		return CanaryMain(context.Background(), os.Stdin, os.Stdout)
	}
	if len(args) != 2 || args[0] != "--state-dir" {
		return fmt.Errorf("worker: arguments %q", args)
	}
	return worker.Main(context.Background(), os.Stdin, os.Stdout, worker.MainConfig{StateDir: args[1]})
}

// hostState is what must be the same after a test as before it.
func hostState(t *testing.T, h cgroup.Hierarchy) string {
	t.Helper()
	var b strings.Builder
	areas, err := proc.ReadSwaps("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range areas {
		fmt.Fprintln(&b, "swap", a.Path, a.Size, a.Priority)
	}
	knobs, err := filepath.Glob("/sys/module/zswap/parameters/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range append(knobs, "/proc/sys/vm/page-cluster") {
		v, err := os.ReadFile(k)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s", k, v)
	}
	for _, dir := range slices.Compact([]string{h.Memory, h.Unified}) {
		if dir == "" {
			continue
		}
		list, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range list {
			if strings.HasPrefix(e.Name(), CanaryPrefix) {
				fmt.Fprintln(&b, "cgroup", filepath.Join(dir, e.Name()))
			}
		}
	}
	return b.String()
}

// The whole way on this machine: a real worker makes a swap file, the canary's pages go out and come back, and
// afterwards nothing of it is left. It asserts what the kernel counted, never how long it took.
func TestCanaryOnThisHost(t *testing.T) {
	probe.Need(t, probe.Root)
	probe.Need(t, probe.SwapOn)
	h, err := cgroup.Discover("/")
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("needs a memory controller: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	testkit.HostLock(t)
	before := hostState(t, h)
	if strings.Contains(before, "swap ") {
		t.Skip("needs a host without swap of its own, to know where pages go; this one has some")
	}
	// Not t.TempDir: that may be a tmpfs, which cannot hold swap.
	dir, err := os.MkdirTemp("/var/tmp", "spillway-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w, err := worker.Start(t.Context(), worker.Config{Exe: exe, StateDir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	shut := func() {
		if closed {
			return
		}
		closed = true
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	defer shut()

	set, err := Open("/", log)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if advice := set.Advice(); !strings.Contains(advice, "no swap") {
		t.Errorf("advice without swap: %q", advice)
	}
	// Long, because a loaded machine is no failure here.
	conf := CanaryConfig{Exe: exe, Hierarchy: h, Set: set, Worker: w, Size: 8 * bytesize.MiB, Limit: time.Minute, Log: log}
	if ms, err := Canary(t.Context(), conf); ms != nil || !errors.Is(err, ErrNoSwap) {
		t.Errorf("without swap: %v, %v", ms, err)
	}

	file := &SwapFile{Path: filepath.Join(dir, "swap"), Size: 128 * bytesize.MiB}
	for _, tc := range []struct {
		name  string
		setup Setup
		tier  string // beginning of its name: which number a zram device gets is the kernel's choice
		need  probe.Feature
	}{
		{"zswap", Setup{Zswap: On, PageCluster: ptr(0), SwapFile: file}, "zswap", probe.Zswap},
		{"file", Setup{Zswap: Auto, PageCluster: ptr(0), SwapFile: file}, "swap:" + file.Path, probe.SwapOn},
		{"zram", Setup{Zram: &Zram{Size: 128 * bytesize.MiB}}, "zram", probe.Zram},
	} {
		t.Run(tc.name, func(t *testing.T) {
			probe.Need(t, tc.need)
			if err := set.Apply(t.Context(), tc.setup, w); err != nil {
				t.Fatal(err)
			}
			p, ok := set.Primary()
			if !ok || !strings.HasPrefix(p.Name, tc.tier) || !p.Ours {
				t.Fatalf("primary tier %+v, %v", p, ok)
			}
			measureHere(t, conf, p)
		})
	}
	t.Run("out of time", func(t *testing.T) {
		conf.Limit = time.Millisecond
		if ms, err := Canary(t.Context(), conf); ms != nil || err == nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v", ms, err)
		}
	})
	shut()
	if after := hostState(t, h); after != before {
		t.Errorf("the host was\n%s\nand is\n%s", before, after)
	}
	if _, err := os.Lstat(file.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the swap file is still there: %v", err)
	}
}

func measureHere(t *testing.T, conf CanaryConfig, want Tier) {
	t.Helper()
	before, err := proc.ReadVmstat("/")
	if err != nil {
		t.Fatal(err)
	}
	ms, err := Canary(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	after, err := proc.ReadVmstat("/")
	if err != nil {
		t.Fatal(err)
	}
	if len(ms) == 0 || ms[0].Tier != want.Name {
		t.Fatalf("measured %+v, want %s first", ms, want.Name)
	}
	m := ms[0]
	t.Logf("%+v", ms)
	pages := int(conf.Size) / os.Getpagesize()
	if float64(m.Pages) < 0.8*float64(pages) || m.Pages > pages {
		t.Errorf("%d of %d pages came back from the tier", m.Pages, pages)
	}
	if m.P50 <= 0 || m.P99 < m.P50 || m.Mean <= 0 || m.At.IsZero() {
		t.Errorf("times %+v", m)
	}
	if !math.IsNaN(m.PSICounted) && (m.PSICounted < 0 || m.PSICounted > 1) {
		t.Errorf("share of stall counted %v", m.PSICounted)
	}
	out, in := after.PswpOut-before.PswpOut, after.PswpIn-before.PswpIn
	if want.Kind == KindZswap {
		out, in = after.ZswpOut-before.ZswpOut, after.ZswpIn-before.ZswpIn
	}
	switch {
	case want.Memory() && m.Compression < 1.5:
		t.Errorf("text shrinks %.2f:1 in %s, want more than 1.5", m.Compression, want.Name)
	case !want.Memory() && m.Compression != 1:
		t.Errorf("compression %v on a disk", m.Compression)
	}
	if out < uint64(m.Pages) || in < uint64(m.Pages) {
		t.Errorf("the kernel counted %d pages out and %d in, the canary %d", out, in, m.Pages)
	}
	if list, err := filepath.Glob(filepath.Join(conf.Hierarchy.Memory, CanaryPrefix+"*")); err != nil || len(list) > 0 {
		t.Errorf("cgroups left: %v, %v", list, err)
	}
}
