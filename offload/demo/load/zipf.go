package load

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Zipf draws ranks in [0,n) with probability proportional to 1/(rank+1)^theta, for any theta ≥ 0; the
// standard library's needs theta > 1, and the customary 0.99 is below. It uses Walker's alias table: two
// array reads a draw, 12 bytes a rank. Safe for concurrent use once made.
type Zipf struct {
	prob  []float64
	alias []int32
}

// NewZipf makes a table for n ranks, 1 ≤ n ≤ 1<<26, and theta in [0,4].
func NewZipf(n int, theta float64) (*Zipf, error) {
	if n < 1 || n > 1<<26 {
		return nil, fmt.Errorf("load: zipf: %d ranks outside [1,%d]", n, 1<<26)
	}
	if !(theta >= 0 && theta <= 4) {
		return nil, fmt.Errorf("load: zipf: exponent %v outside [0,4]", theta)
	}
	z := &Zipf{prob: make([]float64, n), alias: make([]int32, n)}
	sum := 0.0
	for i := range z.prob {
		z.prob[i] = math.Pow(float64(i+1), -theta)
		sum += z.prob[i]
	}
	small, large := make([]int32, 0, n), make([]int32, 0, n)
	for i := range z.prob {
		z.prob[i] *= float64(n) / sum
		if z.prob[i] < 1 {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		z.alias[s] = l
		z.prob[l] -= 1 - z.prob[s]
		if z.prob[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	// What is left is 1 but for rounding.
	for _, i := range append(small, large...) {
		z.prob[i], z.alias[i] = 1, i
	}
	return z, nil
}

// Rank draws one rank.
func (z *Zipf) Rank(rng *rand.Rand) int {
	i := rng.IntN(len(z.prob))
	if rng.Float64() < z.prob[i] {
		return i
	}
	return int(z.alias[i])
}

// Keys draws key numbers: the first Cold of Total keys are never drawn, the others by Zipf's law, with the
// ranks scattered over them so that popular keys do not share pages by construction. Not safe for concurrent use.
type Keys struct {
	cold int
	zipf *Zipf
	perm []int32
	rng  *rand.Rand
}

// NewKeys returns a source that depends on its arguments alone: two with the same arguments draw the same keys.
func NewKeys(total, cold int, theta float64, seed uint64) (*Keys, error) {
	if cold < 0 || cold >= total {
		return nil, fmt.Errorf("load: keys: %d cold of %d", cold, total)
	}
	z, err := NewZipf(total-cold, theta)
	if err != nil {
		return nil, err
	}
	k := &Keys{cold: cold, zipf: z, rng: rand.New(rand.NewPCG(seed, 0x7a1f)), perm: make([]int32, total-cold)}
	for i := range k.perm {
		k.perm[i] = int32(i)
	}
	rand.New(rand.NewPCG(seed, 0xcafe)).Shuffle(len(k.perm), func(i, j int) { k.perm[i], k.perm[j] = k.perm[j], k.perm[i] })
	return k, nil
}

// Next draws one key number in [cold,total).
func (k *Keys) Next() int { return k.cold + int(k.perm[k.zipf.Rank(k.rng)]) }
