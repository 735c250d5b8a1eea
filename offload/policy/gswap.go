package policy

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-io/spillway/offload/heat"
)

// gswap is the law of "Software-Defined Far Memory in Warehouse-Scale Computers" (Lagar-Cavilla et al., ASPLOS
// 2019, section 4): take what was not touched for an age T, chosen so that promotions, pages touched again after
// they had reached T, stay within Promotion of the working set a minute. T comes from the promotions of past
// minutes (see Threshold), and nothing is taken in a job's first Warmup.
//
// Two things differ from the paper. The kernel reclaims a size and picks the pages, so T sets how much is taken, at
// most MaxStep a period, and the kernel's own order which. And since that order can be wrong, what really comes
// back is held against the same target: at Promotion the law stops, whatever the ages say. Refaults of files count
// as promotions, so a cgroup that reads files in circles is left alone.
//
// Without access tracking there is no age and only the second half is left: a step of Ratio, eased as the
// promotions of the last minute approach their target. A source that sees ages but not promotions (Promo is nil)
// bounds that step by what has been idle for the youngest cold age.
type gswap struct {
	p     Params
	promo perMinute // pages that came back
	ages  ages
}

func (*gswap) Name() string { return GSwap }

func (l *gswap) Decide(s Sample) Decision {
	s, ok := s.sane()
	if !ok {
		return nothing(NoSignal, "takes nothing: the sample has no period or no usage")
	}
	l.promo.add(s.Period, float64(s.RefaultAnon)+float64(s.RefaultFile))
	h, note := l.reading(s)
	if d, stop := outerStop(s); stop {
		return d
	}
	rate := Reading{Signal: promotionRate, Value: l.rate(s, h), Target: l.p.Promotion}
	d := Decision{Inputs: []Reading{rate}}
	left := 1 - rate.Value/rate.Target
	switch {
	case left <= 0:
		d.Reason, d.Signal = over(promotionRate), promotionRate
		d.Detail = "takes nothing: " + rate.text() + note
	case s.Usage <= s.Floor:
		d.Reason = AtFloor
		d.Detail = "takes nothing: " + bytes(s.Usage) + " used is not above the floor of " + bytes(s.Floor)
	case s.Age < l.p.Warmup:
		d.Reason = WarmUp
		d.Detail = fmt.Sprintf("takes nothing: watched for %v, and the first %v tell too little", max(s.Age, 0).Round(time.Second), l.p.Warmup)
	case h != nil && h.Promo != nil:
		t := l.ages.past.Next(l.p.Percentile)
		l.byAge(&d, s, h, t, l.ages.why(t, l.p.Percentile))
	default:
		l.byRate(&d, s, h, rate, left, note)
	}
	return d
}

// reading is what the access tracking says now, nil if nothing, and how the law does without what is missing.
func (l *gswap) reading(s Sample) (h *heat.Reading, note string) {
	h, gap := l.ages.see(s, l.p.Promotion, math.Inf(1))
	switch {
	case gap == "":
	case h == nil:
		note = " (" + gap + ": braking on promotions alone)"
	default:
		note = " (" + gap + ": braking on what really came back)"
	}
	return h, note
}

// rate is what came back in the last minute as a share of the working set.
func (l *gswap) rate(s Sample, h *heat.Reading) float64 {
	pages := l.promo.sum()
	if pages < strayRefaults {
		return 0
	}
	return pages * page / s.workingSet(h)
}

// workingSet is h's where there is one. Else it is what the kernel keeps on its active lists, and at least half of
// the usage: a cgroup whose pages have not been sorted yet has them all on the inactive ones, while in nine jobs
// of ten at least 57 % of the memory was touched in the last 120 s (section 3 of the paper).
func (s Sample) workingSet(h *heat.Reading) float64 {
	if h != nil && h.WorkingSet > 0 {
		return float64(max(h.WorkingSet, page))
	}
	active := float64(s.Usage) - math.Max(0, float64(s.InactiveAnon)) - math.Max(0, float64(s.InactiveFile))
	return math.Max(page, math.Max(active, float64(s.Usage)/2))
}

// byAge takes what has reached age t, less what was taken since it was seen.
func (l *gswap) byAge(d *Decision, s Sample, h *heat.Reading, t int, why string) {
	cold, left := l.ages.idle(h, t)
	d.Step = min(s.step(l.p.MaxStep), left)
	d.byAge(s, t, cold, left, why)
}

// byRate takes Ratio, eased by the promotions; h, where there is one, bounds it by what is cold at all.
func (l *gswap) byRate(d *Decision, s Sample, h *heat.Reading, rate Reading, left float64, note string) {
	n := s.step(math.Min(l.p.MaxStep, l.p.Ratio*left))
	if h != nil {
		if _, room := l.ages.idle(h, 0); room < n {
			l.byAge(d, s, h, 0, note)
			return
		}
	}
	d.take(s, n, rate, left, note)
}
