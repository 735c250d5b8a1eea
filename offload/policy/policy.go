// Package policy decides how much memory to take from one cgroup in one period. It is pure: it takes
// samples and returns decisions, touches no file and reads no clock, so every behaviour is a data file.
//
// Invariants, whatever the law: a step is never negative, never larger than Params.MaxStep of the usage,
// never takes the cgroup below its floor, and is zero while the host is under pressure or swap is full. A
// decision names its reason and the signal that bound it.
// Ownership: a Law belongs to one cgroup and one goroutine; a Decision belongs to the caller.
// Failure: New refuses parameters outside their ranges. Decide never fails; from a sample that makes no
// sense (no period, negative sizes) it takes nothing.
// Non-goals: finding out what the kernel can do, converting counters to deltas, acting.
package policy

import (
	"time"

	"github.com/spillway-io/spillway/offload/heat"
)

// Sample is what one cgroup did in the period that just ended. Counters are deltas over Period.
type Sample struct {
	Period time.Duration // length of the period, > 0
	Usage  int64         // bytes resident now
	Floor  int64         // bytes below which this cgroup must not be taken

	PSI     bool          // false: this cgroup has no readable pressure, ignore MemSome and IOSome
	MemSome time.Duration // memory "some" stall time in the period
	IOSome  time.Duration // io "some" stall time in the period

	RefaultAnon uint64        // pages brought back from swap
	RefaultFile uint64        // pages brought back from files, of those that steps may have taken
	CostAnon    time.Duration // measured cost of one anon refault (the tier's p50), 0 = unknown, the seed is used
	CostFile    time.Duration // measured cost of one file refault, 0 = unknown

	SwapFull     bool // swap use is above the stop mark: anonymous memory cannot go anywhere
	HostPressure bool // the host-wide trigger is active
	// WritePrice is the share of the write budget that is gone where a step may end on flash, from 0 to 1, nothing may
	// be written; 0 where pages stay in memory.
	WritePrice float64
	Reclaimed  int64 // bytes the previous step really took, 0 when there was none or it took nothing

	Age          time.Duration // how long this cgroup has been watched
	Anon, File   int64         // bytes resident; File counts Shmem in
	Shmem        int64         // bytes resident in tmpfs and shared anonymous memory, which only swap can take
	Mapped       int64         // bytes of File that are mapped
	InactiveAnon int64         // bytes on the kernel's inactive lists
	InactiveFile int64
	SwapFree     int64 // bytes of swap this cgroup can still use

	Counts    bool   // the three below are known: the simulator fills them, the agent reads none, and no law of this package asks
	Scanned   uint64 // pages reclaim looked at in the period (pgscan)
	Stolen    uint64 // pages reclaim freed (pgsteal)
	Activated uint64 // refaulted pages put straight on the active list (workingset_activate)

	Heat *heat.Reading // nil: no access tracking for this cgroup

	TargetScale float64 // what was learnt about the workload stretches the composite law's refault cost target, [0.25,4]; 0 means 1
	Probe       string  // why the learner wants no step in this period; "" when it does not
}

// Params tune a law for one class. Zero fields take the law's documented defaults.
type Params struct {
	Ratio       float64 // share of usage taken per period at zero pressure, in (0,1]
	MaxStep     float64 // hard cap of the share taken per period, in (0,0.01]
	MemPressure float64 // target share of time in memory "some", in (0,1)
	IOPressure  float64 // target share of time in io "some", in (0,1)
	RefaultCost float64 // target share of time spent on refaults, in (0,1)
	Hold        int     // periods without a step after a back-off
	ComeBack    float64 // share of what was lately taken that comes back where the composite law stops, in (0,1)

	// For gswap, and the first two for composite where access is tracked.
	Promotion  float64       // target of promotions a minute as a share of the working set, in (0,1)
	Percentile float64       // of past minutes' best ages that the next minute's threshold takes, in (0,100]
	Warmup     time.Duration // after a cgroup is first seen, in which nothing is taken; gswap alone
}

// Reason is why a decision has the size it has.
type Reason string

const (
	Steady       Reason = "steady"        // all signals far below target: at least nine tenths of a full step
	Eased        Reason = "eased"         // some signal is on its way to its target: a reduced step
	MemPressure  Reason = "mem-pressure"  // memory PSI at or above target: zero
	IOPressure   Reason = "io-pressure"   // io PSI at or above target: zero
	RefaultCost  Reason = "refault-cost"  // refaults cost at or above target: zero
	Holding      Reason = "hold"          // after a back-off: zero
	SafeSize     Reason = "safe-size"     // at the smallest size known not to hurt: zero or a small probe
	AtFloor      Reason = "floor"         // usage at the floor: zero
	HostPressure Reason = "host-pressure" // host-wide trigger: zero
	SwapFull     Reason = "swap-full"     // nowhere to put pages: zero
	WriteBudget  Reason = "write-budget"  // what may be written to flash is written: zero
	TooSmall     Reason = "below-page"    // the step rounds to nothing
	TakenAhead   Reason = "taken-ahead"   // earlier steps took more than they asked for: zero (set by the agent)
	// Set by the agent: zero where only anonymous memory could be taken, and that is left alone.
	Incompressible Reason = "incompressible" // its pages do not shrink in the pool
	PoolTurn       Reason = "pool-turn"      // others' pages are watched on their way to the pool

	NoSignal Reason = "no-signal" // nothing this law could brake on is readable: zero

	ColdAge       Reason = "cold-age"       // takes what has been idle for long enough: zero when nothing has
	PromotionRate Reason = "promotion-rate" // promotions at or above target: zero
	WarmUp        Reason = "warm-up"        // watched for too short a time: zero
)

// Reading is one signal beside its target, for explanations.
type Reading struct {
	Signal string  `json:"signal"` // "mem-psi", "io-psi", "refault-cost", "promotion-rate"
	Value  float64 `json:"value"`  // share of the period, or for promotions of the working set a minute, in [0,∞)
	Target float64 `json:"target"`
}

// Decision is a law's answer for one period.
type Decision struct {
	Step   int64     `json:"step"` // bytes to take, page aligned, ≥ 0
	Reason Reason    `json:"reason"`
	Signal string    `json:"signal,omitempty"` // the signal that bound the step, if one did
	Detail string    `json:"detail"`           // one sentence with numbers for `offload explain`
	Inputs []Reading `json:"inputs,omitempty"`
}

// Law decides for one cgroup; it keeps that cgroup's history. Not safe for concurrent use.
type Law interface {
	Name() string
	Decide(Sample) Decision
}
