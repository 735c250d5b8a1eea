package policy

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-io/spillway/offload/heat"
)

// enoughReadings of the access tracking have to be learnt from before the law trusts an age: g-swap's warm-up, five
// scans. What comes round every ten minutes looks cold until then. After a reload it learns anew.
const enoughReadings = 5

// bounds are what the access tracking allows a step: memory known to be cold may be taken faster than Ratio, and
// anything else not at all.
type bounds struct {
	share float64 // of the usage
	bytes int64

	known   bool   // somebody tracks; else share is all there is
	slow    bool   // share is Ratio's
	age     int    // see Age
	cold    int64  // bytes that had reached it at the last reading
	left    int64  // of them, still there
	unseen  int64  // bytes that the tracking knows nothing of
	because string // where age comes from, or what is missing
}

// bounds of a step of which the signals leave left.
//
// Once enough minutes are known, share is MaxStep eased by left, and bytes what was not touched for the age at which
// past minutes' promotions stayed within their target. Before, and where the tracking cannot tell promotions, the share
// is Ratio's as ever, of what has been idle for the youngest age. Memory that the tracking does not see, such as page
// cache that is read and never mapped, is taken at Ratio beside it. Without tracking nothing but Ratio is left.
func (l *composite) bounds(s Sample, h *heat.Reading, gap string, left float64) bounds {
	slow := math.Min(l.p.MaxStep, l.p.Ratio*left)
	b := bounds{share: slow, bytes: math.MaxInt64, slow: true}
	if h == nil {
		if s.Heat != nil {
			b.because = " (" + gap + ": braking on the signals alone)"
		}
		return b
	}
	b.known = true
	switch n := l.ages.past.n; {
	case gap != "":
		b.because = " (" + gap + ")"
	case n < enoughReadings:
		b.because = fmt.Sprintf(" (learnt from %d of %d readings, so the ratio is the limit)", n, enoughReadings)
	default:
		b.share, b.slow = l.p.MaxStep*left, false
		b.age = l.ages.past.Next(l.p.Percentile)
		b.because = l.ages.why(b.age, l.p.Percentile)
	}
	b.cold, b.left = l.ages.idle(h, b.age)
	b.unseen = min(l.ages.unseen, s.Usage)
	b.bytes = min(b.left, s.Usage) / page * page
	b.bytes += min(int64(slow*float64(b.unseen))/page*page, s.Usage-b.bytes)
	return b
}

// take completes d with a step of n bytes and says what set its size: the ages, or else the signals and the ratio.
func (b *bounds) take(d *Decision, s Sample, n int64, w Reading, left float64, note string) {
	if b.unseen > s.Usage/16 {
		note += "; the tracking does not see " + bytes(b.unseen)
	}
	switch full := n > 0 && n == s.step(b.share); {
	case !b.known:
		d.take(s, n, w, left, note+b.because)
	case full && (b.slow || left < nearlyFull):
		d.take(s, n, w, left, "; "+idleFor(b.cold, b.age)+b.because+note)
	default:
		d.Step = n
		d.byAge(s, b.age, b.cold, b.left, b.because+note)
	}
}

// price is what may come back a minute in bytes, at what the tier was measured to take: no more than is harmless (see
// knee). So on a slow tier the ages are older. Memory and files cost what they make up of the usage.
func (l *composite) price(s Sample) float64 {
	anon, file := s.costs()
	cost := float64(anon)
	shmem := math.Max(0, float64(s.Shmem))
	memory, files := math.Max(0, float64(s.Anon))+shmem, math.Max(0, float64(s.File)-shmem)
	if memory+files > 0 {
		cost = (memory*float64(anon) + files*float64(file)) / (memory + files)
	}
	return harmlessOf * l.p.RefaultCost * s.targetScale() * float64(time.Minute) / cost * page
}
