package cgroup_test

import (
	"errors"
	"testing"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/testkit"
)

// Who only takes memory holds less: Usage and the actions work, the rest says that it does not.
func TestOpenToAct(t *testing.T) {
	for _, mode := range []testkit.CgroupMode{testkit.CgroupV1, testkit.CgroupHybrid, testkit.CgroupV2} {
		t.Run(string(mode), func(t *testing.T) {
			tree := testkit.NewCgroupTree(t, mode)
			tree.Put("/a", testkit.MemGroup{Usage: 10 << 20, Anon: 10 << 20, Swap: 1 << 20})
			h, err := cgroup.Discover(tree.Root)
			if err != nil {
				t.Fatal(err)
			}
			g, err := h.OpenToAct("/a")
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			if n, err := g.Usage(); err != nil || n != 10<<20 {
				t.Errorf("usage %d, %v", n, err)
			}
			if mode == testkit.CgroupV2 {
				err = g.Reclaim(1 << 20)
			} else {
				_, err = g.Shrink(1<<20, 0, func(_, _ int64) error { return nil })
			}
			if err != nil {
				t.Error(err)
			}
			hold, err := g.Hold(cgroup.FileOnly, func(string, int64, int64) error { return nil })
			if err := errors.Join(err, hold.Release()); err != nil {
				t.Errorf("hold: %v", err)
			}
			var s cgroup.Stat
			if err := g.Stat(&s); err == nil {
				t.Error("a full stat without its files")
			}
			if _, err := h.OpenToAct("/b"); !errors.Is(err, cgroup.ErrGone) {
				t.Errorf("a cgroup that is not there: %v", err)
			}
		})
	}
}
