package laws

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
)

// Senpai2019 is the first senpai: senpai.py of github.com/facebookincubator/senpai, the one commit it has. It
// sets memory.high of one cgroup, the limit L, from the time that the cgroup stalled for memory ("some") since the
// limit last changed, the integral I. It looks every second:
//
//	I > pressure:            L ← L × (1 + min(1, (I/pressure/coeff_backoff)²) × max_backoff), I ← 0, at once
//	else, once an interval:  L ← L × (1 − min(1, (pressure/max(I, 1 µs)/coeff_probe)²) × max_probe), I ← 0
//
// L starts at memory.current and stays page aligned between min_size and max_size.
//
// As a Law its step is what lies above L, and growth is never blocked. Three things are lost. In the original the
// kernel holds the cgroup at L all the time: whoever needs more than L waits in reclaim for it, and that waiting is
// what senpai reads, so here the pressure it steers by is missing unless the simulator enforces Limit. It backs off at
// each second, here at the end of each sample. And it resets L when somebody else wrote memory.high, which nobody does
// here.
type Senpai2019 struct {
	limit    int64         // L in bytes, 0 before the first sample
	integral time.Duration // I
	since    time.Duration // since the last change of L
	left     float64       // share of a full probe that the last one took
}

// Defaults of senpai.py, by the names of its flags.
const (
	senpaiPressure     = 10 * time.Millisecond // pressure: stall per interval it aims at
	senpaiInterval     = 6 * time.Second       // interval
	senpaiMaxProbe     = 0.01                  // max_probe: a limit shrinks at most by this
	senpaiMaxBackoff   = 1.0                   // max_backoff: and grows at most by this
	senpaiCoeffProbe   = 10                    // coeff_probe: the full probe is at pressure/10
	senpaiCoeffBackoff = 20                    // coeff_backoff: the full back-off is at pressure×20
	senpaiMinSize      = 100 << 20             // min_size, bytes
	senpaiMaxSize      = 100 << 30             // max_size, bytes
)

// NewSenpai2019 makes one with the defaults of senpai.py.
func NewSenpai2019() *Senpai2019 { return &Senpai2019{} }

// Name implements policy.Law.
func (*Senpai2019) Name() string { return NameSenpai2019 }

// Limit is memory.high as the original would have set it, in bytes; 0 before the first sample. It outlives the
// controller: nothing in the original takes it back when it ends.
func (l *Senpai2019) Limit() int64 { return l.limit }

// Decide implements policy.Law.
func (l *Senpai2019) Decide(s policy.Sample) policy.Decision {
	s, ok := sane(s)
	if !ok {
		return senseless()
	}
	if !s.PSI {
		return nothing(policy.NoSignal, "this cgroup has no readable pressure")
	}
	if l.limit == 0 {
		l.set(float64(s.Usage))
		l.left = 1
		return nothing(Waiting, "the limit starts at "+size(l.limit)+", what is used now")
	}
	l.integral = elapsed(l.integral, s.MemSome)
	l.since = elapsed(l.since, s.Period)
	in := []policy.Reading{{
		Signal: memPSI,
		Value:  float64(l.integral) / float64(l.since), Target: float64(senpaiPressure) / float64(senpaiInterval),
	}}
	backedOff := l.adjust()
	if d, stop := outerStop(s); stop {
		d.Inputs = in
		return d
	}
	d := policy.Decision{Inputs: in}
	above := s.Usage - l.limit
	switch {
	case above < page && backedOff:
		d.Reason, d.Signal = policy.MemPressure, memPSI
		d.Detail = "takes nothing: stalled for more than " + senpaiPressure.String() + ", raised the limit to " + size(l.limit)
	case above < page:
		d.Reason = Waiting
		d.Detail = fmt.Sprintf("takes nothing: %s used is not above the limit of %s", size(s.Usage), size(l.limit))
	default:
		d = take(d, s, float64(above), l.left, memPSI)
		d.Detail += "; the limit is " + size(l.limit)
	}
	return d
}

// adjust moves the limit when it is time to, and says whether it was raised.
func (l *Senpai2019) adjust() (raised bool) {
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	switch {
	case l.integral > senpaiPressure:
		err := us(l.integral) / us(senpaiPressure)
		l.left = 0
		l.set(float64(l.limit) * (1 + math.Min(square(err/senpaiCoeffBackoff)*senpaiMaxBackoff, senpaiMaxBackoff)))
		raised = true
	case l.since >= senpaiInterval:
		err := us(senpaiPressure) / math.Max(us(l.integral), 1)
		l.left = math.Min(square(err/senpaiCoeffProbe), 1)
		l.set(float64(l.limit) * (1 - l.left*senpaiMaxProbe))
	default:
		return false
	}
	l.integral, l.since = 0, 0
	return raised
}

func (l *Senpai2019) set(limit float64) {
	l.limit = int64(math.Max(senpaiMinSize, math.Min(senpaiMaxSize, limit))) / page * page
}

func square(x float64) float64 { return x * x }
