package endurance

import (
	"math"
	"time"
)

const (
	// Window is the length over which the budget is a hard bound.
	Window = 10 * time.Minute

	slotLen = 10 * time.Second
	nSlots  = int(Window/slotLen) + 1 // the current one is not over yet
	most    = int64(1) << 55          // 32 PiB: no drive writes it in ten minutes, and sums of it do not overflow
)

// bucket is the budget of one device, or of all swapping. What is spent comes back a Window later, so that no
// window holds more than limit; burst bounds beside it how far writing may run ahead of the even pace.
//
//	left = min(limit − spent in the last Window, tokens) − promised
//
// where tokens grow by rate a second up to burst. A slot is forgotten only when all of it is older than the
// Window, so the bound errs by up to slotLen on the careful side.
type bucket struct {
	rate   float64 // bytes a second
	limit  int64   // bytes a Window
	burst  int64   // bytes
	clock  time.Duration
	slots  [nSlots]int64
	spent  int64 // sum of slots
	tokens float64
	// promised is what steps may still write: in flight, ended since the last observation, ended before it. A write
	// that a step caused is in the counters two observations after its end, the second because a disk counts
	// sectors when they are done.
	promised [3]int64
}

func newBucket(rate float64, burst int64) *bucket {
	b := &bucket{}
	b.tune(rate, burst)
	return b
}

// tune changes the limits; what was spent stays spent.
func (b *bucket) tune(rate float64, burst int64) {
	gone := max(0, float64(b.burst)-b.tokens)
	b.rate, b.limit = rate, int64(min(max(rate*Window.Seconds(), 1), float64(most)))
	b.burst = burst
	if burst <= 0 || burst > b.limit {
		b.burst = b.limit
	}
	b.tokens = max(float64(b.burst)-gone, -float64(b.limit))
}

// pass lets time go by; backwards it does not go.
func (b *bucket) pass(d time.Duration) {
	if d <= 0 {
		return
	}
	d = min(d, 2*Window) // longer changes nothing more
	before := int64(b.clock / slotLen)
	b.clock += d
	for n := max(before+1, int64(b.clock/slotLen)-int64(nSlots)+1); n <= int64(b.clock/slotLen); n++ {
		s := &b.slots[n%int64(nSlots)]
		b.spent -= *s
		*s = 0
	}
	b.tokens = min(b.tokens+b.rate*d.Seconds(), float64(b.burst))
}

// charge notes bytes written until now.
func (b *bucket) charge(n int64) {
	s := &b.slots[int64(b.clock/slotLen)%int64(nSlots)]
	n = min(max(n, 0), most-*s)
	*s += n
	b.spent += n
	b.tokens = max(b.tokens-float64(n), -float64(b.limit)) // a debt is forgotten when the window forgets it
}

// settle makes one observation old: what steps promised before the previous one has been counted.
func (b *bucket) settle() { b.promised[2], b.promised[1] = b.promised[1], 0 }

func (b *bucket) free() int64 {
	return min(b.limit-b.spent, int64(b.tokens))
}

// out is what is promised and not known to be written or not.
func (b *bucket) out() int64 { return b.promised[0] + b.promised[1] + b.promised[2] }

func (b *bucket) left() int64 {
	return max(0, b.free()-b.out())
}

// price is the share of the bucket that is gone. Promises are no part of it: most of them come to nothing where a
// compressed pool takes the pages.
func (b *bucket) price() float64 {
	share := min(float64(b.limit-b.spent)/float64(b.limit), b.tokens/float64(b.burst))
	return math.Min(1, math.Max(0, 1-share))
}
