package heat

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// EpochLength is how long bits gather before they are cleared again: the last of Marks.
const EpochLength = time.Hour

// Sight is one look at a cgroup whose access bits gather since they were last cleared. Bytes.
type Sight struct {
	Total   int64 // resident, as far as the source sees it
	Idle    int64 // of it, surely not touched since the clearing
	Touched int64 // touched since the clearing; what is shared or new may be in it
}

// Epochs turns such looks into readings. A source that has one bit and no page numbers cannot know ages directly:
// it clears all bits, and what is still unmarked after five minutes was idle for five minutes. So one epoch of an
// hour draws the whole curve for one clearing, each age when the epoch reaches it. Points that this epoch has not
// reached are those of the last one, bounded by what is known now; an age can be up to an epoch old, and memory
// that cools down within an epoch counts as warm until the next. The zero value is ready, and must be told of a
// clearing first. Not safe for concurrent use.
type Epochs struct {
	since    time.Time // first clearing
	start    time.Time // last one
	n        int       // looks since
	prev     Sight
	prevAt   time.Time
	cold     []slot // cumulative: idle for at least the slot's age
	promo    []slot // cumulative: touched again in a minute, after at least the slot's age
	sawPromo bool   // a point of promo was ever made
}

// slot is a point of the curve, made by the n-th look of its epoch.
type slot struct {
	n     int
	idle  time.Duration
	bytes int64
}

// Cleared says that the bits were cleared at the time at: an epoch begins.
func (e *Epochs) Cleared(at time.Time) {
	if e.since.IsZero() {
		e.since = at
	}
	e.start, e.n, e.prev, e.prevAt = at, 0, Sight{}, at
}

// Over says whether the bits should be cleared: never yet, or an epoch ago.
func (e *Epochs) Over(at time.Time) bool { return e.start.IsZero() || at.Sub(e.start) >= EpochLength }

// See takes a look at the time at and returns the reading.
func (e *Epochs) See(at time.Time, s Sight, source string) Reading {
	age := max(at.Sub(e.start), 0)
	r := Reading{At: at, Scan: max(at.Sub(e.prevAt), 0), Source: source}
	r.Span = tidy(at.Sub(e.since), r.Scan)
	s.Total, s.Touched = max(s.Total, 0), max(s.Touched, 0)
	s.Idle = min(max(s.Idle, 0), s.Total)
	e.n++
	if kept(e.n) {
		e.cold = put(e.cold, slot{e.n, tidy(age, r.Scan), s.Idle})
	}
	if e.n > 1 {
		// Freed memory is idle no more without being touched, new memory is touched without having been idle.
		back := min(e.prev.Idle-s.Idle, s.Touched-e.prev.Touched)
		if kept(e.n) || !e.sawPromo {
			e.promo = put(e.promo, slot{e.n, tidy(max(age-r.Scan, 0), r.Scan), perMinute(back, r.Scan)})
		}
		e.sawPromo = true
	}
	e.prev, e.prevAt = s, at

	points := []Age{{Idle: tidy(age, r.Scan), Bytes: s.Idle}}
	for _, c := range e.cold {
		if c.n > e.n { // of the last epoch: what is touched now is not cold, whatever was then
			c.bytes = min(c.bytes, s.Idle)
		}
		points = append(points, Age{Idle: c.idle, Bytes: c.bytes})
	}
	r.Cold = layers(s.Total, points)
	if e.sawPromo {
		var promo []Age
		for _, p := range e.promo {
			promo = append(promo, Age{Idle: p.idle, Bytes: p.bytes})
		}
		r.Promo = falling(promo)
	}
	return r.settle()
}

// kept says whether the n-th look of an epoch leaves a point: each of the first 32, every second of the next 32,
// and so on, which keeps short scans from filling the memory.
func kept(n int) bool { return n%(1<<max(bits.Len(uint(n))-5, 0)) == 0 }

// put replaces the point of the same look in an earlier epoch, and any that it overtook.
func put(list []slot, s slot) []slot {
	out := list[:0]
	for _, old := range list {
		if old.n != s.n && (old.n < s.n) == (old.idle < s.idle) {
			out = append(out, old)
		}
	}
	return append(out, s)
}

// falling turns points of "after at least this age" into layers. What came back after a long age also came back
// after a shorter one: of two figures that contradict, promotions take the larger.
func falling(points []Age) Histogram {
	slices.SortFunc(points, func(a, b Age) int { return cmp.Compare(b.Idle, a.Idle) })
	var most int64
	for i := range points {
		most = max(most, points[i].Bytes)
		points[i].Bytes = most
	}
	return slices.DeleteFunc(layers(most, points), func(a Age) bool { return a.Bytes == 0 })
}
