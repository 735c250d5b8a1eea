package replay

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-io/spillway/offload/policy"
)

func fleet(seed uint64, jobs int, length time.Duration) Trace {
	return Generate(Model{Seed: seed, Jobs: jobs, Length: length, Interval: 5 * time.Minute})
}

const day = 24 * time.Hour

// of makes a trace of jobs.
func of(interval time.Duration, jobs ...Job) Trace {
	return Trace{Interval: interval, Source: "test", Jobs: func(yield func(*Job, error) bool) {
		for i := range jobs {
			if !yield(&jobs[i], nil) {
				return
			}
		}
	}}
}

// steady is n equal intervals: cold and promo bytes, each from the age of that number on.
func steady(n int, ws int64, cold, promo map[int]int64) (out []Interval) {
	v := Interval{WorkingSet: ws}
	for a, b := range cold {
		v.Cold[a] = b
	}
	for a, b := range promo {
		v.Promo[a] = b
	}
	return slices.Repeat([]Interval{v}, n)
}

const mb = 1 << 20

// TestByHand: one job of 700 MB in use and 300 MB cold, of which 200 MB are touched too often.
func TestByHand(t *testing.T) {
	// A minute's target is 1.4 MB. From age 0 on 10 MB in 5 min are promoted, from age 4 on 5 MB: 1 MB a minute.
	j := Job{Name: "a", Intervals: steady(100, 700*mb, map[int]int64{0: 200 * mb, 4: 100 * mb}, map[int]int64{0: 5 * mb, 4: 5 * mb})}
	// The warm-up of 23 min covers 5 intervals; the first decides on nothing anyway.
	set := Setting{Percentile: 98, Warmup: 23 * time.Minute, Promotion: 0.002}
	f, rs, err := Replay(t.Context(), of(5*time.Minute, j), 0.002, []Setting{set}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rs[0]
	near := func(what string, got, want, within float64) {
		if math.Abs(got-want) > within*want {
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
	if f.Jobs != 1 || f.Minutes != 500 || f.Memory != 1000*mb || f.Cold != 0.3 || f.JobCold != [3]float64{0.3, 0.3, 0.3} {
		t.Errorf("fleet %+v", f)
	}
	near("saved", r.Saved, 0.1*0.95, 1e-9)
	near("stored", r.Stored, 0.95/3, 1e-9)
	near("cold start", r.ColdStart, 0.05, 1e-9)
	near("p50", r.P50, 1./700, 0.03)
	near("p98", r.P98, 1./700, 0.03)
	if r.Over != 0 {
		t.Errorf("over in %v of the minutes", r.Over)
	}
}

// TestNothingIsKnownBefore: the interval in which a job changes is decided by what was before it, and counts.
func TestNothingIsKnownBefore(t *testing.T) {
	calm := steady(50, 700*mb, map[int]int64{0: 300 * mb}, nil)
	burst := steady(1, 700*mb, map[int]int64{0: 300 * mb}, map[int]int64{0: 100 * mb})
	j := Job{Intervals: slices.Concat(calm, burst, calm)}
	_, rs, err := Replay(t.Context(), of(5*time.Minute, j), 0.002, []Setting{{Percentile: 50, Warmup: 1, Promotion: 0.002}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Over in the burst alone; nothing is stored in the first interval, before the first lesson, nor in the one after
	// the burst, by the spike rule.
	if got, want := rs[0].Over, 1./101; got != want {
		t.Errorf("over in %v of the minutes, want %v", got, want)
	}
	if got, want := rs[0].Stored, 99./101; math.Abs(got-want) > 1e-9 {
		t.Errorf("stored %v, want %v", got, want)
	}
}

// TestAgreesWithTheLaw replays one job by calling the daemon's threshold with a plain reading of the paper's words.
func TestAgreesWithTheLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 4*mb))
		j := Job{Age: time.Duration(rapid.Int64Range(0, 3600).Draw(t, "age")) * time.Second}
		for range rapid.IntRange(1, 40).Draw(t, "intervals") {
			v := Interval{WorkingSet: rapid.Int64Range(0, 2000*mb).Draw(t, "working set")}
			for a := range v.Cold {
				v.Cold[a], v.Promo[a] = amount.Draw(t, "cold"), amount.Draw(t, "promo")
			}
			j.Intervals = append(j.Intervals, v)
		}
		s := Setting{
			Percentile: rapid.Float64Range(1, 100).Draw(t, "K"), Promotion: rapid.Float64Range(1e-5, 0.1).Draw(t, "P"),
			Warmup: time.Duration(rapid.Int64Range(1, 7200).Draw(t, "S")) * time.Second,
		}
		_, rs, err := Replay(t.Context(), of(time.Minute, j), 0.002, []Setting{s}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var bests []int
		var saved, memory float64
		for i := range j.Intervals {
			v := &j.Intervals[i]
			from := func(h [policy.Ages]int64, a int) (n int64) {
				for _, b := range h[a:] {
					n += b
				}
				return n
			}
			memory += float64(v.Memory())
			if len(bests) > 0 && j.Age+time.Duration(i)*time.Minute >= s.Warmup {
				sorted := slices.Sorted(slices.Values(bests))
				at := max(sorted[int(math.Ceil(s.Percentile*float64(len(sorted))/100))-1], bests[len(bests)-1])
				saved += float64(from(v.Cold, at))
			}
			best := 0
			for best < policy.Ages && float64(from(v.Promo, best)) > s.Promotion*float64(v.WorkingSet) {
				best++
			}
			bests = append(bests, best)
		}
		if want := saved / max(memory, 1); math.Abs(rs[0].Saved-want) > 1e-9 {
			t.Fatalf("saved %v, want %v", rs[0].Saved, want)
		}
	})
}

// TestFit holds the made-up fleet against what was published of the real one (see Model): 32 % cold at 120 s, more
// than 43 % in one job of ten, a fifth of what is cold stored by the published setting. The rest is assumed.
func TestFit(t *testing.T) {
	for seed := range uint64(4) {
		f, rs, err := Replay(t.Context(), fleet(seed, 1000, 3*day), 0.002, []Setting{Published()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d: %+v stored %.3f p98 %.5f over %.4f", seed, f, rs[0].Stored, rs[0].P98, rs[0].Over)
		within := func(what string, got, low, high float64) {
			if !(got >= low && got <= high) {
				t.Errorf("seed %d: %s %.3f is outside %v to %v", seed, what, got, low, high)
			}
		}
		within("share of memory cold", f.Cold, 0.30, 0.34)
		within("cold share of the ninth job of ten", f.JobCold[2], 0.43, 0.46)
		within("cold share of the first job of ten", f.JobCold[0], 0.05, 0.15)
		within("share of the cold memory stored", rs[0].Stored, 0.15, 0.27)
		within("minutes over the target", rs[0].Over, 0.001, 0.02)
	}
}

// TestFleetLives: jobs come and go, start and end within the trace, and load has a daily wave.
func TestFleetLives(t *testing.T) {
	const length = 3 * day
	started, ended, before := 0, 0, 0
	var hour [24]float64 // cold memory of long jobs by the hour of the day
	for j, err := range fleet(5, 400, length).Jobs {
		if err != nil {
			t.Fatal(err)
		}
		end := j.Start + time.Duration(len(j.Intervals))*5*time.Minute
		if len(j.Intervals) == 0 || end > length || j.Start < 0 {
			t.Fatalf("%s runs from %v to %v", j.Name, j.Start, end)
		}
		if j.Age > 0 {
			before++
			if end < length {
				t.Errorf("%s is a service and ends at %v", j.Name, end)
			}
			for i := range j.Intervals {
				at := (j.Start + time.Duration(i)*5*time.Minute) % day
				hour[int(at.Hours())] += float64(j.Intervals[i].Memory()-j.Intervals[i].WorkingSet) / 1e12
			}
		}
		if j.Age == 0 {
			started++
		}
		if end < length {
			ended++
		}
		for i := range j.Intervals {
			v := &j.Intervals[i]
			for a := range v.Cold {
				if v.Cold[a] < 0 || v.Promo[a] < 0 || v.Cold[a]%4096 != 0 || v.WorkingSet < 0 {
					t.Fatalf("%s interval %d: %+v", j.Name, i, v)
				}
				if age := j.Age + time.Duration(i+1)*5*time.Minute; policy.Age(a) > age && v.Cold[a]+v.Promo[a] > 0 {
					t.Fatalf("%s is %v old and has memory idle for %v", j.Name, age, policy.Age(a))
				}
			}
		}
	}
	t.Logf("%d there before, %d started, %d ended; cold memory at its least %.2f of its most", before, started, ended, slices.Min(hour[:])/slices.Max(hour[:]))
	if before < 200 || started < 100 || ended < 50 {
		t.Errorf("%d there before, %d started, %d ended", before, started, ended)
	}
	if slices.Min(hour[:]) > 0.95*slices.Max(hour[:]) {
		t.Errorf("no daily wave: %v", hour)
	}
}

// TestTune: the winner keeps the target, nothing on the frontier that keeps it saves more, and the same seeds give
// the same report.
func TestTune(t *testing.T) {
	search := Search{Seed: 3, Trials: 60, Target: 0.002, Within: 0.98}
	tr := fleet(7, 60, 2*day)
	heard := 0
	r, err := Tune(t.Context(), tr, search, func(int) { heard++ })
	if err != nil {
		t.Fatal(err)
	}
	if r.Winner == nil || 1-r.Winner.Over < 0.98 || heard != 60 || r.Published.Setting != Published() {
		t.Fatalf("winner %+v, published %+v, heard %d", r.Winner, r.Published, heard)
	}
	if r.Winner.Saved < r.Published.Saved && 1-r.Published.Over >= 0.98 {
		t.Errorf("the winner saves %v, the published setting %v", r.Winner.Saved, r.Published.Saved)
	}
	for i, x := range r.Frontier {
		if i > 0 && (x.Saved <= r.Frontier[i-1].Saved || x.Over < r.Frontier[i-1].Over) {
			t.Errorf("frontier: %+v after %+v", x, r.Frontier[i-1])
		}
		if 1-x.Over >= 0.98 && x.Saved > r.Winner.Saved {
			t.Errorf("%+v keeps the target and saves more than the winner", x)
		}
	}
	again, err := Tune(t.Context(), tr, search, nil)
	if err != nil || !reflect.DeepEqual(r, again) {
		t.Error("the same search differs", err)
	}
	if len(search.settings()) != 60 {
		t.Errorf("%d settings", len(search.settings()))
	}
}

func TestTuneSaysWhy(t *testing.T) {
	search := Search{Trials: 5, Target: 0.002, Within: 0.98}
	hot := of(5*time.Minute, Job{Intervals: steady(10, 100*mb, nil, nil)})
	if _, err := Tune(t.Context(), hot, search, nil); !errors.Is(err, ErrNothingCold) {
		t.Errorf("nothing cold: %v", err)
	}
	if _, err := Tune(t.Context(), of(5*time.Minute), search, nil); !errors.Is(err, ErrNothingCold) {
		t.Errorf("no jobs: %v", err)
	}
	// Bursts of all there is, every other interval: whatever is stored comes back.
	var wild []Interval
	for range 50 {
		wild = append(wild, steady(1, 100*mb, map[int]int64{16: 100 * mb}, nil)...)
		wild = append(wild, steady(1, 100*mb, map[int]int64{16: 100 * mb}, map[int]int64{16: 100 * mb})...)
	}
	r, err := Tune(t.Context(), of(5*time.Minute, Job{Intervals: wild}), Search{Trials: 1, Target: 0.002, Within: 1}, nil)
	if err != nil || r.Winner != nil && r.Winner.Over > 0 {
		t.Errorf("%v, winner %+v", err, r.Winner)
	}
	broken := errors.New("broken")
	bad := Trace{Interval: time.Minute, Jobs: func(yield func(*Job, error) bool) { yield(nil, broken) }}
	if _, err := Tune(t.Context(), bad, search, nil); !errors.Is(err, broken) {
		t.Errorf("source: %v", err)
	}
	for _, s := range []Search{{}, {Trials: 1, Target: 2, Within: 0.98}, {Trials: 1, Target: 0.002}, {Trials: 1e6, Target: 0.002, Within: 1}} {
		if _, err := Tune(t.Context(), hot, s, nil); err == nil || errors.Is(err, ErrNothingCold) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// TestRates: quantiles are exact to the width of a bucket.
// TestEndsWithinAJob: a job of a year under thousands of settings takes minutes; who is told to stop stops before.
func TestEndsWithinAJob(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	j := Job{Name: "long", Intervals: make([]Interval, 1<<17)}
	tr := Trace{Interval: time.Minute, Jobs: func(yield func(*Job, error) bool) {
		cancel(errors.New("enough"))
		yield(&j, nil)
	}}
	heard := 0
	_, err := Tune(ctx, tr, Search{Trials: 1, Target: 0.002, Within: 0.98}, func(int) { heard++ })
	if err == nil || err.Error() != "enough" || heard != 0 {
		t.Errorf("%v, %d jobs replayed", err, heard)
	}
}

func TestRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1e-8, 100)), 1, 200).Draw(t, "xs")
		var r rates
		for _, x := range xs {
			r.add(x)
		}
		slices.Sort(xs)
		for _, q := range []float64{0.01, 0.5, 0.98, 1} {
			want := xs[max(0, int(math.Ceil(q*float64(len(xs))))-1)]
			if got := r.quantile(q); math.Abs(got-want) > 0.032*want {
				t.Fatalf("q %v of %v is %v, want %v", q, xs, got, want)
			}
		}
	})
	var r rates
	r.add(math.Inf(1))
	if got := r.quantile(1); !(got > 1000) || math.IsInf(got, 0) {
		t.Errorf("quantile of infinity %v", got)
	}
}

// BenchmarkWeek replays one week of a thousand jobs, made as it goes, with the published setting.
func BenchmarkWeek(b *testing.B) {
	for b.Loop() {
		if _, _, err := Replay(b.Context(), fleet(1, 1000, 7*day), 0.002, []Setting{Published()}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTune does so with 200.
func BenchmarkTune(b *testing.B) {
	for b.Loop() {
		if _, err := Tune(b.Context(), fleet(1, 1000, 7*day), Search{Seed: 1, Trials: 200, Target: 0.002, Within: 0.98}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
