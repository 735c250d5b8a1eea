package tier

import "math/bits"

// split divides swap bytes over tiers so that the parts add up exactly.
func split(tiers []Tier, swap, zswapped int64, known bool) map[string]int64 {
	out := map[string]int64{}
	if swap <= 0 {
		return out
	}
	rest := swap
	weights := make([]int64, len(tiers))
	for i, t := range tiers {
		switch {
		case t.Kind != KindZswap:
			weights[i] = max(0, t.slots)
		case known:
			if z := min(max(0, zswapped), swap); z > 0 {
				out[t.Name] += z
				rest -= z
			}
		default:
			weights[i] = max(0, t.Stored)
		}
	}
	for i, part := range share(rest, weights) {
		if part > 0 {
			out[tiers[i].Name] += part
			rest -= part
		}
	}
	if rest > 0 { // no tier holds anything yet by the host's counters, which lag behind the cgroup's
		if t, ok := primaryFor(tiers, known); ok {
			out[t.Name] += rest
		}
	}
	return out
}

// primaryFor is the tier that bytes without a known place are put to. When zswap's part is known it is already
// accounted for, and the remainder can only be in an area.
func primaryFor(tiers []Tier, zswapKnown bool) (Tier, bool) {
	if zswapKnown {
		for _, t := range tiers {
			if t.Kind != KindZswap && t.State == Active {
				return t, true
			}
		}
		return Tier{}, false
	}
	return primary(tiers)
}

// share divides n in proportion to weights, rounding down and giving what is left to the largest weight.
// With no weight at all every part is zero.
func share(n int64, weights []int64) []int64 {
	parts := make([]int64, len(weights))
	var sum int64
	largest := -1
	for i, w := range weights {
		sum += w
		if w > 0 && (largest < 0 || w > weights[largest]) {
			largest = i
		}
	}
	if largest < 0 || n <= 0 {
		return parts
	}
	left := n
	for i, w := range weights {
		parts[i] = mulDiv(n, w, sum)
		left -= parts[i]
	}
	parts[largest] += left
	return parts
}

// mulDiv is a*b/c without overflow, for 0 ≤ b ≤ c and c > 0.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}
