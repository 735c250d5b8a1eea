package testkit_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit"
)

func TestHostLock(t *testing.T) {
	const path = "/run/spillway-test.lock"
	t.Run("held", func(t *testing.T) {
		testkit.HostLock(t)
		f, err := sys.OpenRegular(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := sys.Flock(f, false); !errors.Is(err, sys.ErrLocked) {
			t.Errorf("the lock is not held: %v", err)
		}
	})
}

func TestCgroupTreeLooksLikeItsMode(t *testing.T) {
	for mode, wants := range map[testkit.CgroupMode][]string{
		testkit.CgroupV1:     {"/memory.limit_in_bytes=1048576", "/memory.stat=total_rss 4096"},
		testkit.CgroupHybrid: {"/memory.limit_in_bytes=1048576", "/memory.stat=total_rss 4096"},
		testkit.CgroupV2:     {"/memory.max=1048576", "/memory.stat=anon 4096", "/memory.pressure=total=77"},
	} {
		tree := testkit.NewCgroupTree(t, mode)
		tree.Put("/a/b", testkit.MemGroup{Limit: 1 << 20, Anon: 4096, MemSome: 77})
		for _, want := range wants {
			file, text, _ := strings.Cut(want[1:], "=")
			if got := tree.Get("/a/b", file); !strings.Contains(got, text) {
				t.Errorf("%s: %s is %q, want %q in it", mode, file, got, text)
			}
		}
		tree.Remove("/a")
		if _, err := os.Stat(tree.Memory + "/a"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: not removed: %v", mode, err)
		}
	}
}
