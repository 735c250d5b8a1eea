// Package sensitivity learns how much one workload's p99 suffers from offloading, and from that how far the
// refault cost target of its law may be stretched. It is pure: periods in, advice out; no clock, no file.
//
// Method: a randomised experiment. Time is cut into blocks of periods, blocks are taken in pairs, and a seeded coin
// says which block of a pair holds (the law takes nothing) and which acts. Because the coin knows nothing of the
// load, whatever else moves the p99 falls on both sides alike, and the difference within pairs is caused by
// offloading. Two things are drawn from the pairs:
//
//   - the inflation, p99 acting ÷ p99 holding, with bounds that hold however often they are looked at (see evidence).
//     It alone moves the multiplier: up one notch when even the upper bound, stretched to the next notch, leaves the
//     SLO with a margin; down two notches on far weaker evidence, and on two periods of three above the SLO.
//   - the slope, µs of p99 per MiB saved and per share of time spent on refaults, with a 95 % interval (see slope).
//     It is for people: it says what the saving costs.
//
// Invariants: the multiplier lies in [Least, Most] and starts at 1; without a signal it is at most 1 and nothing
// is held. Advice can only make a law take less now, or stretch one target; no brake reads it.
// Ownership: a Learner belongs to one cgroup and one goroutine.
// Failure: none. A period that makes no sense counts as one without a signal.
// Non-goals: reading the signal (offload/slo), deciding steps (offload/policy), telling which request was slow.
package sensitivity

import "time"

// Range and notch of the multiplier.
const (
	Least = 0.25
	Most  = 4.0
	notch = 1.4142135623730951 // √2: eight notches from Least to Most, four from 1 to either end
)

// SLO is what the workload promises.
type SLO struct {
	P99       time.Duration // above it nothing is taken; 0: no absolute bound
	Inflation float64       // p99 with offloading ÷ without, > 1; 0 means 1.1
	// Blind says that the signal asks for nothing that offloading could take away: it can warn, never reassure, so the
	// multiplier never exceeds 1.
	Blind bool
}

// DefaultInflation is what offload/demo's own goal allows, and with it every figure in docs/bench/offload.md.
const DefaultInflation = 1.1

// Period is what the workload did in the period that just ended.
type Period struct {
	Known   bool          // the p99 below was measured in this period
	AtLeast bool          // the true p99 is above P99 by an unknown amount: past the last bucket, or timed out
	P99     time.Duration // > 0 when Known

	Saved     int64   // bytes saved, net, at its end
	Refaults  float64 // share of the period spent on refaults, in [0,∞)
	Taken     int64   // bytes the law took in it
	Disturbed bool    // something stopped all steps (host brake, canary): neither acting nor holding
}

// Advice is for the coming period.
type Advice struct {
	Scale float64 // for the refault cost target, in [Least, Most]
	Hold  bool    // take nothing in this period
	Why   string  // one sentence for people
}

// Interval is an estimate with its 95 % confidence interval. A bound that the data do not give is infinite.
type Interval struct {
	Est, Low, High float64
	Known          bool // false: too few pairs, or they say nothing
}

// Stats is what a Learner knows.
type Stats struct {
	Scale     float64
	Blocks    int      // finished, of either kind
	Pairs     int      // compared since the start
	AtNotch   int      // compared at the current multiplier
	PerMiB    Interval // µs of p99 per MiB saved, from the newest window of pairs
	PerShare  Interval // µs of p99 per 0.1 % of the time spent on refaults
	Inflation Interval // p99 acting ÷ p99 holding, at the current multiplier
	Why       string   // what it is doing, one sentence
}

const (
	// block is the length of a block, periods: a minute at 6 s.
	block = 6
	// washout is how many periods at a block's beginning are not counted: refaults of the last step need a period or
	// two to end, and the signal's window may begin up to one period before the block.
	washout = 2
	// enough counted periods make a block's p99; with fewer the pair is thrown away.
	enough = 3
	// window is how many of the newest pairs the slopes are drawn from.
	window = 32
	// spent is how many pairs a multiplier's evidence collects before it starts afresh: a workload changes.
	spent = 120
	// patience is how many pairs without a verdict are compared back to back; after that, and at Most, restEvery blocks
	// that just act lie between two pairs, so that holding costs about a tenth of the time.
	patience  = 60
	restEvery = 8
	// lostAfter periods without a signal the learner falls back to the targets of the class.
	lostAfter = 10
	// cool is how many periods nothing is taken after one above the SLO.
	cool = 5
	// margin is the share of the SLO's room that the upper bound may use: of the inflation, and of the p99.
	marginInflation = 0.8
	marginP99       = 0.9
	// noRefaults is the share of time below which refaults cannot explain anything: a twentieth of the smallest
	// default target, where policy's composite law calls a size harmless.
	noRefaults = 1e-4
	// weakest is the part of the refaults that holding must make go away. When less does, acting and holding look
	// alike, and the comparison says little about what offloading does.
	weakest = 0.25
)
