package preflight

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/testkit"
)

func TestMayAct(t *testing.T) {
	tree := testkit.NewCgroupTree(t, testkit.CgroupHybrid)
	if err := MayAct(tree.Root, 0); err != nil {
		t.Errorf("root on a good tree: %v", err)
	}
	err := MayAct(tree.Root, 1000)
	if errkind.Of(err) != errkind.Denied || !strings.Contains(errkind.HintOf(err), "sudo spillway up") {
		t.Errorf("user 1000: %v, hint %q", err, errkind.HintOf(err))
	}

	before := tree.Get("/", "cgroup.procs")
	if err := MayAct(tree.Root, 0); err != nil || tree.Get("/", "cgroup.procs") != before {
		t.Errorf("looking wrote: %v", err)
	}
	if err := os.Remove(filepath.Join(tree.Memory, "cgroup.procs")); err != nil {
		t.Fatal(err)
	}
	if err := MayAct(tree.Root, 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no cgroup.procs: %v", err)
	}
	if err := MayAct(t.TempDir(), 0); err == nil {
		t.Error("a machine without cgroups passes")
	}
}
