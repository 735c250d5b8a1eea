// Package mix decides which memory the next step on a cgroup takes: file cache, anonymous memory, or both by weight.
//
// Promise: pages that have nowhere to go, that would pin a dying cgroup, or that do not compress are not taken as
// anonymous memory; for the rest the choice follows what a byte of each kind has cost to take, measured in this very
// cgroup. A choice names its reason. The package is pure: samples in, choices out; no file, no clock.
// Invariants: a choice is KernelsChoice or a weight of 0 to 200; it is 0 (file only) whenever a rule says so, whatever
// was measured; a weight moves by at most one stride a step; a kernel that cannot be told gets KernelsChoice.
// Ownership: a Mixer and a Pool belong to one cgroup, a Lives to one machine; each is used by one goroutine.
// Failure: nothing fails; a sample that makes no sense (negative sizes, impossible costs) is read as nothing.
// Non-goals: how much to take (package policy), how the kernel is told (the worker), what the swap device may still be
// written.
package mix

import "time"

// KernelsChoice is the swappiness of a step that leaves the balance to the kernel.
const KernelsChoice = -1

// The ends of the kernel's scale.
const (
	FileOnly  = 0   // strict
	MaxWeight = 200 // leans on anonymous memory as far as the kernel lets it
)

// Steering is how far this kernel can be told.
type Steering int

const (
	Deaf    Steering = iota // not at all
	Coarse                  // file only, or the kernel's own choice (cgroup v2 before Linux 6.11)
	Weights                 // any weight
)

// Sample is what a Mixer needs to know before a step. Sizes are bytes, counters deltas since the previous sample.
type Sample struct {
	Anon, File, Shmem int64 // resident; File counts Shmem in, as the kernel does
	NoSwap            bool  // there is no swap, or none this cgroup may use
	SwapFull          bool  // its use is above the stop mark
	ShortLived        bool  // the cgroup is not expected to last; see Lives
	Incompressible    bool  // its pages do not shrink; see Pool
	OffPool           bool  // its pages go past the compressed pool, so that it does not matter whether they shrink
	Steering          Steering

	TookAnon, TookFile       int64         // by the previous step; see Took
	RefaultAnon, RefaultFile uint64        // pages that came back
	CostAnon, CostFile       time.Duration // of one refault as measured, 0 for unknown
	PoolShare                float64       // DRAM that a byte still occupies where it goes: 1/compression in a pool, 0 on a disk or when unknown
}

// Params are one class's. The zero value works.
type Params struct {
	FileOnly bool // by configuration: anonymous memory is never taken
}

// Reason is why a choice is what it is.
type Reason string

const (
	ByConfig       Reason = "file-only"         // the class is configured so
	NoSwap         Reason = "no-swap"           // anonymous memory has nowhere to go
	SwapFull       Reason = "swap-full"         // or hardly any room there
	ShortShmem     Reason = "short-lived-shmem" // shared memory in swap would outlive the cgroup and pin it
	Incompressible Reason = "incompressible"    // its pages do not shrink and there is only a pool
	OneKind        Reason = "one-kind"          // it has hardly any of the other
	Explore        Reason = "explore"           // the cost of this kind is not known any more
	Weighed        Reason = "weighed"           // by marginal cost
	Kernel         Reason = "kernel"            // this kernel cannot be told
)

// Choice is a Mixer's answer for one step.
type Choice struct {
	Swappiness int // KernelsChoice, or 0 to 200
	Reason     Reason
	Detail     string // one sentence with numbers for people
}

// Took splits what a step took into the two kinds. usage is by how much the cgroup's usage fell, swap by how much what
// it has in swap grew, back the pages that came back from swap meanwhile, pool by how much the cgroup's own charge for
// the compressed pool grew (0 where the pool is charged to nobody). Pages that come and go for other reasons blur the
// two, but neither is ever negative.
func Took(usage, swap int64, back uint64, pool int64) (anon, file int64) {
	anon = max(0, swap+int64(min(back, maxPages))*page)
	usage = max(0, usage) + max(0, pool)
	anon = min(anon, usage)
	return anon, usage - anon
}

const (
	page     = 4096
	maxPages = 1 << 40 // more than any machine has; keeps a product of a hostile counter in range
)
