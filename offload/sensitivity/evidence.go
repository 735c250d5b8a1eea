package sensitivity

import (
	"math"
	"slices"
)

// evidence tests what the log of p99 acting ÷ p99 holding is, from one number a pair.
//
// Which block of a pair acts was decided by a fair coin, so each number is distributed symmetrically around the true
// effect, whatever load and noise do. A gambler who bets a share λ of his fortune on "the next one lies below d",
// paid in proportion to how far below, clipped, therefore cannot expect to win while the effect is at least d; by
// Ville's inequality he ever multiplies his fortune by 1/α with probability at most α. So the d at which he has
// is an upper bound of level 1-α that holds at every look, not only at a planned one. Clipping makes it hold for
// tails of any weight. (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B
// 86(1), 2024; symmetric tests by betting: Ramdas and others, "Game-theoretic statistics and safe anytime-valid
// inference", Statistical Science 38(4), 2023.)
type evidence struct {
	x     []float64 // log ratio of each pair
	scale []float64 // where the bet on it is clipped, fixed before it was seen
}

// stakes are the λ the gambler splits his fortune on: small ones win slowly on weak evidence, large ones fast on
// strong.
var stakes = [...]float64{0.4, 0.8}

const (
	// certain is the fortune that allows a step up: wrong in at most 1 of 40 for each multiplier visited, and half as
	// often, a third as often … each time its evidence had to be begun afresh. It makes the bounds 95 % ones.
	certain = 40.0
	// suspicion is the fortune that makes it go down: four pairs that all say so. A step down by mistake costs saving
	// for a while, and for good where the signal is too noisy ever to go up again; one too late costs the service.
	suspicion = 7.0
	// firstScale clips the first bets; leastScale keeps a quiet signal from dividing by nothing. Both are log ratios.
	firstScale = 0.05
	leastScale = 0.005
	// unlikely bounds a log ratio: one block 20 times as slow as its neighbour says no more than that.
	unlikely = 3.0
)

func (e *evidence) reset() { e.x, e.scale = e.x[:0], e.scale[:0] }

func (e *evidence) add(x float64) {
	c := firstScale
	if len(e.x) >= 4 {
		c = e.clip()
	}
	e.x = append(e.x, max(-unlikely, min(x, unlikely)))
	e.scale = append(e.scale, max(c, leastScale))
}

// scatter is the deviation of what was seen: 1.4826 × the median absolute deviation estimates a Gaussian's (Hampel
// 1974).
func (e *evidence) scatter() float64 {
	m := median(e.x)
	dev := make([]float64, len(e.x))
	for i, v := range e.x {
		dev[i] = math.Abs(v - m)
	}
	return 1.4826 * median(dev)
}

// clip is where the next bet is clipped: one deviation wins sooner than more, and holds for heavier tails.
func (e *evidence) clip() float64 { return max(e.scatter(), leastScale) }

// needs is about how many pairs it would take to show that the effect lies below d, had it none and did it scatter as
// what was seen: at the mean growth of a fortune's logarithm per bet. ok is false while too little was seen to say.
func (e *evidence) needs(d float64) (pairs float64, ok bool) {
	if len(e.x) < 4 {
		return 0, false
	}
	m, c, growth := median(e.x), e.clip(), 0.0
	for _, l := range stakes {
		g := 0.0
		for _, x := range e.x {
			g += math.Log1p(l * max(-1, min((d-x+m)/c, 1)))
		}
		growth = max(growth, g/float64(len(e.x)))
	}
	return math.Log(float64(len(stakes))*certain) / growth, true // +Inf: never
}

// fortune of who bet that the effect is below d (side 1) or above it (side -1), having begun with 1.
func (e *evidence) fortune(d, side float64) float64 {
	sum := 0.0
	for _, l := range stakes {
		f := 1.0
		for i, x := range e.x {
			f *= 1 + l*max(-1, min(side*(d-x)/e.scale[i], 1))
		}
		sum += f
	}
	return sum / float64(len(stakes))
}

// bounds returns the largest and smallest effect that the bets have not ruled out; infinite where they ruled out
// nothing.
func (e *evidence) bounds() (low, high float64) {
	return -e.bound(-1), e.bound(1)
}

// bound is the smallest effect, on one side's own axis, at which that side has won: the fortune grows with it.
func (e *evidence) bound(side float64) float64 {
	lo, hi := -2*unlikely, 2*unlikely
	if e.fortune(side*hi, side) < certain {
		return math.Inf(1)
	}
	for range 40 {
		mid := (lo + hi) / 2
		if e.fortune(side*mid, side) >= certain {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// median of v, 0 when it is empty.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
