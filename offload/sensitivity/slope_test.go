package sensitivity

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// The critical values are those of any table of the signed-rank test, two-sided, 5 %: the smaller rank sum is rejected
// up to 0, 8, 52 and 137 (Wilcoxon and Wilcox 1964), so the difference of the sums is accepted from one more on.
func TestCriticalRank(t *testing.T) {
	for n, rejected := range map[int]int{6: 0, 10: 8, 20: 52, 30: 137} {
		want := float64(n*(n+1)/2 - 2*(rejected+1))
		if got, ok := criticalRank(n); !ok || got != want {
			t.Errorf("n %d: %v %v, want %v", n, got, ok, want)
		}
	}
	if _, ok := criticalRank(5); ok {
		t.Error("five pairs can reject nothing at 5 %")
	}
}

func TestSlope(t *testing.T) {
	line := func(n int, b, noise float64) (cs []contrast) {
		rng := rand.New(rand.NewPCG(7, 7))
		for range n {
			d := 5 + 10*rng.Float64()
			cs = append(cs, contrast{b*d + noise*rng.NormFloat64(), d})
		}
		return cs
	}
	for _, c := range []struct {
		name      string
		in        []contrast
		known     bool
		low, high float64 // the interval must lie within
		holds     float64 // and hold this
	}{
		{"too few", line(5, 2, 0.1), false, 0, 0, 0},
		{"exact", line(12, 2, 0), true, 1.999, 2.001, 2},
		{"noisy", line(30, 2, 5), true, 1, 3, 2},
		{"nothing to find", line(30, 0, 5), true, -1, 1, 0},
		{"negative: it got faster", line(30, -2, 1), true, -3, -1, -2},
		{"one wild pair", append(line(29, 2, 1), contrast{1e9, 10}), true, 1, 3, 2},
		{"the dose never differed", make([]contrast, 20), false, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := slope(c.in)
			if got.Known != c.known {
				t.Fatalf("known %v: %+v", got.Known, got)
			}
			if c.known && (got.Low < c.low || got.High > c.high || c.holds < got.Low-1e-9 || c.holds > got.High+1e-9 || got.Est < got.Low || got.Est > got.High) {
				t.Errorf("%+v, want within [%v, %v] around %v", got, c.low, c.high, c.holds)
			}
		})
	}
}

// A coin that moves the dose by nothing on average says nothing: at least one end stays open or wide.
func TestSlopeOfAWeakInstrument(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	open := 0
	for range 100 {
		var cs []contrast
		for range 20 {
			cs = append(cs, contrast{rng.NormFloat64(), 0.01 * rng.NormFloat64()})
		}
		if s := slope(cs); !s.Known || math.IsInf(s.Low, 0) || math.IsInf(s.High, 0) {
			open++
		}
	}
	if open < 90 {
		t.Errorf("open in %d of 100", open)
	}
}

// TestBisectFindsWhatScanFinds: the short way and the long way agree wherever the short way is taken.
func TestBisectFindsWhatScanFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(6, 20).Draw(t, "pairs")
		cs := make([]contrast, n)
		for i := range cs {
			cs[i] = contrast{rapid.Float64Range(-100, 100).Draw(t, "p99"), rapid.Float64Range(0.1, 10).Draw(t, "dose")}
		}
		critical, _ := criticalRank(n)
		mk := func() *ranker {
			return &ranker{cs: cs, at: turns(cs), order: make([]int, n), size: make([]float64, n), up: make([]bool, n)}
		}
		b, s := mk().bisect(critical), mk().scan(critical)
		near := func(x, y float64) bool { return x == y || math.Abs(x-y) <= 1e-6*(math.Abs(x)+math.Abs(y)+1) }
		if !near(b.Low, s.Low) || !near(b.High, s.High) {
			t.Fatalf("bisect %+v, scan %+v", b, s)
		}
	})
}

// The bounds of evidence are right at every look at once, for noise of heavy tails, in at least 19 of 20 seeds.
func TestBoundsHoldAtEveryLook(t *testing.T) {
	const truth, runs = 0.05, 300
	wrong := 0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var e evidence
		for range 60 {
			x := 0.1 * math.Tan(math.Pi*(rng.Float64()-0.5)) // Cauchy: it has no mean
			e.add(truth + x)
			if low, high := e.bounds(); truth < low || truth > high {
				wrong++
				break
			}
		}
	}
	// Each side errs in at most 1 of 40.
	if wrong > runs*2/40 {
		t.Errorf("the bounds left the truth in %d of %d runs", wrong, runs)
	}
}
