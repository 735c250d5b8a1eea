package workloads

import (
	"math"
	"testing"
	"time"
)

const mb = 1 << 20

// The search ends near the smallest size that is enough, whatever that is, and never tries more than it may.
func TestSearchFindsTheSize(t *testing.T) {
	for _, tt := range []struct {
		why      string
		enough   func(size int64) bool
		tries    int
		from, to int64 // where its upper end must be, MB
	}{
		{"in the middle", func(s int64) bool { return s >= 90*mb }, 5, 90, 94},
		{"everything is enough: it goes to the lower end", func(int64) bool { return true }, 5, 40, 43},
		{"nothing is: the upper end was never tried", func(int64) bool { return false }, 5, 120, 120},
		{"two tries", func(s int64) bool { return s >= 90*mb }, 2, 90, 100},
		{"none", func(int64) bool { return true }, 0, 120, 120},
		{"a wrong answer costs what is beyond it, no more", func(s int64) bool { return s >= 50*mb && s/mb != 80 }, 5, 82, 85},
		{"enough, too small, enough again: an edge", func(s int64) bool { return s > 100*mb || s < 70*mb }, 5, 100, 104},
	} {
		find := newSearch(200*mb, 0.4, tt.tries)
		if find.low != 40*mb || find.high != 120*mb {
			t.Fatalf("%s: looks between %d and %d", tt.why, find.low, find.high)
		}
		n := 0
		for size, ok := find.next(); ok; size, ok = find.next() {
			if n++; size%4096 != 0 || size <= find.low || size >= find.high {
				t.Fatalf("%s: tries %d between %d and %d", tt.why, size, find.low, find.high)
			}
			find.learn(size, tt.enough(size))
		}
		if n != tt.tries || find.high < tt.from*mb || find.high > tt.to*mb {
			t.Errorf("%s: %d tries, %.1f to %.1f MB", tt.why, n, float64(find.low)/mb, float64(find.high)/mb)
		}
	}
	if find := newSearch(100*mb, 0.9, 5); find.high != 100*mb {
		t.Errorf("looks above what is there: %d", find.high)
	}
	if _, ok := newSearch(8192, 0.5, 5).next(); ok {
		t.Error("tries sizes without room for any")
	}
}

// A limit is never lowered by more than 1 %, but for a page, ends where it should, and goes up at once.
func TestStairs(t *testing.T) {
	for _, size := range []int64{80 * mb, 4096, 199*mb + 4096} {
		at, n := int64(200*mb+123), 0
		for _, next := range stairs(at, size) {
			if next >= at || float64(at-next) > max(0.01*float64(at)+4096, 8192) {
				t.Fatalf("to %d: from %d to %d", size, at, next)
			}
			at = next
			n++
		}
		if at != size || n > 2000 {
			t.Errorf("to %d: at %d after %d stairs", size, at, n)
		}
	}
	if up := stairs(80*mb, 100*mb); len(up) != 1 || up[0] != 100*mb {
		t.Errorf("up: %v", up)
	}
}

func same(v float64, n int) (out []float64) {
	for range n {
		out = append(out, v)
	}
	return out
}

func TestRatioVerdict(t *testing.T) {
	wide := append(append(same(0.8, 6), same(1.05, 7)...), same(1.5, 7)...)
	for _, tt := range []struct {
		why            string
		ratios         []float64
		aa             float64
		p99            float64
		feasible, sure bool
	}{
		{"clearly within", same(1.0, 20), 1, 1, true, true},
		{"clearly beyond", same(1.3, 20), 1, 1.3, false, true},
		{"the A/A explains it", same(1.14, 20), 1.08, 1.14 / 1.08, true, true},
		{"the A/A hides it", same(1.08, 20), 0.95, 1.08 / 0.95, false, true},
		{"the median is within, the noise is not", wide, 1, 1.05, true, false},
		{"the same noise for longer says more", append(append(same(0.8, 60), same(1.05, 70)...), same(1.5, 70)...), 1, 1.05, true, true},
		{"three seconds say nothing", same(1, 3), 1, 1, true, false},
		{"one second that was ten times as long", append(same(1, 19), 10), 1, 1, true, true},
		{"no seconds", nil, 1, math.NaN(), false, false},
		{"no A/A", same(1, 20), math.NaN(), math.NaN(), false, false},
	} {
		p99, feasible, sure := ratioVerdict(tt.ratios, tt.aa)
		if math.Abs(p99-tt.p99) > 1e-9 || math.IsNaN(p99) != math.IsNaN(tt.p99) || feasible != tt.feasible || sure != tt.sure {
			t.Errorf("%s: %v, feasible %t, sure %t", tt.why, p99, feasible, sure)
		}
	}
}

// oracleStep is a step at which twin a saved a share.
func oracleStep(size int64, saving, majors float64, feasible bool) OracleStep {
	x := OracleStep{Size: size, Feasible: feasible, Reached: true}
	x.Twins[0] = Twin{Saving: saving, MajorPer1000: majors}
	return x
}

func TestBestStep(t *testing.T) {
	for _, tt := range []struct {
		why   string
		steps []OracleStep
		want  int // index, -1 none
		share float64
	}{
		{"the smallest feasible size saves most",
			[]OracleStep{oracleStep(80, 0.35, 2, true), oracleStep(60, 0.5, 90, false), oracleStep(70, 0.4, 5, true)}, 2, 0.75},
		{"a smaller size saves less: the pool grew",
			[]OracleStep{oracleStep(80, 0.375, 2, true), oracleStep(60, 0.3, 9, true)}, 0, 0.8},
		{"only a larger one will do",
			[]OracleStep{oracleStep(80, 0.4, 2, false), oracleStep(110, 0.2, 1, true)}, 1, 1.5},
		{"nothing is feasible", []OracleStep{oracleStep(80, 0.4, 2, false)}, -1, math.NaN()},
		{"feasible, and nothing saved", []OracleStep{oracleStep(80, 0, 0, true), oracleStep(70, -0.1, 0, true)}, -1, math.NaN()},
		{"nothing was tried", nil, -1, math.NaN()},
	} {
		r := &OracleResult{Steps: tt.steps, Under: Half{On: 1, Twins: [2]Twin{{}, {Saving: 0.3}}}}
		got := r.Best()
		if (tt.want < 0) != (got == nil) || tt.want >= 0 && got != &r.Steps[tt.want] {
			t.Errorf("%s: %+v", tt.why, got)
		}
		if share := r.Share(); math.IsNaN(share) != math.IsNaN(tt.share) || math.Abs(share-tt.share) > 1e-9 {
			t.Errorf("%s: share %v", tt.why, share)
		}
	}
}

// The ratio may be well where both twins wait for one that faults.
func TestCalmStep(t *testing.T) {
	r := &OracleResult{Steps: []OracleStep{
		oracleStep(80, 0.4, 9.9, true), oracleStep(60, 0.5, 10, true), oracleStep(70, 0.45, 3, false),
	}}
	if got := r.Calm(); got != &r.Steps[0] || r.Best() != &r.Steps[1] {
		t.Errorf("%+v", got)
	}
	if (&OracleResult{Steps: r.Steps[1:]}).Calm() != nil {
		t.Error("calm, with a hundred faults in ten thousand requests")
	}
}

// Faults are compared at equal saving, from the steps on either side in whatever order they were tried.
func TestMajorsAtEqualSaving(t *testing.T) {
	refused := OracleStep{P99: math.NaN()}
	r := &OracleResult{Steps: []OracleStep{
		oracleStep(80, 0.35, 3, true), oracleStep(60, 0.55, 43, false), oracleStep(70, 0.45, 13, true), refused,
	}}
	none := math.NaN()
	for saving, want := range map[float64]float64{0.35: 3, 0.4: 8, 0.45: 13, 0.5: 28, 0.34: none, 0.56: none, 0: none} {
		if got := r.MajorsAt(saving); math.IsNaN(got) != math.IsNaN(want) || math.Abs(got-want) > 1e-9 {
			t.Errorf("at %v: %v, want %v", saving, got, want)
		}
	}
	r.Steps = []OracleStep{oracleStep(80, 0.4, 3, true), oracleStep(60, 0.4, 5, false)}
	if got := r.MajorsAt(0.4); got != 4 {
		t.Errorf("two steps that save the same: %v", got)
	}
}

// The law's ratio is of b over a, the A/A of a over b.
func TestOracleP99CorrectsTheOtherWay(t *testing.T) {
	r := &OracleResult{AA: Summary{Median: 0.95}, Under: Half{On: 1, Ratio: same(1.1, 30)}}
	ratio, sure := r.P99()
	if math.Abs(ratio.Median-1.045) > 1e-9 || math.Abs(ratio.Q3-1.045) > 1e-9 || ratio.N != 30 || !sure {
		t.Errorf("%+v, sure %t", ratio, sure)
	}
}

// Savings are means over the end of a phase, which must not begin before the phase did, and the whole is short.
func TestOracleTimes(t *testing.T) {
	for _, quick := range []bool{true, false} {
		c := Config{Quick: quick}
		o, all := c.oracleTimes(), c.times()
		if o.measure < all.save || o.aa <= all.skip+2*time.Second || o.law < 2*all.save {
			t.Errorf("quick %t: %+v beside %+v", quick, o, all)
		}
		sum := o.aa + time.Duration(o.tries)*(o.hold+o.measure) + o.law
		if limit := 6 * time.Minute; sum > limit || quick && sum > time.Minute {
			t.Errorf("quick %t: takes %v", quick, sum)
		}
	}
}
