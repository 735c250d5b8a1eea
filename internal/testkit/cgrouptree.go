package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// CgroupMode says what sort of machine a CgroupTree imitates.
type CgroupMode string

// The modes; the strings are those of cgroup.Mode.
const (
	CgroupV1     CgroupMode = "v1"
	CgroupV2     CgroupMode = "v2"
	CgroupHybrid CgroupMode = "hybrid"
)

// CgroupTree is a folder that looks like a machine's root directory with cgroups in it: mountinfo, the
// membership of the reading process, and the files of each cgroup. Plain files do not act: a limit written
// below the usage takes nothing, and a removed file reads on. For behaviour use the real kernel.
type CgroupTree struct {
	Root    string     // pass this as root
	Mode    CgroupMode // as given
	Memory  string     // absolute directory of the memory hierarchy
	Unified string     // absolute directory of the cgroup2 mount, "" on v1
	t       testing.TB
}

// MemGroup is what a made-up cgroup shows. Bytes and counts as in cgroup.Stat; zero is zero, but Limit 0 is
// "no limit". MemSome and IOSome are PSI totals in microseconds.
type MemGroup struct {
	Usage, Limit, Min, Low                        int64
	Anon, File, Shmem, Mapped, Dirty, Unevictable int64
	InactiveAnon, InactiveFile                    int64
	Swap, SwapCached, Zswap, Zswapped             int64
	RefaultAnon, RefaultFile, MajorFaults         uint64
	FailCnt, OOMKills                             uint64
	Procs                                         []int
	MemSome, IOSome                               uint64
}

// NewCgroupTree makes a tree with a root cgroup only; the reading process sits in it.
func NewCgroupTree(t testing.TB, mode CgroupMode) *CgroupTree {
	t.Helper()
	c := &CgroupTree{Root: t.TempDir(), Mode: mode, t: t}
	mounts := "22 1 0:21 / /sys rw,relatime - sysfs sysfs rw\n"
	const (
		line1 = "34 30 0:31 / %s rw,relatime shared:9 - cgroup cgroup rw,memory\n"
		line2 = "40 30 0:37 / %s rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	)
	mount := func(line, dir string) string {
		mounts += fmt.Sprintf(line, dir)
		return filepath.Join(c.Root, dir)
	}
	switch mode {
	case CgroupV1:
		c.Memory = mount(line1, "/sys/fs/cgroup/memory")
	case CgroupV2:
		c.Memory = mount(line2, "/sys/fs/cgroup")
		c.Unified = c.Memory
	case CgroupHybrid:
		c.Memory = mount(line1, "/sys/fs/cgroup/memory")
		c.Unified = mount(line2, "/sys/fs/cgroup/unified")
	default:
		t.Fatalf("testkit: no cgroup mode %q", mode)
	}
	c.write(filepath.Join(c.Root, "proc/self/mountinfo"), mounts)
	c.Put("/", MemGroup{})
	c.Place(0, "/", "/")
	return c
}

// Put makes the cgroup at path, or rewrites its files.
func (c *CgroupTree) Put(path string, g MemGroup) {
	c.t.Helper()
	files := g.filesV1()
	if c.Mode == CgroupV2 {
		files = g.filesV2()
		if path == "/" { // as the kernel: the root shows no usage and no limits
			for _, name := range []string{"memory.current", "memory.max", "memory.min", "memory.low", "memory.swap.max", "memory.swap.current", "memory.events"} {
				delete(files, name)
			}
		}
	}
	for name, text := range files {
		c.write(filepath.Join(c.Memory, path, name), text)
	}
	if c.Unified != "" {
		c.PutUnified(path, g.MemSome, g.IOSome)
	}
}

// PutUnified makes a cgroup in the cgroup2 mount only, with pressure files (totals in microseconds).
func (c *CgroupTree) PutUnified(path string, memSome, ioSome uint64) {
	c.t.Helper()
	if c.Unified == "" {
		c.t.Fatalf("testkit: a v1 machine has no cgroup2 mount")
	}
	dir := filepath.Join(c.Unified, path)
	c.write(filepath.Join(dir, "memory.pressure"), pressure(memSome))
	c.write(filepath.Join(dir, "io.pressure"), pressure(ioSome))
	if c.Mode == CgroupHybrid {
		c.write(filepath.Join(dir, "cgroup.controllers"), "\n")
		c.write(filepath.Join(dir, "cgroup.procs"), "")
	}
}

// Set writes one file of the cgroup at path in the memory hierarchy.
func (c *CgroupTree) Set(path, file, text string) {
	c.t.Helper()
	c.write(filepath.Join(c.Memory, path, file), text)
}

// Get reads one file of the cgroup at path in the memory hierarchy.
func (c *CgroupTree) Get(path, file string) string {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join(c.Memory, path, file))
	if err != nil {
		c.t.Fatalf("testkit: %v", err)
	}
	return string(b)
}

// Remove deletes the cgroup at path and everything below it.
func (c *CgroupTree) Remove(path string) {
	c.t.Helper()
	for _, mount := range []string{c.Memory, c.Unified} {
		if mount == "" || path == "/" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(mount, path)); err != nil {
			c.t.Fatalf("testkit: %v", err)
		}
	}
}

// Place puts process pid (0: the reader) into the memory cgroup and, where there is one, the cgroup2 cgroup.
func (c *CgroupTree) Place(pid int, memory, unified string) {
	c.t.Helper()
	name, text := "self", ""
	if pid != 0 {
		name = strconv.Itoa(pid)
	}
	if c.Mode != CgroupV2 {
		text += "9:name=systemd:/\n4:memory:" + memory + "\n"
	}
	if c.Unified != "" {
		text += "0::" + unified + "\n"
	}
	c.write(filepath.Join(c.Root, "proc", name, "cgroup"), text)
}

func (c *CgroupTree) write(path, text string) {
	c.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatalf("testkit: %v", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.t.Fatalf("testkit: %v", err)
	}
}

func pressure(total uint64) string {
	return fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n", total, total/2)
}

func (g MemGroup) procs() string {
	var b strings.Builder
	for _, pid := range g.Procs {
		fmt.Fprintln(&b, pid)
	}
	return b.String()
}
