// Package cgroup reads memory cgroups of both hierarchies through held file descriptors, and holds the
// two ways this project takes memory from one: memory.reclaim (v2) and shrinking and restoring the limit (v1).
//
// Everything is opened below a root that a test replaces by a folder. Reading a Stat allocates nothing.
// A cgroup that vanished gives an error that errors.Is ErrGone. Identity is path and inode: paths are reused,
// descriptors are not, so a Group never reads a successor of its cgroup.
// Only the worker process calls the functions that write (Group.Reclaim, ReclaimWith, Accepts, Shrink, Hold and what
// restores).
//
// Ownership: a Group belongs to who opened it. Its methods may run at the same time, except Close.
// Locks: none. Writes block for as long as the kernel reclaims; a signal to the blocked thread ends them.
// Non-goals: making, filling or deleting cgroups; controllers other than memory.
package cgroup

import "errors"

var (
	// ErrGone says that the cgroup was removed (ENODEV, ENOENT or another inode at the same path).
	ErrGone = errors.New("cgroup vanished")
	// ErrInterrupted says that a signal called back a thread blocked in Reclaim or Shrink. The error also
	// errors.Is sys.EINTR. Whatever Shrink had changed is restored by then.
	ErrInterrupted = errors.New("interrupted by a signal")
	// ErrForeign says that somebody else wrote the limit, or what Hold holds, meanwhile; their value was left alone.
	ErrForeign = errors.New("changed by another, left alone")
)

// Mode says which hierarchy carries the memory controller.
type Mode string

const (
	V2     Mode = "v2"     // memory controller on the cgroup2 mount
	V1     Mode = "v1"     // memory controller on a v1 mount, no cgroup2 mount at all
	Hybrid Mode = "hybrid" // memory controller on a v1 mount, PSI from a cgroup2 mount
)

// Unlimited stands for "max" (v2) and for the v1 limits at or above PAGE_COUNTER_MAX.
const Unlimited = int64(-1)

// Hierarchy is where the memory controller and, apart from it, PSI live.
type Hierarchy struct {
	Mode       Mode
	Memory     string // absolute directory of the mount with the memory controller
	Unified    string // absolute directory of the cgroup2 mount, "" when there is none
	CanReclaim bool   // memory.reclaim exists

	root                    string // below which proc lies, "" for "/"
	memoryRoot, unifiedRoot string // which cgroup each mount shows at its top, "" for "/"
}

// Entry is one cgroup found by List.
type Entry struct {
	Path  string // slash path below the memory mount, "/" for the mount itself
	Inode uint64
	Leaf  bool // has no child cgroup
}

// Stat is what one read of a cgroup says. Sizes are bytes, hierarchical (they include descendants);
// counters are cumulative since the cgroup was made.
//
// Files read, one pread each, absent ones skipped:
// v1: memory.stat, memory.usage_in_bytes, memory.failcnt, memory.oom_control. The limit comes with
// memory.stat (hierarchical_memory_limit), so it is the smallest of the cgroup's own and its ancestors'.
// v2: memory.stat, memory.current, memory.events, memory.max, memory.min, memory.low, memory.swap.current,
// memory.swap.max. The limit is the cgroup's own.
//
// The v2 root cgroup has no memory.current; its Usage is Anon + File, as v1 counts its root.
type Stat struct {
	Usage   int64 // memory.current or memory.usage_in_bytes
	Limit   int64 // memory.max or memory.limit_in_bytes; Unlimited
	Min     int64 // memory.min, v2; Unlimited for "max"; 0 on v1
	Low     int64 // memory.low, v2; Unlimited for "max"; 0 on v1
	SwapMax int64 // memory.swap.max, v2; Unlimited on v1

	Anon, File, Shmem, Mapped, Dirty, Unevictable int64
	InactiveAnon, InactiveFile                    int64

	Swap       int64 // bytes swapped out, whichever tier holds them (memory.swap.current; v1 total_swap)
	SwapCached int64 // pages both in memory and in swap
	Zswap      int64 // compressed bytes charged to this cgroup; 0 on v1, where the pool is charged to nobody
	Zswapped   int64 // bytes before compression that zswap holds; 0 on v1, where the kernel does not say

	RefaultAnon, RefaultFile uint64 // pages; before Linux 5.9 only RefaultFile
	Refaults                 bool   // the kernel counts refaults for this cgroup (v1: since 6.1); else both stay 0
	MajorFaults              uint64
	SwapOut, SwapIn          uint64 // pages written to swap areas and read from them, the compressed pool aside (v2 since 6.12); else 0
	ZswapOut, ZswapIn        uint64 // pages that went into the compressed pool and came back from it (v2 since 5.19); else 0
	FailCnt                  uint64 // v1: charges refused by the limit; v2: memory.events max
	OOMKills                 uint64
}
