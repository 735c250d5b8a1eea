package sensitivity

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Learner learns about one workload. Not safe for concurrent use.
type Learner struct {
	slo SLO
	rng *rand.Rand

	scale float64
	lost  int // periods in a row without a signal
	why   string

	// The block in progress.
	phase phase
	sum   sums
	// The finished first block of a pair, while phase is second.
	first   blockMean
	plain   int  // blocks to go before the next pair
	resting bool // the last pair was thrown away because the law took nothing

	// Against the SLO's absolute bound.
	over  [3]bool // newest last
	cool  int     // periods left without a step
	worst time.Duration

	blocks, compared, sinceVerdict int
	again                          int // how often the evidence at this multiplier was begun afresh
	ev                             evidence
	acting                         []float64  // p99 of acting blocks at this multiplier, µs
	share, shareDiff               []float64  // refault share acting, and acting minus holding, at this multiplier
	perMiB, perShare               []contrast // the newest window
	outlook                        string     // what the pairs at this multiplier promise, for people
	stats                          Stats      // the intervals; the slopes are drawn when somebody asks
	stale                          bool       // the slopes are older than the newest pair
}

// phase says what a block is for.
type phase struct {
	pair  int  // 0: not part of a pair; 1, 2: which block of it
	hold  bool // what this block does
	other bool // of pair: what the other block does
}

// New makes a Learner. The same seed and the same periods give the same advice.
func New(slo SLO, seed uint64) *Learner {
	slo.Inflation = cmp.Or(slo.Inflation, DefaultInflation)
	return &Learner{slo: slo, rng: rand.New(rand.NewPCG(seed, 0x5e5171f17)), scale: 1, lost: lostAfter}
}

const noSignal = "no SLO signal: targets of the class"

// Observe takes in the period that just ended, which followed the last advice, and advises on the coming one.
func (l *Learner) Observe(p Period) Advice {
	if !p.sane() {
		return l.blind()
	}
	fresh := l.lost >= lostAfter
	l.lost = 0
	if fresh { // nobody advised the period that just ended
		l.begin()
	}
	hold, why := l.guard(p)
	switch {
	case hold:
		return l.say(true, why)
	case !fresh:
		l.note(p)
	}
	return l.say(l.phase.hold, l.doing())
}

func (p Period) sane() bool {
	return p.Known && p.P99 > 0 && p.Refaults >= 0 && !math.IsInf(p.Refaults, 1)
}

func (l *Learner) say(hold bool, why string) Advice {
	l.why = why
	return Advice{Scale: l.scale, Hold: hold, Why: why}
}

// blind is a period without a signal. A gap of a few is bridged; after that what was learnt about stretching is
// void, what was learnt about caution stays.
func (l *Learner) blind() Advice {
	if l.lost < lostAfter {
		l.lost++
	}
	if l.lost >= lostAfter {
		l.scale = min(l.scale, 1)
		l.forget()
		l.cool = 0
		return l.say(false, l.unled())
	}
	l.note(Period{})
	return l.say(l.phase.hold || l.cool > 0, l.doing())
}

// unled is what a person reads without a signal.
func (l *Learner) unled() string {
	if l.scale < 1 {
		return fmt.Sprintf("no SLO signal: stays cautious, at %.3g× the class's refault-cost target", l.scale)
	}
	return noSignal
}

// guard holds at once while the p99 is above the SLO, and lowers the multiplier when two of three periods are.
func (l *Learner) guard(p Period) (hold bool, why string) {
	over := l.slo.P99 > 0 && (p.P99 > l.slo.P99 || p.AtLeast)
	copy(l.over[:], l.over[1:])
	l.over[2] = over
	if over {
		l.cool, l.worst = cool, p.P99
		l.begin()
		if count(l.over[:]) >= 2 {
			l.over = [3]bool{}
			l.move(l.scale / (notch * notch))
		}
	}
	if l.cool == 0 {
		return false, ""
	}
	l.cool--
	return true, fmt.Sprintf("p99 %v was above the SLO of %v", round(l.worst), l.slo.P99)
}

func count(bs []bool) (n int) {
	for _, b := range bs {
		if b {
			n++
		}
	}
	return n
}

// note adds a period to the block in progress, and ends the block when it is full.
func (l *Learner) note(p Period) {
	if p.Disturbed {
		l.begin()
		return
	}
	l.sum.add(p)
	if l.sum.periods < block {
		return
	}
	l.blocks++
	l.end()
	l.sum = sums{}
}

// end says what the finished block was good for, and chooses the next.
func (l *Learner) end() {
	mean, good := l.sum.mean()
	switch {
	case l.phase.pair == 0:
		if l.resting && mean.taken == 0 {
			return // the law has nothing to take: holding would compare nothing with nothing
		}
		l.resting = false
		if l.plain--; l.plain <= 0 {
			l.toss()
		}
	case !good:
		l.toss()
	case l.phase.pair == 1:
		l.first = mean
		l.phase = phase{pair: 2, hold: l.phase.other, other: l.phase.hold}
	default:
		act, hold := mean, l.first
		if l.phase.hold {
			act, hold = hold, act
		}
		if act.taken == 0 && act.refaults < noRefaults {
			l.resting, l.phase = true, phase{}
			return
		}
		l.compare(act, hold)
		l.next()
	}
}

// toss begins a pair: a fair coin says which of its blocks holds.
func (l *Learner) toss() {
	hold := l.rng.Uint64()&1 == 1
	l.phase = phase{pair: 1, hold: hold, other: !hold}
}

// next chooses what follows a compared pair: another one while there is something to learn.
func (l *Learner) next() {
	if l.scale >= l.most() || l.sinceVerdict >= patience {
		l.phase, l.plain = phase{}, restEvery
		return
	}
	l.toss()
}

// begin throws the pair in progress away and begins a new one, or goes on acting where none was due.
func (l *Learner) begin() {
	l.sum = sums{}
	if l.phase.pair > 0 || !l.resting && l.plain <= 0 {
		l.toss()
	}
}

// forget drops the evidence about the current multiplier. The slopes stay: they are per unit.
func (l *Learner) forget() {
	l.ev.reset()
	l.acting, l.share, l.shareDiff = l.acting[:0], l.share[:0], l.shareDiff[:0]
	l.sinceVerdict, l.plain, l.resting, l.again = 0, 0, false, 0
	l.phase, l.sum = phase{}, sums{}
	l.stats.Inflation, l.outlook = Interval{}, ""
}

// move sets the multiplier.
func (l *Learner) move(to float64) {
	l.scale = max(Least, min(to, l.most()))
	if math.Abs(l.scale-1) < 1e-9 { // notches are irrational
		l.scale = 1
	}
	l.forget()
	l.toss()
}

// compare adds a pair and draws the conclusion.
func (l *Learner) compare(act, hold blockMean) {
	l.compared++
	l.sinceVerdict++
	if len(l.ev.x) >= spent {
		again := l.again + 1
		l.forget()
		l.again = again
	}
	l.ev.add(math.Log(act.p99 / hold.p99))
	l.acting = append(l.acting, act.p99)
	l.share = append(l.share, act.refaults)
	l.shareDiff = append(l.shareDiff, act.refaults-hold.refaults)
	const mib, permille = 1 << 20, 1e-3
	l.perMiB = newest(append(l.perMiB, contrast{act.p99 - hold.p99, (act.saved - hold.saved) / mib}))
	l.perShare = newest(append(l.perShare, contrast{act.p99 - hold.p99, (act.refaults - hold.refaults) / permille}))
	l.stale = true
	low, high := l.ev.bounds()
	l.stats.Inflation = Interval{math.Exp(median(l.ev.x)), math.Exp(low), math.Exp(high), true}
	switch seen := l.seen(); {
	case l.ev.fortune(seen*math.Log(l.slo.Inflation), -1) >= suspicion:
		l.move(l.scale / (notch * notch))
	case l.scale < l.most() && seen >= weakest && l.allowed(seen):
		l.move(l.scale * notch)
	default:
		l.outlook = l.promise(seen)
	}
}

// promise says for people when the next notch may be expected: a signal can scatter too much to show in any time what
// the SLO asks.
func (l *Learner) promise(seen float64) string {
	if l.slo.Blind && l.scale >= 1 {
		return "; cannot rise: such a probe asks for nothing that could be taken away"
	}
	if l.scale >= Most {
		return ""
	}
	if seen < weakest {
		return "; holding brings back too little to compare"
	}
	pairs, ok := l.ev.needs(seen * l.room())
	scatter := 100 * math.Expm1(l.ev.scatter())
	switch {
	case !ok:
		return ""
	case pairs > spent:
		return fmt.Sprintf("; cannot rise: the p99 scatters by %.0f %% between blocks, too much to show less than %.3g×",
			scatter, math.Exp(seen*l.room()))
	}
	return fmt.Sprintf("; the p99 scatters by %.0f %% between blocks: a notch up takes about %.0f pairs", scatter, math.Ceil(pairs))
}

// most is how far the multiplier may go.
func (l *Learner) most() float64 {
	if l.slo.Blind {
		return 1
	}
	return Most
}

// room is the largest effect, as a log ratio, at which the next notch still leaves the SLO with its margin, if
// inflation grows in proportion to the target.
func (l *Learner) room() float64 { return math.Log(1+marginInflation*(l.slo.Inflation-1)) / notch }

// seen is the part of the refaults that holding makes go away, hence of the inflation that a pair can see: what a
// block brings back stays back for the next one, so acting and holding differ by less than acting and never acting.
func (l *Learner) seen() float64 {
	all := median(l.share)
	if all < noRefaults {
		return 1 // nothing comes back either way
	}
	return max(0, min(median(l.shareDiff)/all, 1))
}

// allowed says whether the pairs show that the next notch leaves the SLO with its margin.
func (l *Learner) allowed(seen float64) bool {
	most := l.room()
	if l.ev.fortune(seen*most, 1) < certain*float64(1+l.again) {
		return false
	}
	if l.slo.P99 == 0 {
		return true
	}
	s := slices.Sorted(slices.Values(l.acting))
	high := s[min(len(s)*9/10, len(s)-1)]
	grown := high * math.Exp((notch-1)*most) // the effect is below most, or the line above had said no
	return grown <= marginP99*float64(l.slo.P99.Microseconds())
}

func newest(cs []contrast) []contrast {
	if len(cs) > window {
		return slices.Delete(cs, 0, len(cs)-window)
	}
	return cs
}

// doing is what a person reads while nothing is wrong.
func (l *Learner) doing() string {
	at := fmt.Sprintf("at %.3g× the class's refault-cost target", l.scale)
	switch {
	case l.resting:
		return at + ": the law takes nothing, so there is nothing to compare"
	case l.phase.pair == 0:
		return at + ": acts; compares again now and then" + l.outlook
	case l.phase.hold:
		return at + ": holds a block to compare the p99" + l.outlook
	}
	return at + ": acts for a block to compare the p99" + l.outlook
}

// Stats returns what is known now.
func (l *Learner) Stats() Stats {
	if l.stale {
		l.stats.PerMiB, l.stats.PerShare, l.stale = slope(l.perMiB), slope(l.perShare), false
	}
	s := l.stats
	s.Scale, s.Blocks, s.Pairs, s.AtNotch, s.Why = l.scale, l.blocks, l.compared, len(l.ev.x), cmp.Or(l.why, noSignal)
	return s
}

func round(d time.Duration) time.Duration {
	if d > 100*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
