package cgroup_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/testkit"
)

func TestDiscover(t *testing.T) {
	for _, mode := range []testkit.CgroupMode{testkit.CgroupV1, testkit.CgroupV2, testkit.CgroupHybrid} {
		t.Run(string(mode), func(t *testing.T) {
			tree := testkit.NewCgroupTree(t, mode)
			h, err := cgroup.Discover(tree.Root)
			if err != nil {
				t.Fatal(err)
			}
			if string(h.Mode) != string(mode) || h.Memory != tree.Memory || h.Unified != tree.Unified || h.CanReclaim != (mode == testkit.CgroupV2) {
				t.Errorf("%+v, tree has %s and %q", h, tree.Memory, tree.Unified)
			}
			tree.Put("/a/b", testkit.MemGroup{Usage: 9 << 20, Anon: 5 << 20, File: 3 << 20, Swap: 1 << 20, RefaultAnon: 7, OOMKills: 2, FailCnt: 4, Procs: []int{41, 42, 43}})
			tree.Place(0, "/a/b", "/a/b")
			self, err := h.Self()
			if err != nil || self != "/a/b" {
				t.Fatalf("self %q, %v", self, err)
			}
			g, err := h.Open(self)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			var s cgroup.Stat
			want := cgroup.Stat{Usage: 9 << 20, Limit: cgroup.Unlimited, SwapMax: cgroup.Unlimited, Anon: 5 << 20, File: 3 << 20,
				Swap: 1 << 20, RefaultAnon: 7, Refaults: true, OOMKills: 2, FailCnt: 4}
			if err := g.Stat(&s); err != nil || s != want {
				t.Errorf("got  %+v, %v\nwant %+v", s, err, want)
			}
			if pids, err := g.Procs(2); err != nil || !slices.Equal(pids, []int{41, 42}) {
				t.Errorf("processes %v, %v", pids, err)
			}
			dir, err := h.UnifiedDir(0)
			if mode == testkit.CgroupV1 {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("pressure on v1: %q, %v", dir, err)
				}
			} else if err != nil || dir != filepath.Join(tree.Unified, "a/b") {
				t.Errorf("pressure directory %q, %v", dir, err)
			}
		})
	}
}

func TestDiscoverInsideAContainer(t *testing.T) {
	tree := testkit.NewCgroupTree(t, testkit.CgroupV2)
	line := "40 30 0:37 /kubepods/pod1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	if err := os.WriteFile(filepath.Join(tree.Root, "proc/self/mountinfo"), []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
	h, err := cgroup.Discover(tree.Root)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{"/kubepods/pod1": "/", "/kubepods/pod1/c": "/c", "/kubepods/pod10": "", "/other": ""} {
		tree.Place(0, in, in)
		got, err := h.Self()
		if got != want || (want == "") != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestDiscoverWithoutMemoryController(t *testing.T) {
	tree := testkit.NewCgroupTree(t, testkit.CgroupV2)
	tree.Set("/", "cgroup.controllers", "cpu io\n")
	_, err := cgroup.Discover(tree.Root)
	if errkind.Of(err) != errkind.Unsupported || !strings.Contains(errkind.HintOf(err), "cgroup_disable=memory") {
		t.Errorf("%v, hint %q", err, errkind.HintOf(err))
	}
	if err := os.WriteFile(filepath.Join(tree.Root, "proc/self/mountinfo"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := cgroup.Discover(tree.Root); errkind.Of(err) != errkind.Unsupported {
		t.Errorf("%v", err)
	}
}

func TestListHostileNames(t *testing.T) {
	tree := testkit.NewCgroupTree(t, testkit.CgroupHybrid)
	names := []string{"new\nline", "esc\x1b[2J", "<script>", strings.Repeat("n", 255), " blank ", "..x", "ünï", "\xff\xfe", "a:b", "plain/inner"}
	want := []string{"/", "/plain"}
	tree.Put("/plain", testkit.MemGroup{})
	for _, name := range names {
		tree.Put("/"+name, testkit.MemGroup{})
		want = append(want, "/"+name)
	}
	if err := os.Symlink("/", filepath.Join(tree.Memory, "link")); err != nil {
		t.Fatal(err)
	}
	h, err := cgroup.Discover(tree.Root)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := h.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Path)
		if leaf := e.Path != "/" && e.Path != "/plain"; e.Leaf != leaf {
			t.Errorf("%q: leaf %v", e.Path, e.Leaf)
		}
		g, err := h.Open(e.Path)
		if err != nil {
			t.Errorf("open %q: %v", e.Path, err)
			continue
		}
		if g.Inode() != e.Inode || g.Path() != e.Path {
			t.Errorf("%q: inode %d, listed %d", e.Path, g.Inode(), e.Inode)
		}
		g.Close()
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Names of 255 bytes nested 40 deep are longer than the kernel takes as one path.
func TestDeepTree(t *testing.T) {
	tree := testkit.NewCgroupTree(t, testkit.CgroupV1)
	h, err := cgroup.Discover(tree.Root)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(tree.Memory)
	if err != nil {
		t.Fatal(err)
	}
	name, path := strings.Repeat("d", 255), ""
	files := []string{"cgroup.procs", "memory.stat", "memory.usage_in_bytes", "memory.failcnt"}
	for range 40 {
		if err := root.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := root.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		root.Close()
		root, path = next, path+"/"+name
		for _, file := range files {
			if err := root.WriteFile(file, []byte(tree.Get("/", file)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	root.Close()
	entries, err := h.List()
	if err != nil || len(entries) != 41 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	g, err := h.Open(path)
	if err != nil {
		t.Fatalf("open %d bytes of path: %v", len(path), err)
	}
	defer g.Close()
	var s cgroup.Stat
	if err := g.Stat(&s); err != nil {
		t.Error(err)
	}
}

func TestListWhileCgroupsVanish(t *testing.T) {
	tree := testkit.NewCgroupTree(t, testkit.CgroupV1)
	for i := range 40 {
		tree.Put(fmt.Sprintf("/stay%d", i), testkit.MemGroup{})
	}
	h, err := cgroup.Discover(tree.Root)
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			dir := filepath.Join(tree.Memory, fmt.Sprintf("go%d", i%7), "inner")
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.RemoveAll(filepath.Dir(dir))); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 200 {
		entries, err := h.List()
		stay := 0
		for _, e := range entries {
			if strings.HasPrefix(e.Path, "/stay") {
				stay++
			}
		}
		if err != nil || stay != 40 {
			t.Errorf("%d of 40 that stay, %v", stay, err)
			break
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestShrinkAsksForSense(t *testing.T) {
	never := func(_, _ int64) error { t.Error("the intent was recorded"); return nil }
	for _, c := range []struct {
		mode        testkit.CgroupMode
		path        string
		step, floor int64
	}{{testkit.CgroupV2, "/a", 4096, 0}, {testkit.CgroupV1, "/", 4096, 0}, {testkit.CgroupV1, "/a", 0, 0}, {testkit.CgroupV1, "/a", 4096, -1}} {
		tree := testkit.NewCgroupTree(t, c.mode)
		tree.Put("/a", testkit.MemGroup{Usage: 1 << 20})
		h, err := cgroup.Discover(tree.Root)
		if err != nil {
			t.Fatal(err)
		}
		g, err := h.Open(c.path)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		if _, err := g.Shrink(c.step, c.floor, never); errkind.Of(err) != errkind.Invalid {
			t.Errorf("%+v: %v", c, err)
		}
		if err := g.Reclaim(0); errkind.Of(err) != errkind.Invalid {
			t.Errorf("reclaim nothing: %v", err)
		}
		switch err := g.Reclaim(4096); {
		case c.mode == testkit.CgroupV2 && (err != nil || tree.Get(c.path, "memory.reclaim") != "4096"):
			t.Errorf("reclaim: %v, wrote %q", err, tree.Get(c.path, "memory.reclaim"))
		case c.mode == testkit.CgroupV1 && errkind.Of(err) != errkind.Unsupported:
			t.Errorf("reclaim on v1: %v", err)
		}
	}
}

func BenchmarkList2000(b *testing.B) {
	tree := testkit.NewCgroupTree(b, testkit.CgroupV1)
	for i := range 1000 {
		tree.Put(fmt.Sprintf("/kubepods/pod%d/c", i), testkit.MemGroup{})
	}
	h, err := cgroup.Discover(tree.Root)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if entries, err := h.List(); err != nil || len(entries) < 2000 {
			b.Fatal(len(entries), err)
		}
	}
}
