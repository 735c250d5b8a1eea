package slo

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// buckets is a classic histogram's series at one moment: how many requests took at most each bound. The last bound is
// +Inf.
type buckets struct {
	bounds []float64
	counts []float64 // cumulative, ascending
}

// check refuses what is no histogram.
func (b buckets) check() error {
	n := len(b.bounds)
	if n < 2 || !math.IsInf(b.bounds[n-1], 1) {
		return fmt.Errorf("a histogram needs a bucket below +Inf")
	}
	for i, le := range b.bounds {
		c := b.counts[i]
		if math.IsNaN(le) || i > 0 && le <= b.bounds[i-1] {
			return fmt.Errorf("bucket bounds do not ascend at %v", le)
		}
		if !(c >= 0 && c <= 1<<53) {
			return fmt.Errorf("the bucket up to %v has a count that is none", le)
		}
		if i > 0 && c < b.counts[i-1] {
			return fmt.Errorf("bucket counts do not ascend at %v", le)
		}
	}
	return nil
}

// total is the number of requests.
func (b buckets) total() float64 { return b.counts[len(b.counts)-1] }

// since returns what was added after before. ok is false when a counter went back: the service began anew.
func (b buckets) since(before buckets) (d buckets, ok bool) {
	if !slices.Equal(b.bounds, before.bounds) {
		return d, false
	}
	d = buckets{bounds: b.bounds, counts: make([]float64, len(b.counts))}
	high := 0.0
	for i, c := range b.counts {
		if c < before.counts[i] {
			return d, false
		}
		// A scrape is not a snapshot: a request between two lines makes the differences step back by one.
		high = max(high, c-before.counts[i])
		d.counts[i] = high
	}
	return d, true
}

// plus adds another series with the same bounds.
func (b buckets) plus(c buckets) (buckets, error) {
	if b.bounds == nil {
		return c, nil
	}
	if !slices.Equal(b.bounds, c.bounds) {
		return b, fmt.Errorf("series with different buckets cannot be added; narrow the labels")
	}
	sum := buckets{b.bounds, make([]float64, len(b.counts))}
	for i := range sum.counts {
		sum.counts[i] = b.counts[i] + c.counts[i]
	}
	return sum, nil
}

// quantile is where the share q of the requests lies, interpolated within its bucket as Prometheus' own
// histogram_quantile does. past is true when it lies beyond the last finite bound, which is then returned.
func (b buckets) quantile(q float64) (value float64, past bool) {
	rank := q * b.total()
	i := 0
	for i < len(b.counts)-1 && b.counts[i] < rank {
		i++
	}
	if i == len(b.bounds)-1 {
		return b.bounds[i-1], true
	}
	low, below := 0.0, 0.0
	if i > 0 {
		low, below = b.bounds[i-1], b.counts[i-1]
	} else if b.bounds[0] <= 0 {
		return b.bounds[0], false
	}
	in := b.counts[i] - below
	if in <= 0 {
		return b.bounds[i], false
	}
	return min(low+(b.bounds[i]-low)*(rank-below)/in, b.bounds[i]), false // rounding may go past the bound
}

// reading turns what was added in a window into figures.
func (b buckets) reading(unit time.Duration) Reading {
	n := b.total()
	r := Reading{Count: uint64(n)}
	switch {
	case n == 0:
		r.State, r.Why = Empty, "no request in this window"
		return r
	case n < MinSamples:
		r.State, r.Why = Few, fmt.Sprintf("%.0f requests in this window, a p99 needs %d", n, MinSamples)
		return r
	}
	p50, _ := b.quantile(0.5)
	p99, past := b.quantile(0.99)
	r.P50, r.P99, r.AtLeast = scaled(p50, unit), scaled(p99, unit), past
	if r.P99 <= 0 {
		return Reading{State: Failed, Why: "the p99 lies in a bucket at or below zero", Count: r.Count}
	}
	r.State = Good
	if past {
		r.State, r.Why = Slow, fmt.Sprintf("the p99 lies past the last bucket, %v", r.P99)
	}
	return r
}

// scaled is v units, at most a day.
func scaled(v float64, unit time.Duration) time.Duration {
	return time.Duration(min(max(v*float64(unit), 0), float64(24*time.Hour)))
}
