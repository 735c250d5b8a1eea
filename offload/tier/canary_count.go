package tier

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/swap"
)

// counters is what tells to which tier the canary's pages went and how small they became there.
type counters struct {
	mem   proc.Meminfo
	vm    proc.Vmstat
	group cgroup.Stat
	areas []areaCount
}

type areaCount struct {
	name      string
	used      int64
	orig, mem int64 // zram only
}

func (r *canaryRun) count() (c counters, err error) {
	root := r.c.Root
	if c.mem, err = proc.ReadMeminfo(root); err != nil {
		return c, fmt.Errorf("tier: measure: %w", err)
	}
	if c.vm, err = proc.ReadVmstat(root); err != nil {
		return c, fmt.Errorf("tier: measure: %w", err)
	}
	if err = r.group.Stat(&c.group); err != nil {
		return c, fmt.Errorf("tier: measure: %w", err)
	}
	lines, err := proc.ReadSwaps(root)
	if err != nil {
		return c, fmt.Errorf("tier: measure: %w", err)
	}
	for _, line := range lines {
		a := areaCount{name: "swap:" + line.Path, used: line.Used}
		if n, ok := zramNumber(line.Path); ok && !line.File {
			a.name = filepath.Base(line.Path)
			if a.orig, _, a.mem, err = swap.ZramStat(root, n); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return c, fmt.Errorf("tier: measure: %w", err)
			}
		}
		c.areas = append(c.areas, a)
	}
	return c, nil
}

// judge names the tier that took the out bytes between before and after, by the counters that moved, and the
// compression it reached. The host's counters move for everybody; when they moved for clearly more than the
// canary, the note says so.
func judge(before, after counters, out int64) Measurement {
	var m Measurement
	toPool := after.vm.ZswpOut - before.vm.ZswpOut
	toDisk := after.vm.PswpOut - before.vm.PswpOut
	if toPool >= toDisk && toPool > 0 {
		m.Tier = "zswap"
		stored, used := after.group.Zswapped-before.group.Zswapped, after.group.Zswap-before.group.Zswap
		if stored <= 0 || used <= 0 { // v1: only the host knows
			stored, used = after.mem.Zswapped-before.mem.Zswapped, after.mem.Zswap-before.mem.Zswap
			m.Note = noise(stored, out)
		}
		m.Compression = ratio(stored, used, out)
		return m
	}
	old := map[string]areaCount{}
	for _, a := range before.areas {
		old[a.name] = a
	}
	var most int64
	for _, a := range after.areas {
		grown := a.used - old[a.name].used
		if grown <= most {
			continue
		}
		most, m.Tier, m.Compression = grown, a.name, 1
		if orig := a.orig - old[a.name].orig; a.orig > 0 {
			m.Compression = ratio(orig, a.mem-old[a.name].mem, out)
		}
	}
	m.Note = noise(most, out)
	return m
}

// ratio is stored/used, 0 when the counters moved too little to be about the canary's out bytes.
func ratio(stored, used, out int64) float64 {
	if used <= 0 || stored < out/2 {
		return 0
	}
	return float64(stored) / float64(used)
}

func noise(moved, out int64) string {
	if moved > out+out/2 {
		return "others swapped at the same time, so the compression is theirs too"
	}
	return ""
}

// note joins two remarks.
func note(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
