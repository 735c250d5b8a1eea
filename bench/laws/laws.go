// Package laws holds published memory-offload controllers as policy.Law, to be compared with ours in the simulator and
// on test machines. None of it ships.
//
// Each is written from its published formula: the page it was read from is named in its doc comment, no code of it is
// here, and every number it works with is a named constant. A law reproduces what its original does on purpose, and
// also what follows from its signals, for example that it does not see some refaults. Slips of an implementation (an
// inverted comparison, an integer division) are not reproduced: slips_test.go shows each beside what was meant. Where a
// law had to differ so that it can be driven by samples, its doc comment says what is lost.
//
// Invariants: a step is page aligned and never negative, it leaves Sample.Floor, and it is zero while the host is under
// pressure or swap is full. The originals have no such outer stops; every law of the product does, and a comparison
// must not be won by them. The rule of policy that no step exceeds 1 % of the usage does not hold for senpai2019.
// Ownership: as policy.Law: one cgroup, one goroutine.
// Failure: Decide never fails; from a sample that makes no sense, or without the figures its formula needs, a law takes
// nothing and says so.
// Non-goals: file or swap balance (the kernel's), killing, anything the originals do beside reclaim.
package laws

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/offload/policy"
)

// Names of the laws.
const (
	NameSenpai2019 = "senpai2019"
	NameOomd       = "oomd"
	NameKatalyst   = "katalyst"
)

// Names lists the laws, the oldest first.
func Names() []string { return []string{NameSenpai2019, NameOomd, NameKatalyst} }

// New makes the named law for one cgroup with the defaults of its original. Katalyst is made with swap, see Katalyst.
func New(name string) (policy.Law, error) {
	switch name {
	case NameSenpai2019:
		return NewSenpai2019(), nil
	case NameOomd:
		return NewOomd(), nil
	case NameKatalyst:
		return NewKatalyst(), nil
	}
	return nil, fmt.Errorf("laws: unknown law %q; use one of %q", name, Names())
}

// Waiting is a reason of these laws only: between two of its own intervals the law takes nothing.
const Waiting policy.Reason = "interval"

// What binds a step: signals, named as policy names them, and four of Katalyst's.
const (
	memPSI      = "mem-psi"
	ioPSI       = "io-psi"
	inaccuracy  = "activated"       // share of freed pages that came back as active ones
	inefficient = "scanned-in-vain" // share of scanned pages that were not freed
	fileCache   = "file-cache"      // the file cache that is not mapped
	ownPace     = "pace"            // the last step, or the inactive lists
)

const (
	page = 4096
	mib  = 1 << 20
)

// sane returns s with what makes no sense made harmless; ok is false when nothing can be concluded from it.
func sane(s policy.Sample) (_ policy.Sample, ok bool) {
	if s.Period <= 0 || s.Usage <= 0 {
		return s, false
	}
	for _, n := range []*int64{
		&s.Floor, &s.Anon, &s.File, &s.Shmem, &s.Mapped, &s.InactiveAnon, &s.InactiveFile, &s.SwapFree,
	} {
		*n = max(*n, 0)
	}
	s.MemSome = min(max(s.MemSome, 0), s.Period)
	s.IOSome = min(max(s.IOSome, 0), s.Period)
	return s, true
}

func nothing(r policy.Reason, detail string) policy.Decision {
	return policy.Decision{Reason: r, Detail: "takes nothing: " + detail}
}

func senseless() policy.Decision {
	return nothing(policy.NoSignal, "the sample has no period or no usage")
}

// outerStop is what the product lets no law overrule, see the package comment.
func outerStop(s policy.Sample) (policy.Decision, bool) {
	switch {
	case s.HostPressure:
		return nothing(policy.HostPressure, "the whole host is under memory pressure"), true
	case s.SwapFull:
		return nothing(policy.SwapFull, "swap is nearly full, anonymous memory has nowhere to go"), true
	}
	return policy.Decision{}, false
}

// take completes d with a step of at most want bytes. left is the share that the signals left of a full step; below
// nearlyFull the decision names the signal that reduced it.
func take(d policy.Decision, s policy.Sample, want, left float64, signal string) policy.Decision {
	room := s.Usage - s.Floor
	if room <= 0 {
		d.Reason = policy.AtFloor
		d.Detail = fmt.Sprintf("takes nothing: %s used is not above the floor of %s", size(s.Usage), size(s.Floor))
		return d
	}
	n := room
	if want < float64(room) { // written so that NaN takes nothing
		n = int64(math.Max(0, want))
	} else if math.IsNaN(want) {
		n = 0
	}
	if d.Step = n / page * page; d.Step == 0 {
		d.Reason, d.Detail = policy.TooSmall, fmt.Sprintf("takes nothing: the step from %s is below one page", size(s.Usage))
		return d
	}
	d.Reason, d.Detail = policy.Steady, fmt.Sprintf("takes %s of %s", size(d.Step), size(s.Usage))
	if left < nearlyFull {
		d.Reason, d.Signal = policy.Eased, signal
		d.Detail += fmt.Sprintf(": %s leaves %.2g of a full step", signal, left)
	}
	return d
}

// nearlyFull is where a step counts as a full one, as in package policy.
const nearlyFull = 0.9

// elapsed adds up time without overflow: samples may be senseless.
func elapsed(since, period time.Duration) time.Duration {
	if sum := since + period; sum >= since {
		return sum
	}
	return math.MaxInt64
}

func size(n int64) string { return bytesize.Size(n).String() }
