package heat

import (
	"math"
	"time"
)

// MaxPageAge is where the 8-bit age of a page stops: 255 scans, 8.5 hours at 120 s (g-swap, section 3).
const MaxPageAge = math.MaxUint8

// Tally sums one scan of a source that has one bit a page: touched since the last scan, or not. The caller keeps a
// byte a page, its age in scans, and makes a new Tally for each scan. The zero value is ready.
type Tally struct {
	cold, promo [MaxPageAge + 1]int64
}

// See counts a page of the given size that had the given age, and returns its new age: 0 when it was touched, else
// one more, at most MaxPageAge.
func (t *Tally) See(age uint8, touched bool, bytes int64) uint8 {
	if touched {
		if age > 0 {
			t.promo[age] = add(t.promo[age], max(bytes, 0))
		}
		age = 0
	} else if age < MaxPageAge {
		age++
	}
	t.cold[age] = add(t.cold[age], max(bytes, 0))
	return age
}

// Reading is what the scan at the time at saw. earlier are the times of the scans before it, newest first: a page
// of age n was last known to be touched before the n-th of them. Span reaches back to the oldest. Without an
// earlier scan nothing can be cold.
func (t *Tally) Reading(at time.Time, earlier []time.Time, source string) Reading {
	r := Reading{At: at, Source: source, Promo: Histogram{}}
	idle := func(age int) time.Duration {
		if age == 0 || len(earlier) == 0 {
			return 0
		}
		return max(at.Sub(earlier[min(age, len(earlier))-1]), 0)
	}
	r.Scan = idle(1)
	r.Span = tidy(idle(len(earlier)), r.Scan)
	var cold, promo []Age
	for age := MaxPageAge; age >= 0; age-- {
		if n := t.cold[age]; n > 0 || age == 0 {
			cold = append(cold, Age{Idle: tidy(idle(age), r.Scan), Bytes: n})
		}
		if n := perMinute(t.promo[age], r.Scan); n > 0 && age > 0 {
			// Its age when the last scan saw it: that is what g-swap's kernel finds in the page.
			promo = append(promo, Age{Idle: tidy(max(idle(age+1)-r.Scan, 0), r.Scan), Bytes: n})
		}
	}
	r.Cold, r.Promo = Merge(cold), append(r.Promo, Merge(promo)...)
	return r.settle()
}
