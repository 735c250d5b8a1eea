package sim

import (
	"math"
	"time"
)

// Latency is a log-normal distribution, given by the two figures that are usually known of a device or a service.
type Latency struct {
	P50, P99 time.Duration // P99 ≥ P50; zero: always P50
}

const (
	quantiles = 1 << 10 // of a tabulated distribution
	z99       = 2.3263  // the normal distribution's 99th percentile, in standard deviations
)

// table holds a distribution as equally likely values, ascending, so that a draw is one look-up.
type table [quantiles]time.Duration

func (l Latency) table() *table {
	t := new(table)
	sigma := 0.0
	if l.P99 > l.P50 && l.P50 > 0 {
		sigma = math.Log(float64(l.P99)/float64(l.P50)) / z99
	}
	for i := range t {
		q := (float64(i) + 0.5) / quantiles
		t[i] = time.Duration(float64(l.P50) * math.Exp(sigma*math.Sqrt2*math.Erfinv(2*q-1)))
	}
	return t
}

func (t *table) draw(random uint64) time.Duration { return t[random%quantiles] }

// histogram counts durations in buckets 2 % wide, from 1 ns to about 5 minutes.
type histogram struct {
	n   [bucketsPerOctave * 38]float64
	sum float64 // ns
}

const bucketsPerOctave = 32

func (h *histogram) add(d time.Duration, weight float64) {
	i := int(bucketsPerOctave * math.Log2(float64(max(d, 1))))
	h.n[min(i, len(h.n)-1)] += weight
	h.sum += float64(d) * weight
}

// addTable adds weight requests of the distribution t.
func (h *histogram) addTable(t *table, weight float64) {
	for _, d := range t {
		h.add(d, weight/quantiles)
	}
}

func (h *histogram) total() (n float64) {
	for _, v := range h.n {
		n += v
	}
	return n
}

func (h *histogram) mean() time.Duration {
	n := h.total()
	if n == 0 {
		return 0
	}
	return time.Duration(h.sum / n)
}

// quantile is accurate to a bucket; within one it interpolates, so that two nearly equal histograms give nearly
// equal answers.
func (h *histogram) quantile(q float64) time.Duration {
	left := q * h.total()
	for i, v := range h.n {
		if v > 0 && left <= v {
			return time.Duration(math.Exp2((float64(i) + left/v) / bucketsPerOctave))
		}
		left -= v
	}
	return 0
}
