package probe_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/testkit"
)

func TestCheckCgroups(t *testing.T) {
	for mode, want := range map[testkit.CgroupMode]map[probe.Feature]bool{
		testkit.CgroupV1:     {probe.MemoryV1: true, probe.MemoryV2: false, probe.MemoryReclaim: false},
		testkit.CgroupHybrid: {probe.MemoryV1: true, probe.MemoryV2: false, probe.MemoryReclaim: false},
		testkit.CgroupV2:     {probe.MemoryV1: false, probe.MemoryV2: true, probe.MemoryReclaim: true},
	} {
		root := testkit.NewCgroupTree(t, mode).Root
		for f, here := range want {
			check(t, root, f, here)
		}
	}
	tree := testkit.NewCgroupTree(t, testkit.CgroupV2)
	if err := os.Remove(filepath.Join(tree.Memory, "memory.reclaim")); err != nil {
		t.Fatal(err)
	}
	check(t, tree.Root, probe.MemoryV2, true)
	check(t, tree.Root, probe.MemoryReclaim, false)
	if err := probe.Check(t.TempDir(), probe.MemoryV1); err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without mountinfo nobody can tell, but: %v", err)
	}
}

// check asks on the made-up machine and, if the feature is missing, whether the error is of use.
func check(t *testing.T, root string, f probe.Feature, here bool) {
	t.Helper()
	err := probe.Check(root, f)
	if here {
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
		return
	}
	var m *probe.Missing
	if !errors.As(err, &m) || !errors.Is(err, errors.ErrUnsupported) || errkind.Of(err) != errkind.Unsupported || errkind.HintOf(err) == "" {
		t.Errorf("%s: %v (%T)", f, err, err)
	}
}

func TestCheckFilesAndPrograms(t *testing.T) {
	root := t.TempDir()
	things := map[probe.Feature]string{
		probe.PSI:      "proc/pressure/memory",
		probe.Zswap:    "sys/module/zswap/parameters/enabled",
		probe.Zram:     "sys/class/zram-control/hot_add",
		probe.Chromium: "usr/bin/chromium",
		probe.Redis:    "usr/bin/redis-server",
	}
	for f := range things {
		check(t, root, f, false)
	}
	for f, file := range things {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		check(t, root, f, true)
	}
	if err := os.Chmod(filepath.Join(root, "usr/bin/chromium"), 0o644); err != nil {
		t.Fatal(err)
	}
	check(t, root, probe.Chromium, false)
	if err := probe.Check(root, "teleporter"); err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("no feature: %v", err)
	}
}

func TestMissingSaysSince(t *testing.T) {
	for want, m := range map[string]*probe.Missing{
		"memory.reclaim is missing here (Linux 5.19 has it)": {Feature: "memory.reclaim", Since: "5.19"},
		"chromium is missing here":                           {Feature: "chromium", Do: "install it"},
	} {
		if m.Error() != want {
			t.Errorf("%q, want %q", m.Error(), want)
		}
	}
}

type recorder struct{ skipped, failed string }

func (r *recorder) Helper()                   {}
func (r *recorder) Skipf(f string, a ...any)  { r.skipped = fmt.Sprintf(f, a...) }
func (r *recorder) Fatalf(f string, a ...any) { r.failed = fmt.Sprintf(f, a...) }

func TestNeed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var r recorder
	probe.Need(&r, "teleporter")
	if r.skipped != "" || !strings.Contains(r.failed, "teleporter") {
		t.Errorf("%+v", r)
	}
	r = recorder{}
	probe.Need(&r, probe.Root)
	if skipped := r.skipped != ""; skipped != (os.Geteuid() != 0) || r.failed != "" {
		t.Errorf("as user %d: %+v", os.Geteuid(), r)
	}
}
