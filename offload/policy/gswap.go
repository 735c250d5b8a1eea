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
	past  Threshold

	at     time.Time     // of the newest reading
	learnt time.Time     // of the reading that last went into past
	silent time.Duration // since a new reading came
	gone   int64         // bytes taken since then
}

// silence is how long one reading may speak for the present: five scans of 120 s, or five of its own.
const silence = 10 * time.Minute

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
		t := l.past.Next(l.p.Percentile)
		l.byAge(&d, s, h, t, l.why(t))
	default:
		l.byRate(&d, s, h, rate, left, note)
	}
	return d
}

// reading returns s's heat unless it is too old to count, learns from a new one, and says what is missing.
func (l *gswap) reading(s Sample) (h *heat.Reading, note string) {
	h = s.Heat
	if h == nil {
		return nil, " (no access tracking here: braking on promotions alone)"
	}
	if !h.At.Equal(l.at) {
		l.at, l.silent, l.gone = h.At, 0, 0
		l.learn(h)
	} else {
		l.silent = min(l.silent+min(s.Period, time.Hour), 24*time.Hour)
		l.gone = min(l.gone, math.MaxInt64-s.Reclaimed) + s.Reclaimed
	}
	switch {
	case l.silent > max(silence, 5*min(h.Scan, time.Hour)):
		return nil, fmt.Sprintf(" (no access tracking for %v: braking on promotions alone)", l.silent.Round(time.Second))
	case h.Promo == nil:
		return h, " (" + h.Source + " cannot tell promotions by age: braking on what really came back)"
	}
	return h, ""
}

// learn adds the best age of the minute that h describes. Readings of less than a minute's distance overlap, and
// their promotions would count twice.
func (l *gswap) learn(h *heat.Reading) {
	if d := h.At.Sub(l.learnt); h.Promo == nil || !l.learnt.IsZero() && d >= 0 && d < time.Minute {
		return
	}
	l.learnt = h.At
	var promoted [Ages]float64
	for i := range promoted {
		promoted[i] = float64(h.Promo.Colder(Age(i)))
	}
	l.past.Observe(BestAge(&promoted, l.p.Promotion*float64(max(h.WorkingSet, 0))))
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
	d.Reason, d.Signal = ColdAge, coldAge
	if t == Ages {
		d.Detail = "takes nothing: at every age more would come back than the target allows" + why
		return
	}
	cold := max(h.Cold.Colder(Age(t)), 0)
	d.Step = min(s.step(l.p.MaxStep), max(cold-l.gone, 0)/page*page)
	idle := fmt.Sprintf("%s has been idle for %v or longer%s", bytes(cold), Age(t), why)
	switch {
	case d.Step > 0:
		d.Detail = fmt.Sprintf("takes %s, %s of %s: %s", bytes(d.Step), percent(float64(d.Step)/float64(s.Usage)), bytes(s.Usage), idle)
	case cold >= page && l.gone > 0 && cold-l.gone < page:
		d.Detail = "takes nothing: " + idle + ", and was taken already"
	case cold >= page:
		d.Reason, d.Signal = TooSmall, ""
		d.Detail = "takes nothing: the step from " + bytes(s.Usage) + " is below one page"
	default:
		d.Detail = "takes nothing: " + idle
	}
}

// why says where threshold t came from.
func (l *gswap) why(t int) string {
	switch {
	case l.past.n == 1:
		return " (after one minute)"
	case l.past.n > 1 && t > l.past.percentile(l.p.Percentile):
		return fmt.Sprintf(" (the last of %d minutes)", l.past.n)
	}
	return fmt.Sprintf(" (percentile %g of %d minutes)", l.p.Percentile, l.past.n)
}

// byRate takes Ratio, eased by the promotions; h, where there is one, bounds it by what is cold at all.
func (l *gswap) byRate(d *Decision, s Sample, h *heat.Reading, rate Reading, left float64, note string) {
	n := s.step(math.Min(l.p.MaxStep, l.p.Ratio*left))
	if h != nil {
		cold := max(h.Cold.Colder(Age(0)), 0)
		if room := max(cold-l.gone, 0) / page * page; room < n {
			l.byAge(d, s, h, 0, note)
			return
		}
	}
	d.take(s, n, rate, left, note)
}
