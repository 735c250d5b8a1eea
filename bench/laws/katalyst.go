package laws

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
)

// Katalyst is the "integrated" policy of Katalyst's transparent memory offloading, the smaller of its other two:
// pkg/agent/sysadvisor/plugin/qosaware/resource/memory/plugin/memory_offloading.go of
// github.com/kubewharf/katalyst-core, read at commit d8c28ea1549b, defaults in
// pkg/config/agent/dynamic/tmo/tmo_base.go. Once an interval:
//
//	psi        = max(0, 1 − avg60/threshold) × max_probe × usage
//	accuracy   = 1 − Δworkingset_activate/Δpgsteal,  efficiency = Δpgsteal/Δpgscan  (both 1 when nothing was freed)
//	refault    = last × accuracy                                               if either is below its target
//	           = min(max(last × 1.05, 10 % of inactive), max_probe × usage)    else
//	integrated = min(psi, refault), at most max(2 × (cache − mapped), 1 MiB)
//
// where last is what it asked for the time before. Without swap it skips a cgroup whose cache is below twice what is
// mapped. On cgroup v1 it does nothing, so without the counters it takes nothing here.
//
// Behaviour, and kept: accuracy knows only refaults that the kernel activated, and classic LRU kernels activate hardly
// any swapped page, so there it cannot see anonymous memory come back. The bound by file cache holds for anonymous
// memory too: a cgroup without file cache gives at most 1 MiB an interval. An efficiency below its target
// leaves the step as it is when the accuracy is 1.
//
// Swap is off by default in Katalyst, which then sets memory.swap.max to 0 for the subtree. NewKatalyst has it on: with
// it off a comparison of how anonymous memory is offloaded would compare nothing. Binding the memory of the workload's
// NUMA nodes and the reclaim of dying cgroups are not here.
type Katalyst struct {
	// WithoutSwap skips cgroups whose cache is close to what is mapped, as Katalyst does by default. It is a field
	// because the step alone cannot keep the kernel from swapping.
	WithoutSwap bool

	avg60 average
	wait  time.Duration // until the interval is over

	scanned, stolen, activated float64 // pages since the last round
	last                       float64 // bytes asked for in the last round
}

// Defaults of tmo_base.go and constants of memory_offloading.go.
const (
	katalystInterval   = 30 * time.Second
	katalystMaxProbe   = 0.01
	katalystAvg60      = 0.1 / 100 // threshold, share of time; 0.1 there, in percent
	katalystAccuracy   = 0.99      // target
	katalystEfficiency = 0.6       // target
	katalystInactive   = 0.1       // InactiveProbe
	katalystScale      = 1.05      // OffloadingSizeScaleCoeff
	katalystMapped     = 2         // CacheMappedCoeff
	katalystExcess     = 2         // CacheExceptMappedCoeff
	katalystMinCache   = 1 * mib   // minSizeCacheExceptMap
)

// NewKatalyst makes one with Katalyst's defaults, but with swap.
func NewKatalyst() *Katalyst { return &Katalyst{avg60: average{decay: decay60}} }

// Name implements policy.Law.
func (*Katalyst) Name() string { return NameKatalyst }

// Decide implements policy.Law.
func (l *Katalyst) Decide(s policy.Sample) policy.Decision {
	s, ok := sane(s)
	if !ok {
		return senseless()
	}
	if !s.PSI {
		return nothing(policy.NoSignal, "this cgroup has no readable pressure")
	}
	if !s.Counts {
		return nothing(policy.NoSignal, "the kernel does not count reclaim for this cgroup (cgroup v1)")
	}
	l.avg60.add(s.Period, s.MemSome)
	l.scanned += float64(s.Scanned)
	l.stolen += float64(s.Stolen)
	l.activated += float64(s.Activated)
	l.wait = max(0, l.wait-s.Period)
	if d, stop := outerStop(s); stop {
		return d
	}
	if l.wait > 0 {
		return nothing(Waiting, "looks again in "+l.wait.String())
	}
	if l.WithoutSwap && s.File < katalystMapped*s.Mapped {
		return nothing(policy.AtFloor, "there is no swap, and hardly more file cache than is mapped")
	}
	return l.round(s)
}

// round is one calculation. It starts the next interval.
func (l *Katalyst) round(s policy.Sample) policy.Decision {
	accuracy, efficiency := 1., 1.
	if l.stolen > 0 && l.scanned > 0 {
		accuracy, efficiency = 1-l.activated/l.stolen, l.stolen/l.scanned
	}
	full := katalystMaxProbe * float64(s.Usage)
	want, bound := l.refault(s, accuracy, efficiency, full)
	if psi := math.Max(0, 1-l.avg60.value/katalystAvg60) * full; psi < want {
		want, bound = psi, memPSI
	}
	if excess := math.Max(katalystExcess*float64(s.File-s.Mapped), katalystMinCache); excess < want {
		want, bound = excess, fileCache
	}

	l.last, l.wait = want, katalystInterval
	l.scanned, l.stolen, l.activated = 0, 0, 0

	d := policy.Decision{Inputs: []policy.Reading{
		{Signal: memPSI, Value: l.avg60.value, Target: katalystAvg60},
		{Signal: inaccuracy, Value: 1 - accuracy, Target: 1 - katalystAccuracy},
		{Signal: inefficient, Value: 1 - efficiency, Target: 1 - katalystEfficiency},
	}}
	if want < page {
		d.Reason, d.Signal = policy.RefaultCost, bound
		if bound == memPSI {
			d.Reason = policy.MemPressure
		}
		d.Detail = fmt.Sprintf("takes nothing: avg60 %.2g %%, accuracy %.3g, efficiency %.2g", 100*l.avg60.value, accuracy, efficiency)
		return d
	}
	return take(d, s, want, want/full, bound)
}

// refault is the size by accuracy and efficiency, and what bound it.
func (l *Katalyst) refault(s policy.Sample, accuracy, efficiency, full float64) (want float64, bound string) {
	switch {
	case accuracy < katalystAccuracy:
		return math.Max(0, l.last*accuracy), inaccuracy
	case efficiency < katalystEfficiency:
		return math.Max(0, l.last*accuracy), inefficient
	}
	return math.Min(math.Max(l.last*katalystScale, katalystInactive*float64(s.InactiveAnon+s.InactiveFile)), full), ownPace
}
