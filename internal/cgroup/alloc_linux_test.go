//go:build !race

// The race detector's own bookkeeping allocates, so these tests run without it.

package cgroup

import (
	"path/filepath"
	"testing"
)

func TestStatAllocatesNothing(t *testing.T) {
	for _, name := range []string{"v1-6.18", "v2-6.1"} {
		g := openFolder(t, filepath.Join("testdata", name))
		var s Stat
		var err error
		if n := testing.AllocsPerRun(100, func() { err = g.Stat(&s) }); n != 0 || err != nil {
			t.Errorf("%s: %v allocations a read, %v", name, n, err)
		}
		if n := testing.AllocsPerRun(100, func() { err = g.Refresh(&s) }); n != 0 || err != nil {
			t.Errorf("%s: %v allocations a refresh, %v", name, n, err)
		}
		if n := testing.AllocsPerRun(100, func() { _, err = g.Usage() }); n != 0 || err != nil {
			t.Errorf("%s: %v allocations a usage read, %v", name, n, err)
		}
	}
}
