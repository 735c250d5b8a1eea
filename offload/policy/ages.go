package policy

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-io/spillway/offload/heat"
)

// ages is what the laws make of the access tracking of one cgroup: the age from which memory may be taken (see
// Threshold), and how much has been idle for that long and is still there. The zero value has seen nothing.
type ages struct {
	past Threshold

	at     time.Time     // of the newest reading
	learnt time.Time     // of the reading that last went into past
	silent time.Duration // since a new reading came
	gone   int64         // bytes taken since then
	unseen int64         // bytes that it knew nothing of
}

// silence is how long one reading may speak for the present: five scans of 120 s, or five of its own.
const silence = 10 * time.Minute

// see returns s's heat unless there is none or it is too old to count, and learns from a new one. What may come back a
// minute is the share promotion of the working set, and at most this many bytes. gap says what is missing.
func (a *ages) see(s Sample, promotion, most float64) (h *heat.Reading, gap string) {
	h = s.Heat
	if h == nil {
		return nil, "no access tracking here"
	}
	if !h.At.Equal(a.at) {
		a.at, a.silent, a.gone, a.unseen = h.At, 0, 0, max(s.Usage-max(h.Cold.Total(), 0), 0)
		a.learn(h, math.Min(most, promotion*float64(max(h.WorkingSet, 0))))
	} else {
		a.silent = min(a.silent+min(s.Period, time.Hour), 24*time.Hour)
		a.gone = min(a.gone, math.MaxInt64-s.Reclaimed) + s.Reclaimed
	}
	switch {
	case a.silent > max(silence, 5*min(h.Scan, time.Hour)):
		return nil, fmt.Sprintf("no access tracking for %v", a.silent.Round(time.Second))
	case h.Promo == nil:
		return h, h.Source + " cannot tell promotions by age"
	}
	return h, ""
}

// learn adds the best age of the minute that h describes, in which most bytes might come back. Readings of less than a
// minute's distance overlap, and their promotions would count twice.
func (a *ages) learn(h *heat.Reading, most float64) {
	if d := h.At.Sub(a.learnt); h.Promo == nil || !a.learnt.IsZero() && d >= 0 && d < time.Minute {
		return
	}
	a.learnt = h.At
	var promoted [Ages]float64
	for i := range promoted {
		promoted[i] = float64(h.Promo.Colder(Age(i)))
	}
	a.past.Observe(BestAge(&promoted, most))
}

// idle is what h says had reached age t, in bytes, and how much of it can still be there.
func (a *ages) idle(h *heat.Reading, t int) (cold, left int64) {
	if t == Ages {
		return 0, 0
	}
	cold = max(h.Cold.Colder(Age(t)), 0)
	return cold, max(cold-a.gone, 0) / page * page
}

// why says where threshold t, at percentile k, came from.
func (a *ages) why(t int, k float64) string {
	switch {
	case a.past.n == 1:
		return " (after one minute)"
	case a.past.n > 1 && t > a.past.percentile(k):
		return fmt.Sprintf(" (the last of %d minutes)", a.past.n)
	}
	return fmt.Sprintf(" (percentile %g of %d minutes)", k, a.past.n)
}

func idleFor(cold int64, t int) string {
	return fmt.Sprintf("%s has been idle for %v or longer", bytes(cold), Age(t))
}

// byAge explains d's step of what was left of the memory that had been idle for age t.
func (d *Decision) byAge(s Sample, t int, cold, left int64, why string) {
	d.Reason, d.Signal = ColdAge, coldAge
	switch {
	case d.Step > 0:
		d.Detail = fmt.Sprintf("takes %s, %s of %s: ", bytes(d.Step), percent(float64(d.Step)/float64(s.Usage)), bytes(s.Usage))
	case t < Ages && left > 0:
		d.Reason, d.Signal = TooSmall, ""
		d.Detail = "takes nothing: the step from " + bytes(s.Usage) + " is below one page"
		return
	default:
		d.Detail = "takes nothing: "
	}
	if t == Ages {
		d.Detail += "at every age more would come back than the target allows" + why
		return
	}
	d.Detail += idleFor(cold, t) + why
	if d.Step == 0 && cold >= page {
		d.Detail += ", and was taken already"
	}
}
