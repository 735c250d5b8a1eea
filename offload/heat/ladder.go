package heat

import (
	"slices"
	"time"
)

// Generation is one generation of the multi-generational LRU: memory last touched after its birth and before the
// next one's.
type Generation struct {
	Seq   uint64        // ascending, the youngest has the highest
	Age   time.Duration // since its birth
	Bytes int64
}

// Ladder turns the generations of one cgroup on one node into readings. The kernel keeps four, so at one scan in
// two minutes it knows ages up to six minutes. The ladder climbs on from there: of what the oldest generation held
// at an earlier scan, at least that much is still idle which it has not lost since. What the oldest generation
// loses is charged to its oldest memory, so these ages are lower bounds: memory can be colder than it looks, not
// warmer.
//
// That holds for memory that is mapped. Pages of files that are read and not mapped enter an old generation at once,
// because the kernel expects no second use; they look colder than they are. The zero value is ready. Not safe for
// concurrent use.
type Ladder struct {
	first time.Time
	at    time.Time
	birth map[uint64]time.Time // of the generations at the last scan
	below map[uint64]int64     // bytes in generations before that one, at the last scan
	known []rung               // what older scans still prove, youngest first
}

// rung: at least so many bytes were not touched since then.
type rung struct {
	since time.Time
	bytes int64
}

// maxRungs bounds the ladder whatever the distance of scans.
const maxRungs = 256

// Climb takes the generations just before and just after ageing, which makes one more and moves into the then
// youngest but one what was touched since the last ageing. Both ascend by Seq. The ages are those of after.
// It reports false when after holds no generation.
func (l *Ladder) Climb(at time.Time, before, after []Generation, source string) (Reading, bool) {
	if len(after) == 0 {
		return Reading{}, false
	}
	if l.first.IsZero() {
		l.first = at
	}
	r := Reading{At: at, Source: source}
	below, birth := map[uint64]int64{}, map[uint64]time.Time{}
	var total int64
	for _, g := range after {
		below[g.Seq], birth[g.Seq] = total, at.Add(-max(g.Age, 0))
		total = add(total, max(g.Bytes, 0))
	}
	if len(after) > 1 {
		r.Scan = max(after[len(after)-2].Age, 0)
	}
	l.carry(below, birth, after)

	var cold []Age
	for _, g := range after[1:] {
		cold = append(cold, Age{Idle: tidy(max(g.Age, 0), r.Scan), Bytes: below[g.Seq]})
	}
	for _, k := range l.known {
		cold = append(cold, Age{Idle: tidy(at.Sub(k.since), r.Scan), Bytes: k.bytes})
	}
	r.Cold = layers(total, cold)
	r.Span = tidy(max(at.Sub(l.first), after[min(1, len(after)-1)].Age, 0), r.Scan)
	r.Promo = promoted(before, after, below, r)
	l.at, l.below, l.birth = at, below, birth
	return r.settle(), true
}

// carry moves what the last scan knew of times before the present oldest generation onto the ladder.
func (l *Ladder) carry(below map[uint64]int64, birth map[uint64]time.Time, after []Generation) {
	if len(after) < 2 {
		l.known = nil
		return
	}
	edge := after[1].Seq // all that is below it was not touched since its birth
	was, ok := l.below[edge]
	if !ok { // aged more often than we looked: nothing that was known can be followed
		l.known = nil
		return
	}
	lost := max(was-below[edge], 0)
	var rungs []rung
	for seq, b := range l.below {
		if seq < edge && b > 0 {
			rungs = append(rungs, rung{l.birth[seq], b})
		}
	}
	slices.SortFunc(rungs, func(a, b rung) int { return b.since.Compare(a.since) })
	most := below[edge]
	out := l.known[:0:0]
	for _, k := range append(rungs, l.known...) {
		if k.bytes = min(k.bytes-lost, most); k.bytes <= 0 || !k.since.Before(birth[edge]) {
			continue
		}
		most = k.bytes
		if n := len(out); n > 0 && (!k.since.Before(out[n-1].since) || birth[edge].Sub(out[n-1].since) >= EpochLength) {
			continue // no older than one we have, or older than anybody asks
		}
		out = append(out, k)
	}
	l.known = out[:min(len(out), maxRungs)]
}

// promoted is what ageing found touched, by the age it had when the last ageing looked, a minute. What came out of
// the oldest generation may have been of any age beyond; it counts as the oldest that r can tell, since a law that
// weighs promotions by age must not take for safe what nobody saw.
func promoted(before, after []Generation, below map[uint64]int64, r Reading) Histogram {
	if len(before) < 2 || r.Scan <= 0 {
		return nil
	}
	ages := map[uint64]time.Duration{}
	for _, g := range after {
		ages[g.Seq] = g.Age
	}
	var points []Age
	var held int64
	for i, g := range before {
		// Ageing may have merged the oldest two: then what was below the second is not told apart any more. And what
		// was touched in the interval before, too, did not come back: it never left.
		now, ok := below[g.Seq]
		age := tidy(max(ages[g.Seq]-r.Scan, 0), r.Scan)
		if ok && i > 0 && g.Seq > after[0].Seq && age > 0 {
			back := perMinute(held-now, r.Scan)
			if points == nil {
				points = append(points, Age{Idle: r.Span, Bytes: back})
			}
			points = append(points, Age{Idle: age, Bytes: back})
		}
		held = add(held, max(g.Bytes, 0))
	}
	return append(Histogram{}, falling(points)...)
}
