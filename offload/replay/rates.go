package replay

import "math"

// rates is a histogram of shares with 16 buckets to the octave, from 2^-32 to 2^16: the upper bits of a float.
type rates struct {
	zero    uint64
	buckets [(top - bottom) << subBits]uint64
	n       uint64
}

const (
	bottom, top = 1023 - 32, 1023 + 16 // exponents
	subBits     = 4
	dropped     = 52 - subBits // bits of the mantissa
)

func (r *rates) add(x float64) {
	r.n++
	i := int(math.Float64bits(x)>>dropped) - bottom<<subBits
	if i < 0 { // zero, or as good as
		r.zero++
		return
	}
	r.buckets[min(i, len(r.buckets)-1)]++
}

// quantile is the middle of the bucket in which share q of all values is reached; 0 without any.
func (r *rates) quantile(q float64) float64 {
	rank := uint64(math.Ceil(q * float64(r.n)))
	sum := r.zero
	for i := 0; sum < rank && i < len(r.buckets); i++ {
		if sum += r.buckets[i]; sum >= rank {
			low := uint64(i+bottom<<subBits) << dropped
			return math.Float64frombits(low | 1<<(dropped-1))
		}
	}
	return 0
}
