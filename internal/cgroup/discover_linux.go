package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
)

// Discover finds the hierarchies by <root>/proc/self/mountinfo; root is "/" in production. Of several mounts
// of one hierarchy it takes the first that shows the whole of it. Without a memory controller the error is
// a *probe.Missing.
func Discover(root string) (Hierarchy, error) {
	mounts, err := proc.ReadMounts(root)
	if err != nil {
		return Hierarchy{}, fmt.Errorf("cgroup: discover: %w", err)
	}
	v1 := pick(mounts, func(m proc.Mount) bool { return m.Type == "cgroup" && m.HasOption("memory") })
	v2 := pick(mounts, func(m proc.Mount) bool { return m.Type == "cgroup2" })
	h := Hierarchy{root: root}
	if v2 != nil {
		h.Unified, h.unifiedRoot = filepath.Join(root, v2.Dir), v2.Root
	}
	switch {
	case v1 != nil:
		h.Mode, h.Memory, h.memoryRoot = V1, filepath.Join(root, v1.Dir), v1.Root
		if v2 != nil {
			h.Mode = Hybrid
		}
	case v2 != nil:
		if err := carriesMemory(h.Unified); err != nil {
			return Hierarchy{}, err
		}
		h.Mode, h.Memory, h.memoryRoot = V2, h.Unified, h.unifiedRoot
		h.CanReclaim = exists(filepath.Join(h.Memory, "memory.reclaim"))
	default:
		return Hierarchy{}, fmt.Errorf("cgroup: discover: %w", &probe.Missing{Feature: "a mounted cgroup hierarchy",
			Do: "mount one: mount -t cgroup2 none /sys/fs/cgroup"})
	}
	return h, nil
}

func pick(mounts []proc.Mount, want func(proc.Mount) bool) *proc.Mount {
	var found *proc.Mount
	for i := range mounts {
		if m := &mounts[i]; want(*m) && (found == nil || found.Root != "/" && m.Root == "/") {
			found = m
		}
	}
	return found
}

func carriesMemory(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("cgroup: discover: %w", err)
	}
	if !slices.Contains(strings.Fields(string(b)), "memory") {
		return fmt.Errorf("cgroup: discover: %w", &probe.Missing{Feature: "the memory controller",
			Do: "boot without cgroup_disable=memory, on a kernel with CONFIG_MEMCG"})
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Self is the memory cgroup of this process, as a path below Memory.
func (h Hierarchy) Self() (string, error) {
	path, err := proc.MemoryPath(h.procRoot(), 0)
	if err != nil {
		return "", fmt.Errorf("cgroup: find own cgroup: %w", err)
	}
	return below(h.memoryRoot, path)
}

// Of is the memory cgroup of process pid, as a path below Memory; errors.Is fs.ErrNotExist when there is no such
// process.
func (h Hierarchy) Of(pid int) (string, error) {
	path, err := proc.MemoryPath(h.procRoot(), pid)
	if err != nil {
		return "", fmt.Errorf("cgroup: find cgroup of process %d: %w", pid, err)
	}
	return below(h.memoryRoot, path)
}

// UnifiedDir is the absolute directory of process pid in the cgroup2 mount, where its pressure files are.
// errors.Is fs.ErrNotExist: no cgroup2 mount, no such process, or its cgroup is out of sight.
func (h Hierarchy) UnifiedDir(pid int) (string, error) {
	if h.Unified == "" {
		return "", fmt.Errorf("cgroup: find pressure of process %d: no cgroup2 mount: %w", pid, os.ErrNotExist)
	}
	path, err := proc.UnifiedPath(h.procRoot(), pid)
	if err != nil {
		return "", fmt.Errorf("cgroup: find pressure of process %d: %w", pid, err)
	}
	if path, err = below(h.unifiedRoot, path); err != nil {
		return "", err
	}
	return filepath.Join(h.Unified, path), nil
}

func (h Hierarchy) procRoot() string {
	if h.root == "" {
		return "/"
	}
	return h.root
}

// below turns a path of the whole hierarchy into one below a mount that shows only top of it, as bind
// mounts into containers do.
func below(top, path string) (string, error) {
	if top == "" || top == "/" {
		return path, nil
	}
	rest, ok := strings.CutPrefix(path, top)
	switch {
	case ok && rest == "":
		return "/", nil
	case ok && rest[0] == '/':
		return rest, nil
	}
	return "", fmt.Errorf("cgroup: %q lies outside the mounted part %q: %w", path, top, os.ErrNotExist)
}
