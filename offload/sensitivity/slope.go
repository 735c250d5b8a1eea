package sensitivity

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// contrast is one pair of blocks: acting minus holding.
type contrast struct {
	p99  float64 // µs
	dose float64 // of what the p99 may depend on
}

// slope estimates how much p99 one unit of the dose costs.
//
// The coin of each pair is an instrument: it moves the dose and reaches the p99 only through it. For the true slope
// b the residuals p99 − b × dose have fair signs, so a signed-rank test of their symmetry accepts the true b with
// its nominal probability, whatever the noise and however little the coin moved the dose; the interval is the hull of
// all b it accepts, and the estimate where the test is balanced. (Imbens and Rosenbaum, "Robust, accurate confidence
// intervals with a weak instrument", JRSS A 168(1), 2005; the signed-rank test and its estimate: Hodges and
// Lehmann, Annals of Mathematical Statistics 34(2), 1963.) Where the coin hardly moved the dose, a bound is infinite.
//
// The statistic changes only where a residual is zero or two are of the same size, so it is computed once between
// any two such slopes, about n² of them; where every dose is positive the statistic only falls, and a dozen are enough.
func slope(cs []contrast) Interval {
	n := len(cs)
	critical, ok := criticalRank(n)
	if !ok {
		return Interval{}
	}
	at := turns(cs)
	if len(at) == 0 { // the dose never differed
		return Interval{}
	}
	r := ranker{cs: cs, at: at, order: make([]int, n), size: make([]float64, n), up: make([]bool, n)}
	var out Interval
	if slices.ContainsFunc(cs, func(c contrast) bool { return c.dose < 0 }) {
		out = r.scan(critical)
	} else {
		out = r.bisect(critical)
	}
	// Nothing accepted: the p99 depends on something else that the coin moved. Everything accepted: the dose hardly
	// moved.
	out.Known = out.Low <= out.High && !(math.IsInf(out.Low, -1) && math.IsInf(out.High, 1))
	if !out.Known {
		return Interval{}
	}
	return out
}

// scan tries every slope. It is for doses of either sign, which make the statistic go up and down.
func (r *ranker) scan(critical float64) Interval {
	out := Interval{Low: math.Inf(1), High: math.Inf(-1)}
	best := math.Inf(1)
	for i := range len(r.at) + 1 {
		w := math.Abs(r.statistic(i))
		if w > critical {
			continue
		}
		low, high := r.segment(i)
		out.Low, out.High = min(out.Low, low), max(out.High, high)
		if w < best {
			best, out.Est = w, between(low, high)
		}
	}
	return out
}

// bisect does the same where the statistic can only fall as the slope grows.
func (r *ranker) bisect(critical float64) Interval {
	first := func(most float64) int {
		return sort.Search(len(r.at), func(i int) bool { return r.statistic(i) <= most })
	}
	low, _ := r.segment(first(critical))
	_, high := r.segment(max(first(math.Nextafter(-critical, math.Inf(-1)))-1, 0))
	est := first(0)
	b := between(r.segment(est))
	if est > 0 && r.statistic(est) < 0 { // it jumps over zero at the turn before
		b = r.at[est-1]
	}
	return Interval{Est: max(low, min(b, high)), Low: low, High: high}
}

// segment i lies between two neighbouring turns, or beyond the last one.
func (r *ranker) segment(i int) (low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	if i > 0 {
		low = r.at[i-1]
	}
	if i < len(r.at) {
		high = r.at[i]
	}
	return low, high
}

// between is a slope inside an interval, of which at most one end is infinite.
func between(low, high float64) float64 {
	switch {
	case math.IsInf(low, 0):
		return high - 1 - math.Abs(high)
	case math.IsInf(high, 0):
		return low + 1 + math.Abs(low)
	}
	return low + (high-low)/2
}

// turns lists the finite slopes at which a residual changes its sign or two change their order, ascending.
func turns(cs []contrast) []float64 {
	var at []float64
	add := func(p99, dose float64) {
		if b := p99 / dose; dose != 0 && !math.IsInf(b, 0) && !math.IsNaN(b) {
			at = append(at, b)
		}
	}
	for i, c := range cs {
		add(c.p99, c.dose)
		for _, d := range cs[:i] {
			add(c.p99-d.p99, c.dose-d.dose)
			add(c.p99+d.p99, c.dose+d.dose)
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}

// ranker computes one statistic after the other.
type ranker struct {
	cs    []contrast
	at    []float64 // turns
	order []int
	size  []float64
	up    []bool
}

// statistic is the signed-rank sum of the residuals at the slopes of segment i.
func (r *ranker) statistic(segment int) float64 {
	b := between(r.segment(segment))
	for i, c := range r.cs {
		e := c.p99 - b*c.dose
		r.order[i], r.size[i], r.up[i] = i, math.Abs(e), e > 0
	}
	slices.SortFunc(r.order, func(i, j int) int { return cmp.Compare(r.size[i], r.size[j]) })
	sum := 0.0
	for rank, i := range r.order {
		switch {
		case r.size[i] == 0: // no sign
		case r.up[i]:
			sum += float64(rank + 1)
		default:
			sum -= float64(rank + 1)
		}
	}
	return sum
}

// criticalRank is the largest signed-rank sum, in size, that a two-sided test of level 5 % accepts for n pairs; ok
// is false when none is ever rejected, below 6 pairs. It counts the signs of 1…n exactly.
func criticalRank(n int) (float64, bool) {
	if n < 6 || n > 128 {
		return 0, false
	}
	total := n * (n + 1) / 2
	ways := make([]float64, total+1) // of choosing ranks with this sum, as a share of all
	ways[0] = 1
	for k := 1; k <= n; k++ {
		for s := total; s >= 0; s-- {
			ways[s] /= 2
			if s >= k {
				ways[s] += ways[s-k] / 2
			}
		}
	}
	tail := 0.0
	for positive := range total + 1 { // the sum of the positive ranks, the lower tail
		tail += ways[positive]
		if tail > 0.025 {
			return float64(total - 2*positive), true
		}
	}
	return 0, false
}
