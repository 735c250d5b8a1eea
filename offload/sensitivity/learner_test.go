package sensitivity

import (
	"flag"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A failure names its seed; -seed N -seeds 1 replays it.
var (
	firstSeed = flag.Uint64("seed", 1, "first seed of the simulated services")
	seeds     = flag.Int("seeds", 200, "how many seeds")
)

// TestLearns: over seeds, what services of known sensitivity teach. Shares are of seeds; the bounds are what the
// package promises, the simulation is a little better.
func TestLearns(t *testing.T) {
	for _, c := range []struct {
		name    string
		perMiB  float64
		noise   float64
		tail    float64
		blocks  int
		reaches float64 // least share that gets to Most
		above   float64 // largest share that is ever above 1
		below   float64 // largest share that is ever below 1; 1: it should be
		covers  float64 // least share whose interval holds the truth; 0: there is no such truth
	}{
		{"insensitive, quiet", 0, 0.03, 0.01, 300, 0.95, 1, 0.02, 0.90},
		{"insensitive, noisy", 0, 0.10, 0.03, 800, 0.90, 1, 0.02, 0.90},
		{"insensitive, very noisy", 0, 0.40, 0.05, 800, 0, 1, 0.10, 0.90},
		{"sensitive", inflates(1.5), 0.10, 0.03, 300, 0, 0.05, 1, 0.90},
		{"sensitive, noisy", inflates(1.5), 0.25, 0.05, 300, 0, 0.05, 1, 0.90},
		{"just at the limit", inflates(limit), 0.05, 0.02, 400, 0, 0.05, 1, 0},
		{"just at the limit, noisy", inflates(limit), 0.20, 0.05, 400, 0, 0.05, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var reached, above, below, covered, known int
			var ups, downs, tops []float64
			for i := range *seeds {
				seed := *firstSeed + uint64(i)
				l := New(SLO{}, seed)
				s := newService(seed, c.perMiB, c.noise, c.tail)
				s.scaled = c.covers == 0
				j := run(l, s, c.blocks)
				for _, x := range []struct {
					at    int
					count *int
					all   *[]float64
				}{{j.up, &above, &ups}, {j.down, &below, &downs}, {j.reached, &reached, &tops}} {
					if x.at > 0 {
						*x.count++
						*x.all = append(*x.all, float64(x.at))
					}
				}
				if st := l.Stats(); st.PerMiB.Known {
					known++
					if st.PerMiB.Low <= c.perMiB && c.perMiB <= st.PerMiB.High {
						covered++
					}
				}
			}
			n := float64(*seeds)
			t.Logf("ever above 1 in %.1f %% (median after %.0f blocks), below in %.1f %% (%.0f), at %v in %.1f %% (%.0f); interval known in %d and right in %d",
				100*float64(above)/n, median(ups), 100*float64(below)/n, median(downs), Most, 100*float64(reached)/n, median(tops), known, covered)
			if float64(reached) < c.reaches*n {
				t.Errorf("reached %v× in %d of %d seeds, want %.0f %%", Most, reached, *seeds, 100*c.reaches)
			}
			if float64(above) > c.above*n {
				t.Errorf("was above 1 in %d of %d seeds, at most %.0f %% allowed", above, *seeds, 100*c.above)
			}
			if float64(below) > c.below*n {
				t.Errorf("was below 1 in %d of %d seeds, at most %.0f %% allowed", below, *seeds, 100*c.below)
			}
			if c.covers > 0 && (known == 0 || float64(covered) < c.covers*float64(known)) {
				t.Errorf("the interval held the true %.2f µs/MiB in %d of %d seeds, want %.0f %%", c.perMiB, covered, known, 100*c.covers)
			}
		})
	}
}

// limit is the inflation at multiplier 1 from which the next notch would use up the SLO's margin.
var limit = 1 + marginInflation*(DefaultInflation-1)/notch

// scripted lets a test say what each period was like, and returns the last advice.
func scripted(l *Learner, n int, p func(i int, a Advice) Period) (a Advice, held int) {
	a.Scale = 1
	for i := range n {
		a = l.Observe(p(i, a))
		if a.Hold {
			held++
		}
	}
	return a, held
}

func TestNoSignalMeansTheClassesTargets(t *testing.T) {
	l := New(SLO{}, 1)
	a, held := scripted(l, 100, func(int, Advice) Period { return Period{Saved: 1 << 30, Taken: 1 << 20} })
	if a.Scale != 1 || held != 0 || a.Why != noSignal || l.Stats().Why != noSignal {
		t.Errorf("advice %+v, held %d times", a, held)
	}
}

func TestLosingTheSignal(t *testing.T) {
	l := New(SLO{}, 3)
	run(l, newService(3, 0, 0.01, 0), 300)
	if l.scale != Most {
		t.Fatalf("the case did not get to %v: %v", Most, l.scale)
	}
	a, _ := scripted(l, lostAfter-1, func(int, Advice) Period { return Period{} })
	if a.Scale != Most {
		t.Errorf("a short gap cost what was learnt: %+v", a)
	}
	if a = l.Observe(Period{}); a.Scale != 1 || a.Hold || a.Why != noSignal {
		t.Errorf("after %d periods without a signal: %+v", lostAfter, a)
	}
	l.scale = 0.5
	if a = l.Observe(Period{}); a.Scale != 0.5 || !strings.Contains(a.Why, "no SLO signal: stays cautious, at 0.5×") {
		t.Errorf("losing the signal made it bolder, or it does not say where it is: %+v", a)
	}
}

func TestAboveTheSLO(t *testing.T) {
	calm := Period{Known: true, P99: 2 * time.Millisecond, Taken: 1 << 20, Refaults: 0.001}
	l := New(SLO{P99: 5 * time.Millisecond}, 1)
	scripted(l, 5, func(int, Advice) Period { return calm })
	hurt := calm
	hurt.P99 = 7 * time.Millisecond
	a := l.Observe(hurt)
	if !a.Hold || a.Scale != 1 || !strings.Contains(a.Why, "p99 7ms was above the SLO of 5ms") {
		t.Errorf("the first period above: %+v", a)
	}
	if a = l.Observe(hurt); !a.Hold || a.Scale < 0.499 || a.Scale > 0.501 {
		t.Errorf("the second: %+v", a)
	}
	for range 20 {
		a = l.Observe(hurt)
	}
	if a.Scale != Least || !a.Hold {
		t.Errorf("after 20: %+v", a)
	}
	held := 0
	for range cool + 1 {
		if a = l.Observe(calm); strings.Contains(a.Why, "above the SLO") {
			held++
		}
	}
	if held != cool-1 {
		t.Errorf("held %d calm periods more, want %d", held, cool-1)
	}
	late := calm
	late.AtLeast = true
	if a = l.Observe(late); !a.Hold {
		t.Errorf("a p99 past all measuring was not above the SLO: %+v", a)
	}
}

// What holding cannot change, comparing cannot see: however flat the p99, the multiplier stays.
func TestWeakContrastTeachesNothing(t *testing.T) {
	l := New(SLO{}, 5)
	a, _ := scripted(l, 4000, func(int, Advice) Period {
		return Period{Known: true, P99: time.Millisecond, Taken: 1 << 20, Refaults: 0.001}
	})
	if a.Scale != 1 {
		t.Errorf("%+v", a)
	}
}

// What may be expected is said: about how many pairs a notch takes, or that the signal scatters too much for any.
func TestSaysWhatToExpect(t *testing.T) {
	for _, c := range []struct {
		name        string
		noise, warm float64
		slo         SLO
		want        string
	}{
		{"quiet", 0.02, 1, SLO{}, "a notch up takes about "},
		{"noisy", 0.6, 1, SLO{}, "cannot rise: the p99 scatters by "},
		{"noisy, and much is allowed", 0.6, 1, SLO{Inflation: 5}, "a notch up takes about "},
		{"nothing comes back while it holds", 0.02, 0, SLO{}, "holding brings back too little to compare"},
	} {
		l := New(c.slo, 2)
		s := newService(2, 0, c.noise, 0)
		saw := false
		scripted(l, 30*block, func(_ int, a Advice) Period {
			saw = saw || strings.Contains(a.Why, c.want)
			if len(a.Why) > 200 {
				t.Errorf("%s: %d bytes: %s", c.name, len(a.Why), a.Why)
			}
			p := s.period(a)
			if c.warm == 0 {
				p.Refaults = 0.001
			}
			return p
		})
		if !saw {
			t.Errorf("%s: never said %q; last %q", c.name, c.want, l.Stats().Why)
		}
	}
}

// A signal that cannot see a refault lowers the multiplier and lets it come back, but never stretches the target.
func TestBlindSignalOnlyWarns(t *testing.T) {
	l := New(SLO{Blind: true}, 3)
	if j := run(l, newService(3, 0, 0.01, 0), 300); j.most > 1 || !strings.Contains(l.Stats().Why, "asks for nothing") {
		t.Errorf("%+v: %s", j, l.Stats().Why)
	}
	l = New(SLO{Blind: true}, 3)
	if j := run(l, newService(3, inflates(2), 0.01, 0), 300); j.least != Least {
		t.Errorf("it does not warn: %+v", j)
	}
}

// What needs forecasts is what betting then takes, within a factor of two.
func TestForecastOfPairs(t *testing.T) {
	const d = 0.05
	for _, noise := range []float64{0.03, 0.06, 0.1} {
		var told, took []float64
		for seed := range uint64(100) {
			rng := rand.New(rand.NewPCG(seed, 6))
			var e evidence
			for len(e.x) < spent && e.fortune(d, 1) < certain {
				if e.add(noise * rng.NormFloat64()); len(e.x) == 10 {
					n, _ := e.needs(d)
					told = append(told, n)
				}
			}
			took = append(took, float64(len(e.x)))
		}
		if a, b := median(told), median(took); len(told) > 0 && (a < b/2 || a > b*2) {
			t.Errorf("noise %v: told %.0f pairs, took %.0f", noise, a, b)
		}
	}
}

// A law at rest has nothing to hold back.
func TestRestingLawIsNotHeld(t *testing.T) {
	l := New(SLO{}, 5)
	still := func(int, Advice) Period { return Period{Known: true, P99: time.Millisecond} }
	scripted(l, 3*block, still)
	a, held := scripted(l, 500, still)
	if held != 0 || a.Scale != 1 || !strings.Contains(a.Why, "nothing to compare") {
		t.Errorf("held %d times, %+v", held, a)
	}
	taking := func(int, Advice) Period {
		return Period{Known: true, P99: time.Millisecond, Taken: 1 << 20}
	}
	if _, held = scripted(l, 10*block, taking); held == 0 {
		t.Error("it never compares again")
	}
}

// While an hour's brake is on, nothing is learnt from it.
func TestDisturbedPeriodsAreNotCompared(t *testing.T) {
	l := New(SLO{}, 5)
	scripted(l, 500, func(i int, _ Advice) Period {
		return Period{Known: true, P99: time.Millisecond, Taken: 1 << 20, Disturbed: i%block == 0}
	})
	if s := l.Stats(); s.Pairs != 0 {
		t.Errorf("%d pairs out of disturbed blocks", s.Pairs)
	}
}

func TestSameSeedSameAdvice(t *testing.T) {
	a, b := New(SLO{}, 9), New(SLO{}, 9)
	run(a, newService(4, 3, 0.1, 0.1), 100)
	run(b, newService(4, 3, 0.1, 0.1), 100)
	if a.Stats() != b.Stats() {
		t.Errorf("%+v\n%+v", a.Stats(), b.Stats())
	}
}

// TestAnyPeriods: whatever the periods say, the multiplier stays in its range, moves up one notch at most, and nothing
// is held without a signal.
func TestAnyPeriods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New(SLO{
			P99:       time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "slo")),
			Inflation: rapid.Float64Range(1.001, 3).Draw(t, "inflation"),
		}, rapid.Uint64().Draw(t, "seed"))
		lost, before := lostAfter, 1.0
		odd := rapid.OneOf(rapid.Float64Range(0, 0.01), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)), rapid.Float64())
		for range rapid.IntRange(1, 60).Draw(t, "runs") {
			p := Period{
				Known: rapid.IntRange(0, 9).Draw(t, "known") > 0, AtLeast: rapid.IntRange(0, 9).Draw(t, "at least") == 0,
				P99:   time.Duration(rapid.OneOf(rapid.Int64Range(0, 1e8), rapid.Int64()).Draw(t, "p99")),
				Saved: rapid.Int64().Draw(t, "saved"), Refaults: odd.Draw(t, "refaults"),
				Taken: rapid.Int64().Draw(t, "taken"), Disturbed: rapid.IntRange(0, 9).Draw(t, "disturbed") == 0,
			}
			for range rapid.IntRange(1, 4*block).Draw(t, "times") {
				a := l.Observe(p)
				if lost++; p.sane() {
					lost = 0
				}
				switch {
				case !(a.Scale >= Least && a.Scale <= Most):
					t.Fatalf("multiplier %v", a.Scale)
				case a.Scale > before*notch*1.001:
					t.Fatalf("multiplier jumped from %v to %v", before, a.Scale)
				case lost >= lostAfter && (a.Hold || a.Scale > 1):
					t.Fatalf("%+v without a signal", a)
				case a.Why == "" || len(a.Why) > 200:
					t.Fatalf("why %q", a.Why)
				}
				before = a.Scale
			}
		}
		for _, i := range []Interval{l.Stats().PerMiB, l.Stats().PerShare, l.Stats().Inflation} {
			if i.Known && !(i.Low <= i.Est && i.Est <= i.High) {
				t.Fatalf("interval %+v", i)
			}
		}
	})
}
