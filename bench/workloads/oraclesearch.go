package workloads

import (
	"cmp"
	"math"
	"slices"
)

// OracleBound is how much longer than the other twin's the p99 may be at a size that counts, after correction by the
// A/A.
const OracleBound = 1.10

// search halves the room between two sizes, the lower one taken to be too small and the upper one to be enough. A
// verdict that was wrong costs what is beyond it and is never revisited: that is why doubtful ones are measured for
// longer.
type search struct {
	low, high int64 // bytes
	left      int   // sizes that may still be tried
}

// newSearch looks between half and one and a half of what is asked for, of a server that holds full bytes: whoever
// chose a size beforehand would know that much. With five sizes the answer is right to 1/32 of that room.
func newSearch(full int64, asked float64, tries int) *search {
	part := asked * float64(full)
	return &search{low: wholePages(part / 2), high: min(full, wholePages(part*3/2)), left: tries}
}

func wholePages(bytes float64) int64 { return int64(bytes) &^ 4095 }

// next is the size to try, false when the tries or the room are used up.
func (s *search) next() (size int64, ok bool) {
	size = wholePages(float64(s.low+s.high) / 2)
	if s.left <= 0 || size <= s.low || size >= s.high {
		return 0, false
	}
	s.left--
	return size, true
}

// learn says whether size was enough.
func (s *search) learn(size int64, enough bool) {
	if enough {
		s.high = size
	} else {
		s.low = size
	}
}

// stairs are the limits that bring what holds from bytes down to size: 1 % at a time, because the write of a limit
// waits for what it takes, and because that is how an agent gets there. Up is one step.
func stairs(from, size int64) (out []int64) {
	for at := from; at > size; {
		at = max(size, min(at-4096, wholePages(0.99*float64(at))))
		out = append(out, at)
	}
	if len(out) == 0 {
		return []int64{size}
	}
	return out
}

// ratioVerdict is the median of p99 ratios, second by second, over what the same twin shows when both are off; whether
// that is within OracleBound; and whether chance leaves that much as it is: the bound is outside the interval in which
// the median lies with 80 % (the sign test's: order statistics n/2 ± 0.64 √n). The error of aa is not in it.
func ratioVerdict(ratios []float64, aa float64) (p99 float64, feasible, sure bool) {
	n := len(ratios)
	if n == 0 || !(aa > 0) {
		return math.NaN(), false, false
	}
	s := slices.Sorted(slices.Values(ratios))
	p99 = quantile(s, 0.5) / aa
	middle, wide := float64(n-1)/2, 0.64*math.Sqrt(float64(n))
	low, high := s[max(0, int(math.Floor(middle-wide)))]/aa, s[min(n-1, int(math.Ceil(middle+wide)))]/aa
	feasible = p99 <= OracleBound
	return p99, feasible, n >= 5 && (high <= OracleBound || low > OracleBound)
}

// CalmFaults is below how many major faults per 1,000 requests fewer than one request in a hundred can have waited for
// one, so that the server's own p99 is of requests that did not.
const CalmFaults = 10

// Best is the feasible step that saves most, which need not be the smallest size: a pool may grow faster than a server
// shrinks. nil when there is none that saves anything.
func (r *OracleResult) Best() *OracleStep { return r.most(func(OracleStep) bool { return true }) }

// Calm is the same of the steps with fewer than CalmFaults. The twins share a processor, and one that faults much makes
// both wait: their ratio hides that, and counters do not.
func (r *OracleResult) Calm() *OracleStep {
	return r.most(func(x OracleStep) bool { return x.Majors() < CalmFaults })
}

func (r *OracleResult) most(of func(OracleStep) bool) (best *OracleStep) {
	for i := range r.Steps {
		x := &r.Steps[i]
		if x.Feasible && of(*x) && x.Net() > 0 && (best == nil || x.Net() > best.Net()) {
			best = x
		}
	}
	return best
}

// Share is the law's net saving over the oracle's; NaN without an oracle's.
func (r *OracleResult) Share() float64 {
	if b := r.Best(); b != nil {
		return r.Under.Net() / b.Net()
	}
	return math.NaN()
}

// P99 is the law's p99 ratio, corrected as the oracle's are: twin b ran under the law, so the A/A counts the other way.
// sure as for a step.
func (r *OracleResult) P99() (ratio Summary, sure bool) {
	ratio = summarize(r.Under.Ratio)
	ratio.Median, ratio.Q1, ratio.Q3 = ratio.Median*r.AA.Median, ratio.Q1*r.AA.Median, ratio.Q3*r.AA.Median
	_, _, sure = ratioVerdict(r.Under.Ratio, 1/r.AA.Median)
	return ratio, sure
}

// MajorsAt is how many major faults per 1,000 requests a static size costs that saves this much, on the line between
// the two steps next to it, feasible or not; NaN outside of what was tried.
func (r *OracleResult) MajorsAt(saving float64) float64 {
	var by []OracleStep
	for _, x := range r.Steps {
		if x.Reached {
			by = append(by, x)
		}
	}
	slices.SortFunc(by, func(a, b OracleStep) int { return cmp.Compare(a.Net(), b.Net()) })
	for i := range by {
		if i == 0 {
			continue
		}
		x, y := by[i-1], by[i]
		if room := y.Net() - x.Net(); saving >= x.Net() && saving <= y.Net() {
			if room == 0 {
				return (x.Majors() + y.Majors()) / 2
			}
			return x.Majors() + (y.Majors()-x.Majors())*(saving-x.Net())/room
		}
	}
	return math.NaN()
}
