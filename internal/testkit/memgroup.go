package testkit

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// lines joins "key value" pairs the way memory.stat does.
func lines(pairs ...any) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%v %v\n", pairs[i], pairs[i+1])
	}
	return b.String()
}

// filesV1 renders the files of a v1 memory cgroup of Linux 6.x. Its local lines read as if the cgroup had no
// descendants only where it has none, so they are all zero: a reader that takes them by mistake is found out.
func (g MemGroup) filesV1() map[string]string {
	page := int64(os.Getpagesize())
	limit := g.Limit
	if limit == 0 {
		limit = math.MaxInt64 / page * page
	}
	return map[string]string{
		"cgroup.procs":              g.procs(),
		"memory.usage_in_bytes":     lines1(g.Usage),
		"memory.limit_in_bytes":     lines1(limit),
		"memory.failcnt":            lines1(int64(g.FailCnt)),
		"memory.oom_control":        lines("oom_kill_disable", 0, "under_oom", 0, "oom_kill", g.OOMKills),
		"memory.swappiness":         "60\n",
		"memory.use_hierarchy":      "1\n",
		"memory.force_empty":        "",
		"memory.max_usage_in_bytes": lines1(g.Usage),
		"memory.stat": lines("cache", 0, "rss", 0, "rss_huge", 0, "shmem", 0, "mapped_file", 0, "dirty", 0, "writeback", 0,
			"workingset_refault_anon", 0, "workingset_refault_file", 0, "swap", 0, "swapcached", 0, "pgpgin", 0, "pgpgout", 0,
			"pgfault", 0, "pgmajfault", 0, "inactive_anon", 0, "active_anon", 0, "inactive_file", 0, "active_file", 0,
			"unevictable", 0, "hierarchical_memory_limit", limit, "hierarchical_memsw_limit", math.MaxInt64/page*page,
			"total_cache", g.File, "total_rss", g.Anon, "total_rss_huge", 0, "total_shmem", g.Shmem,
			"total_mapped_file", g.Mapped, "total_dirty", g.Dirty, "total_writeback", 0,
			"total_workingset_refault_anon", g.RefaultAnon, "total_workingset_refault_file", g.RefaultFile,
			"total_swap", g.Swap, "total_swapcached", g.SwapCached, "total_pgpgin", 0, "total_pgpgout", 0,
			"total_pgfault", g.MajorFaults, "total_pgmajfault", g.MajorFaults,
			"total_inactive_anon", g.InactiveAnon, "total_active_anon", g.Anon-g.InactiveAnon,
			"total_inactive_file", g.InactiveFile, "total_active_file", g.File-g.InactiveFile,
			"total_unevictable", g.Unevictable),
	}
}

// filesV2 renders the files of a cgroup2 memory cgroup of Linux 6.x.
func (g MemGroup) filesV2() map[string]string {
	limit := "max\n"
	if g.Limit != 0 {
		limit = lines1(g.Limit)
	}
	return map[string]string{
		"cgroup.procs":           g.procs(),
		"cgroup.controllers":     "cpu io memory pids\n",
		"cgroup.subtree_control": "cpu io memory pids\n",
		"memory.current":         lines1(g.Usage),
		"memory.max":             limit,
		"memory.min":             lines1(g.Min),
		"memory.low":             lines1(g.Low),
		"memory.swap.current":    lines1(g.Swap),
		"memory.swap.max":        "max\n",
		"memory.reclaim":         "",
		"memory.events":          lines("low", 0, "high", 0, "max", g.FailCnt, "oom", g.OOMKills, "oom_kill", g.OOMKills, "oom_group_kill", 0),
		"memory.stat": lines("anon", g.Anon, "file", g.File, "kernel", 0, "kernel_stack", 0, "pagetables", 0,
			"sec_pagetables", 0, "percpu", 0, "sock", 0, "vmalloc", 0, "shmem", g.Shmem, "zswap", g.Zswap, "zswapped", g.Zswapped,
			"file_mapped", g.Mapped, "file_dirty", g.Dirty, "file_writeback", 0, "swapcached", g.SwapCached,
			"anon_thp", 0, "file_thp", 0, "shmem_thp", 0,
			"inactive_anon", g.InactiveAnon, "active_anon", g.Anon-g.InactiveAnon,
			"inactive_file", g.InactiveFile, "active_file", g.File-g.InactiveFile, "unevictable", g.Unevictable,
			"slab_reclaimable", 0, "slab_unreclaimable", 0, "slab", 0,
			"workingset_refault_anon", g.RefaultAnon, "workingset_refault_file", g.RefaultFile,
			"workingset_activate_anon", 0, "workingset_activate_file", 0, "workingset_restore_anon", 0,
			"workingset_restore_file", 0, "workingset_nodereclaim", 0,
			"pgscan", 0, "pgsteal", 0, "pgfault", g.MajorFaults, "pgmajfault", g.MajorFaults,
			"pgrefill", 0, "pgactivate", 0, "pgdeactivate", 0, "pglazyfree", 0, "pglazyfreed", 0, "zswpin", 0, "zswpout", 0, "zswpwb", 0),
	}
}

func lines1(n int64) string { return strconv.FormatInt(n, 10) + "\n" }
