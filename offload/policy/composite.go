package policy

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/spillway-io/spillway/offload/heat"
)

// composite is the default law:
//
//	step = usage × ratio × max(0, min over signals of (1 − value/target)), at most MaxStep of the usage
//
// over memory PSI, IO PSI and refault cost, the share of the period spent on bringing pages back:
// (anon refaults × cost of one + file refaults × cost of one) / period. Refaults make it brake where memory
// pressure is blind, and they are all it needs where a cgroup has no readable pressure.
//
// It is asymmetric. A signal at its target stops it at once and for Hold more periods; going down is slow. And
// it remembers the size below which taking does not pay (see knee), so that near the working set it stops
// instead of nibbling: a law without memory settles where as much comes back every period as it takes, which
// costs a fault for every page and saves nothing.
//
// Where access tracking tells how long memory has been idle, the step is what has been idle for long enough instead of
// Ratio, up to MaxStep, under the same signals, hold and safe size (see bounds).
type composite struct {
	p    Params
	hold int // periods left without a step
	knee knee
	ages ages
}

// Seeds for the cost of one refault, until the canary has measured the tier: a compressed pool needs 10 to
// 20 µs, a file read from a good SSD about 100 µs.
const (
	seedAnon = 15 * time.Microsecond
	seedFile = 100 * time.Microsecond
)

// strayRefaults in one period never bind: on a slow tier a single page can cost more than the target, and a
// law that holds for a minute after every page would never get anywhere.
const strayRefaults = 4

func newComposite(p Params) *composite {
	return &composite{p: p, knee: newKnee(p)}
}

func (*composite) Name() string { return Composite }

// SafeSize is the smallest size known not to hurt, bytes; 0 while none is known.
func (l *composite) SafeSize() int64 { return l.knee.size }

func (l *composite) Decide(s Sample) Decision {
	s, ok := s.sane()
	if !ok {
		l.knee.interrupt()
		return nothing(NoSignal, "takes nothing: the sample has no period or no usage")
	}
	h, gap := l.ages.see(s, l.p.Promotion, l.price(s))
	if d, stop := outerStop(s); stop {
		l.knee.interrupt()
		return d
	}
	d := Decision{Inputs: l.readings(s)}
	w, left := worst(d.Inputs)
	if left <= 0 {
		l.backOff(&d, s, w)
		return d
	}
	l.knee.harmless = harmlessOf * l.p.RefaultCost * s.targetScale()
	l.knee.observe(s, s.refaultShare())
	switch {
	case s.Usage <= s.Floor:
		l.hold = max(0, l.hold-1)
		d.Reason = AtFloor
		d.Detail = "takes nothing: " + bytes(s.Usage) + " used is not above the floor of " + bytes(s.Floor)
	case l.hold > 0:
		d.Reason = Holding
		d.Detail = "takes nothing: holds after a back-off, " + periods(l.hold) + " left"
		l.hold--
	case s.Probe != "":
		d.withhold(s.Probe) // the knee is not asked, so that it opens no probe of its own
	default:
		l.descend(&d, s, h, gap, w, left)
	}
	if !s.PSI {
		d.Detail += blind
	}
	l.knee.took(d.Step)
	return d
}

const blind = " (no pressure is readable here: braking on refaults alone)"

// readings leaves out what cannot be read, so that an explanation never shows a zero nobody measured.
func (l *composite) readings(s Sample) []Reading {
	in := make([]Reading, 0, 4)
	if s.PSI {
		in = append(in, pressure(s, l.p)...)
	}
	if s.WritePrice > 0 {
		in = append(in, Reading{Signal: endurance, Value: s.WritePrice, Target: 1})
	}
	return append(in, Reading{Signal: refaultCost, Value: s.refaultShare(), Target: l.p.RefaultCost * s.targetScale()})
}

func (s Sample) refaultShare() float64 {
	if s.RefaultAnon < strayRefaults && s.RefaultFile < strayRefaults-s.RefaultAnon {
		return 0
	}
	anon, file := s.costs()
	return (float64(s.RefaultAnon)*float64(anon) + float64(s.RefaultFile)*float64(file)) / float64(s.Period)
}

// costs are those of one refault, the seeds where none was measured.
func (s Sample) costs() (anon, file time.Duration) {
	return cmp.Or(s.CostAnon, seedAnon), cmp.Or(s.CostFile, seedFile)
}

func (l *composite) backOff(d *Decision, s Sample, w Reading) {
	d.Reason, d.Signal = over(w.Signal), w.Signal
	d.Detail = "takes nothing, and holds for " + periods(l.p.Hold) + ": " + w.text()
	if !s.PSI {
		d.Detail += blind
	}
	l.hold = l.p.Hold
	l.knee.hurt(s)
}

// descend takes a step towards the knee, or rests at it.
func (l *composite) descend(d *Decision, s Sample, h *heat.Reading, gap string, w Reading, left float64) {
	switch l.knee.verdict(s) {
	case goDown:
		b := l.bounds(s, h, gap, left)
		n, note := min(s.step(b.share), b.bytes), ""
		if k := l.knee.size; k > 0 && s.Usage-n < k {
			n, note = (s.Usage-k)/page*page, "; stops at the safe size of "+bytes(k)
		}
		b.take(d, s, n, w, left, note)
		l.knee.down(s.Usage, d.Step)
	case probe:
		b := l.bounds(s, h, gap, left)
		b.take(d, s, min(s.step(math.Min(l.p.MaxStep, l.p.Ratio*left)/2), b.bytes), w, left, "")
		if d.Step == 0 {
			l.knee.postpone()
			return
		}
		l.knee.probed()
		d.Reason, d.Signal = SafeSize, ""
		d.Detail = fmt.Sprintf("probes %s below the safe size of %s; if that comes back, the next probe is in %s",
			bytes(d.Step), bytes(l.knee.size), periods(min(2*l.knee.interval, maxInterval)))
	case rest:
		d.Reason = SafeSize
		d.Detail = fmt.Sprintf("takes nothing: %s is the smallest size known not to hurt; probes again in %s",
			bytes(l.knee.size), periods(l.knee.next))
	}
}
