package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/offload/demo/child"
)

// baseline is what the demo found, to compare with at the end.
type baseline struct {
	taken   bool
	mark    string // environment entry of this run's processes
	swaps   []string
	knobs   map[string]string // path to content
	cgroups map[string]bool   // directories at the top of the hierarchies
}

// takeBaseline reads everything that the demo or its daemon could change.
func takeBaseline(h cgroup.Hierarchy) (baseline, error) {
	b := baseline{taken: true}
	var err error
	if b.swaps, err = swapAreas(); err != nil {
		return b, err
	}
	if b.knobs, err = knobs(); err != nil {
		return b, err
	}
	b.cgroups, err = topCgroups(h)
	return b, err
}

// leftovers names what differs from b, and what has this run's mark or lies where the demo kept its files.
func (b baseline) leftovers(h cgroup.Hierarchy, cfg Config, root string) (left []string, err error) {
	now, err := takeBaseline(h)
	if err != nil {
		return nil, err
	}
	for _, s := range now.swaps {
		if !slices.Contains(b.swaps, s) {
			left = append(left, "swap area "+s)
		}
	}
	for path, was := range b.knobs {
		if is := now.knobs[path]; is != was {
			left = append(left, fmt.Sprintf("%s is %q, was %q", path, is, was))
		}
	}
	for dir := range now.cgroups {
		name := filepath.Base(dir)
		ours := root != "" && name == filepath.Base(root) || strings.HasPrefix(name, "spillway-canary")
		if !b.cgroups[dir] && ours {
			left = append(left, "cgroup "+dir)
		}
	}
	if _, err := os.Lstat(cfg.StateDir); !errors.Is(err, fs.ErrNotExist) {
		left = append(left, "files in "+cfg.StateDir)
	}
	procs, err := child.Marked(b.mark)
	left = append(left, procs...)
	slices.Sort(left)
	return left, err
}

// swapAreas are the paths in use, without the word that says one is being deleted.
func swapAreas() (paths []string, err error) {
	areas, err := proc.ReadSwaps("/")
	for _, a := range areas {
		paths = append(paths, a.Path)
	}
	return paths, err
}

// knobs reads the host's settings that offloading may touch. One that this kernel lacks is not in the map.
func knobs() (map[string]string, error) {
	files, err := filepath.Glob("/sys/module/zswap/parameters/*")
	if err != nil {
		return nil, fmt.Errorf("demo: list zswap's parameters: %w", err)
	}
	m := map[string]string{}
	for _, f := range append(files, "/proc/sys/vm/page-cluster", "/proc/sys/vm/swappiness") {
		v, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("demo: read setting: %w", err)
		}
		m[f] = strings.TrimSpace(string(v))
	}
	return m, nil
}

func topCgroups(h cgroup.Hierarchy) (map[string]bool, error) {
	m := map[string]bool{}
	for _, mount := range []string{h.Memory, h.Unified} {
		if mount == "" {
			continue
		}
		es, err := os.ReadDir(mount)
		if err != nil {
			return nil, fmt.Errorf("demo: list cgroups: %w", err)
		}
		for _, e := range es {
			if e.IsDir() {
				m[filepath.Join(mount, e.Name())] = true
			}
		}
	}
	return m, nil
}
