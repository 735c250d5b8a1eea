package laws

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// kernelAverage is calc_load of the kernel (include/linux/sched/loadavg.h) as psi.c calls it every 2 s: in percent,
// with 11 bits after the point, rounded up while rising.
func kernelAverage(avg, decay uint64, stall time.Duration) uint64 {
	const one = 1 << 11
	pct := uint64(stall*100/psiEvery) * one
	// psi.c: pct = time × 100 / period, × FIXED_1; the division comes first there too, so shares below 1 % are lost in
	// a single update and only larger ones tested here.
	next := avg*decay + pct*(one-decay)
	if pct >= avg {
		next += one - 1
	}
	return next / one
}

// TestAverageFollowsKernel compares with the kernel's arithmetic over an hour of updates.
func TestAverageFollowsKernel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, decay := range []uint64{1677, 1981} {
		a := average{decay: float64(decay) / 2048}
		var want uint64
		for i := range 1800 {
			stall := time.Duration(0)
			if i/50%2 == 0 {
				stall = time.Duration(rng.IntN(101)) * psiEvery / 100
			}
			a.add(psiEvery, stall)
			want = kernelAverage(want, decay, stall)
			if diff := math.Abs(100*a.value - float64(want)/2048); diff > 0.04 { // the rounding, summed with the decay
				t.Fatalf("update %d: %.4f %%, the kernel has %.4f %%", i, 100*a.value, float64(want)/2048)
			}
		}
	}
}

// TestAverageOfUnevenSamples: the same stall in samples of other lengths gives the same average.
func TestAverageOfUnevenSamples(t *testing.T) {
	const share, total = 0.02, 5 * time.Minute
	for _, period := range []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second, 6 * time.Second, 5 * time.Minute} {
		a := average{decay: decay60}
		for range int(total / period) {
			a.add(period, time.Duration(share*float64(period)))
		}
		want := share * (1 - math.Pow(decay60, float64(total/psiEvery)))
		if math.Abs(a.value-want) > 1e-9 {
			t.Errorf("samples of %v: %.6f, want %.6f", period, a.value, want)
		}
	}
}

// TestAverageForgets: a stall is down to about a third after the average's own length.
func TestAverageForgets(t *testing.T) {
	for decay, length := range map[float64]time.Duration{decay10: 10 * time.Second, decay60: time.Minute} {
		a := average{decay: decay, value: 0.5}
		a.add(length, 0)
		if got := a.value / 0.5; math.Abs(got-1/math.E) > 0.01 {
			t.Errorf("after %v %.3f is left, want 0.368", length, got)
		}
	}
}
