package policy

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-io/spillway/offload/heat"
)

// TestThreshold compares the counting percentile with the plain one: sort, take rank ⌈K·n/100⌉, and the last if larger.
func TestThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.OneOf(rapid.Float64Range(0.1, 100), rapid.SampledFrom([]float64{50, 90, 98, 99, 100})).Draw(t, "k")
		var th Threshold
		if got := th.Next(k); got != Ages {
			t.Fatalf("before any minute the age is %d, want none", got)
		}
		var seen []int
		for _, best := range rapid.SliceOfN(rapid.IntRange(0, Ages), 1, 200).Draw(t, "bests") {
			th.Observe(best)
			seen = append(seen, best)
			sorted := slices.Sorted(slices.Values(seen))
			want := max(best, sorted[int(math.Ceil(k*float64(len(seen))/100))-1])
			if got := th.Next(k); got != want {
				t.Fatalf("K %v of %v is %d, want %d", k, seen, got, want)
			}
		}
	})
}

// TestPerMinute: exact where periods divide a minute evenly, for any steady rate, and never negative.
func TestPerMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.Int64Range(1, int64(5*time.Minute)).Draw(t, "period"))
		rate := rapid.Float64Range(0, 1e6).Draw(t, "a minute")
		var m perMinute
		for range 200 {
			m.add(period, rate*float64(period)/float64(time.Minute))
		}
		if period*200 >= 2*time.Minute && math.Abs(m.sum()-rate) > 1e-6*rate {
			t.Fatalf("period %v: %v a minute, want %v", period, m.sum(), rate)
		}
		for _, x := range rapid.SliceOf(rapid.Float64Range(0, 1e18)).Draw(t, "uneven") {
			m.add(time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "period")), x)
			if !(m.sum() >= 0) || math.IsInf(m.sum(), 0) {
				t.Fatalf("sum %v", m.sum())
			}
		}
	})
}

// TestOthersIgnoreGSwap: what is only for gswap changes no decision of the other laws; composite uses two of its three
// where access is tracked.
func TestOthersIgnoreGSwap(t *testing.T) {
	for _, name := range []string{Composite, TMO} {
		rapid.Check(t, func(t *rapid.T) {
			p := anyParams(t)
			q := p
			q.Warmup = 0
			if name == TMO {
				q.Promotion, q.Percentile = 0, 0
			}
			a, errA := New(name, p)
			b, errB := New(name, q)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			for _, s := range rapid.SliceOfN(rapid.Custom(anySample), 1, 20).Draw(t, "samples") {
				if x, y := a.Decide(s), b.Decide(s); x.Step != y.Step || x.Detail != y.Detail {
					t.Fatalf("%s: %+v and %+v", name, x, y)
				}
			}
		})
	}
}

// TestGSwapSettles runs the law against a store with a known promotion curve: bytes touched after being idle for an
// age fall with the age, and the law must rest at the smallest age that the target allows, within its first hour.
func TestGSwapSettles(t *testing.T) {
	l := mustNew(t, GSwap, Params{})
	const size, ws = int64(4 << 30), int64(3 << 30)
	curve := func(total float64) heat.Histogram { // halves with each age
		var h heat.Histogram
		for i := range Ages {
			share := math.Pow(0.5, float64(i+1))
			h = append(h, heat.Age{Idle: Age(i), Bytes: int64(total * share)})
		}
		return h
	}
	// The target is 6.4 MB a minute. 100 MB are promoted; from age 4 on 100/16 = 6.2 MB.
	const want = 4
	h := heat.Reading{Scan: 2 * time.Minute, WorkingSet: ws, Cold: curve(1 << 30), Promo: curve(100e6), Source: "test"}
	usage := size
	for i := range 600 {
		if i%20 == 0 {
			h.At = time.Unix(int64(i)*6, 0)
		}
		r := h
		d := l.Decide(Sample{Period: 6 * time.Second, Usage: usage, Age: time.Duration(i) * 6 * time.Second, Heat: &r})
		usage -= d.Step
		if i > 100 && d.Reason != ColdAge {
			t.Fatalf("period %d: %+v", i, d)
		}
	}
	if got := l.(*gswap).ages.past.Next(98); got != want {
		t.Errorf("rests at age %v, want %v", Age(got), Age(want))
	}
}
