package cgroup

import "strconv"

// Swappiness says which memory a step takes: file cache, anonymous memory, or both by weight. It is for one step and
// never the machine's own vm.swappiness. The zero value leaves the choice to the kernel, so that a caller who does not
// care cannot choose by accident; hence its numbers are not the kernel's: make one with Weight.
type Swappiness int

const (
	KernelsChoice Swappiness = 0   // what the kernel does without being told
	FileOnly      Swappiness = 1   // the kernel's 0: no anonymous and no shared memory at all
	AnonOnly      Swappiness = 202 // the kernel's "max"; where it has none, a weight of 200 (see Weight)
)

// MaxWeight is the kernel's largest weight.
const MaxWeight = 200

// Weight is the kernel's scale from 0 (file cache only) over 100 (a refault of either kind weighs the same) to 200
// (anonymous memory as far as a weight can say). What lies outside is taken for the nearer end. Of these 0 alone is
// strict: whatever the weight, the classic LRU takes idle file cache first when there is a lot of it or when anonymous
// pages prove to be in use (measured on 6.18: a step by 200 took 4 MiB of idle file cache whole before it swapped a
// page). So what a step took must be measured.
func Weight(n int) Swappiness { return FileOnly + Swappiness(min(max(n, 0), MaxWeight)) }

// Weight is the kernel's number for s; false for KernelsChoice and AnonOnly, which have none.
func (s Swappiness) Weight() (n int, ok bool) {
	if s < FileOnly || s > FileOnly+MaxWeight {
		return 0, false
	}
	return int(s - FileOnly), true
}

// Valid says whether s is one of the values above.
func (s Swappiness) Valid() bool { return s >= KernelsChoice && s <= AnonOnly }

// String is what memory.reclaim understands, and "kernel" for its own choice.
func (s Swappiness) String() string {
	n, ok := s.Weight()
	switch {
	case ok:
		return strconv.Itoa(n)
	case s == AnonOnly:
		return "max"
	case s == KernelsChoice:
		return "kernel"
	}
	return "invalid"
}

// The files through which one step's Swappiness can reach a kernel.
const (
	FileReclaim    = "memory.reclaim"    // v2 since Linux 6.11: as an argument of the write, nothing else changes
	FileSwappiness = "memory.swappiness" // v1: written around the step
	FileSwapMax    = "memory.swap.max"   // v2 before 6.11, FileOnly alone: what is swapped now is the most, around the step
)
