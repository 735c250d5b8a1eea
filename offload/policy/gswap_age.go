package policy

import (
	"math"
	"time"
)

// Ages is the number of cold ages that the laws and gswap's replay tell apart.
const Ages = 17

// coldAges grow by the square root of two from 120 s, below which a page counts as in use, to 512 min: the range of
// the published 8-bit age, which counts scans of 120 s, in an eighth of the thresholds.
var coldAges = [Ages]time.Duration{
	120 * time.Second, 170 * time.Second, 240 * time.Second, 339 * time.Second, 480 * time.Second, 679 * time.Second,
	960 * time.Second, 1358 * time.Second, 1920 * time.Second, 2715 * time.Second, 3840 * time.Second, 5431 * time.Second,
	7680 * time.Second, 10861 * time.Second, 15360 * time.Second, 21722 * time.Second, 30720 * time.Second,
}

// Age is threshold i, ascending; i is in [0, Ages).
func Age(i int) time.Duration { return coldAges[i] }

// BestAge is the smallest threshold that would have kept one minute's promotions within most: promoted[i] is what
// was touched in that minute, in bytes, after it had been idle for Age(i) or longer. Ages: no threshold would have.
func BestAge(promoted *[Ages]float64, most float64) int {
	for i, b := range promoted {
		if b <= most {
			return i
		}
	}
	return Ages
}

// Threshold chooses the age from which memory is taken in the next minute (Lagar-Cavilla et al., ASPLOS 2019,
// section 4.3): the K-th percentile of the best ages of past minutes, or the last minute's if that is larger, so
// that a burst is answered at once and a calm minute is not believed too soon. The zero value has seen nothing.
type Threshold struct {
	past [Ages + 1]uint32 // minutes by their best age
	n    uint32
	last int
}

// Observe adds one minute's best age, in [0, Ages].
func (t *Threshold) Observe(best int) {
	t.last = best
	if t.n < math.MaxUint32 { // reached after 8,000 years
		t.past[best]++
		t.n++
	}
}

// Next is the age for the coming minute at percentile k, in (0,100]; Ages: take nothing.
func (t *Threshold) Next(k float64) int {
	if t.n == 0 {
		return Ages
	}
	return max(t.percentile(k), t.last)
}

// percentile is the smallest age that was enough for at least k of 100 past minutes.
func (t *Threshold) percentile(k float64) int {
	larger := t.n - min(t.n, uint32(math.Ceil(k*float64(t.n)/100))) // minutes that may have had a larger best age
	i := Ages
	for sum := t.past[i]; sum <= larger && i > 0; sum += t.past[i] {
		i--
	}
	return i
}

// perMinute estimates a sum over the last minute from periods of any length: what the running minute has, and of
// the one before it the share that the last 60 s still cover.
type perMinute struct {
	elapsed     time.Duration // of the running minute
	now, before float64
}

func (m *perMinute) add(period time.Duration, x float64) {
	if period >= time.Minute {
		*m = perMinute{before: x * float64(time.Minute) / float64(period)}
		return
	}
	if m.elapsed+period > time.Minute {
		*m = perMinute{before: m.now * float64(time.Minute) / float64(m.elapsed)}
	}
	m.now += x
	m.elapsed += period
}

func (m *perMinute) sum() float64 {
	return m.now + m.before*(1-float64(m.elapsed)/float64(time.Minute))
}
