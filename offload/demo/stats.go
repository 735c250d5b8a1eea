package demo

import (
	"encoding/json"
	"math"
	"slices"
)

// number is a figure that may be unknown: NaN is null in JSON, which has no NaN.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// summary is a sample's median and quartiles. N is how many values it comes from.
type summary struct {
	N      int    `json:"n"`
	Median number `json:"median"`
	Q1     number `json:"q1"`
	Q3     number `json:"q3"`
}

// iqr is the distance between the quartiles.
func (s summary) iqr() number { return s.Q3 - s.Q1 }

// summarize leaves xs as it is; of no values everything is NaN.
func summarize(xs []float64) summary {
	s := slices.Clone(xs)
	slices.Sort(s)
	return summary{len(s), number(quantile(s, 0.5)), number(quantile(s, 0.25)), number(quantile(s, 0.75))}
}

// quantile interpolates between the two nearest of the sorted values; NaN without any.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	f := at - float64(i)
	return sorted[i]*(1-f) + sorted[i+1]*f
}

// ratios divides pairwise and drops the pairs that have no ratio.
func ratios(over, under []float64) []float64 {
	var out []float64
	for i := range min(len(over), len(under)) {
		if r := over[i] / under[i]; under[i] > 0 && !math.IsInf(r, 0) && !math.IsNaN(r) {
			out = append(out, r)
		}
	}
	return out
}

// mean is NaN of nothing.
func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
