package rightsize

import (
	"math"
	"math/bits"
	"time"
)

const (
	perOctave = 8  // buckets between a size and twice it: a bucket is at most an eighth wide
	smallest  = 20 // 2^20, 1 MiB: all below is one bucket
	octaves   = 23 // up to 8 TiB
	buckets   = 1 + perOctave*octaves
)

// histogram holds how long a size was seen, newer time counting more: a weight halves every halfLife. It is a fixed
// array and adding to it allocates nothing; instead of old weights being shrunk at every sample, new ones grow. (The
// idea is that of the Kubernetes vertical pod autoscaler's decaying histogram.)
type histogram struct {
	weight [buckets]float32
	total  float64
	most   int64 // largest size ever
}

// bucketOf is the bucket of n bytes.
func bucketOf(n int64) int {
	if n < 1<<smallest {
		return 0
	}
	octave := bits.Len64(uint64(n)) - 1 - smallest
	if octave >= octaves {
		return buckets - 1
	}
	within := n >> (octave + smallest - 3) & (perOctave - 1)
	return 1 + octave*perOctave + int(within)
}

// edge is the smallest size of bucket i, so that edge(i+1) bounds it.
func edge(i int) int64 {
	if i == 0 {
		return 0
	}
	octave, within := (i-1)/perOctave, int64((i-1)%perOctave)
	return (perOctave + within) << (octave + smallest - 3)
}

func (h *histogram) add(n int64, weight float64) {
	h.weight[bucketOf(n)] += float32(weight)
	h.total += weight
	h.most = max(h.most, n)
}

// scale multiplies all weights.
func (h *histogram) scale(f float64) {
	h.total = 0
	for i := range h.weight {
		h.weight[i] *= float32(f)
		h.total += float64(h.weight[i])
	}
}

// percentile is the size that share of the weighted time lies at or below, 0 without any; within a bucket time is taken
// as spread evenly, and nothing is larger than what was seen.
func (h *histogram) percentile(share float64) int64 {
	var sum float64
	for _, w := range h.weight {
		sum += float64(w)
	}
	if sum <= 0 {
		return 0
	}
	want, seen := sum*share, 0.0
	for i, w := range h.weight {
		if w == 0 {
			continue
		}
		if seen+float64(w) >= want || i == buckets-1 {
			from, to := float64(edge(i)), float64(edge(i+1))
			part := math.Min(1, math.Max(0, (want-seen)/float64(w)))
			return min(int64(from+part*(to-from)), h.most)
		}
		seen += float64(w)
	}
	return h.most
}

// weightAt is the weight of a second at age of the history.
func weightAt(age time.Duration) float64 { return math.Exp2(float64(age) / float64(halfLife)) }
