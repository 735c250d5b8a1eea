package heat

import (
	"math"
	"reflect"
	"testing"
	"time"
)

const mib = int64(1) << 20

func TestColderCountsWholeBucketsOnly(t *testing.T) {
	h := Histogram{{0, 4 * mib}, {2 * time.Minute, 2 * mib}, {4 * time.Minute, mib}}
	for idle, want := range map[time.Duration]int64{0: 7 * mib, time.Minute: 3 * mib, 2 * time.Minute: 3 * mib, 3 * time.Minute: mib, 5 * time.Minute: 0} {
		if got := h.Colder(idle); got != want {
			t.Errorf("colder than %v: %d, want %d", idle, got, want)
		}
	}
}

func TestCurveSaysWhatItCannotKnow(t *testing.T) {
	r := Reading{Span: 5 * time.Minute, Cold: Histogram{{0, mib}, {5 * time.Minute, 3 * mib}}}
	want := []Point{{time.Minute, 3 * mib, true}, {2 * time.Minute, 3 * mib, true}, {5 * time.Minute, 3 * mib, true},
		{15 * time.Minute, 0, false}, {time.Hour, 0, false}}
	if got := r.Curve(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMergeReadings(t *testing.T) {
	a := Reading{Span: time.Hour, Scan: time.Minute, Cold: Histogram{{0, 1}, {time.Minute, 2}}, Promo: Histogram{}, Source: "x"}
	b := Reading{Span: time.Minute, Scan: time.Second, Cold: Histogram{{0, 4}, {3 * time.Minute, 8}}, Promo: Histogram{{time.Minute, 1}}}
	got := MergeReadings(a, b)
	want := Reading{Span: time.Minute, Scan: time.Minute, Source: "x", WorkingSet: 7,
		Cold: Histogram{{0, 5}, {time.Minute, 2}, {3 * time.Minute, 8}}, Promo: Histogram{{time.Minute, 1}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if b.Promo = nil; MergeReadings(a, b).Promo != nil {
		t.Error("a part that sees no promotions passes for one that saw none")
	}
	if got := MergeReadings(a); got.Promo == nil || len(got.Promo) != 0 {
		t.Errorf("promotions %v, want none but seen", got.Promo)
	}
	if !reflect.DeepEqual(MergeReadings(), Reading{}) {
		t.Error("nothing merged is something")
	}
}

func TestAgesStopAt255(t *testing.T) {
	age := uint8(0)
	for range 300 {
		var tally Tally
		age = tally.See(age, false, 4096)
	}
	if age != MaxPageAge {
		t.Errorf("age %d", age)
	}
}

// The first scan of a source with one bit cannot tell how long a bit has been clear.
func TestNothingIsColdAtTheFirstScan(t *testing.T) {
	var tally Tally
	tally.See(0, false, mib)
	r := tally.Reading(time.Unix(5, 0), nil, "bit")
	if r.Cold.Colder(1) != 0 || r.Cold.Total() != mib || r.WorkingSet != mib || r.Span != 0 {
		t.Errorf("%+v", r)
	}
	var e Epochs
	e.Cleared(time.Unix(5, 0))
	if r := e.See(time.Unix(5, 0), Sight{Total: mib, Idle: mib}, "epoch"); r.Cold.Colder(1) != 0 || r.Cold.Total() != mib {
		t.Errorf("%+v", r)
	}
	var l Ladder
	if _, ok := l.Climb(time.Unix(5, 0), nil, nil, "gen"); ok {
		t.Error("a reading of no generations")
	}
}

// Ageing by somebody else between two scans breaks the chain of what was proved before, and only that.
func TestALadderThatMissedAgeingStartsAgain(t *testing.T) {
	at := time.Unix(1e9, 0)
	gens := func(first uint64) []Generation {
		return []Generation{{first, 3 * time.Minute, 8 * mib}, {first + 1, 2 * time.Minute, mib}, {first + 2, time.Minute, mib}, {first + 3, 0, 0}}
	}
	var l Ladder
	var r Reading
	for i := range uint64(10) {
		r, _ = l.Climb(at.Add(time.Duration(i)*time.Minute), gens(i), gens(i+1), "gen")
	}
	if r.Cold.Colder(8*time.Minute) == 0 {
		t.Errorf("nothing is known beyond the generations: %v", r.Cold)
	}
	r, _ = l.Climb(at.Add(10*time.Minute), gens(20), gens(21), "gen")
	if r.Cold.Colder(2*time.Minute) != 8*mib || r.Cold.Colder(3*time.Minute) != 0 {
		t.Errorf("after missed generations: %v", r.Cold)
	}
}

// Numbers that make no sense give a histogram all the same.
func FuzzSenselessNumbers(f *testing.F) {
	f.Add(int64(1), int64(2), int64(3), int64(60), uint64(1))
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64), int64(-5), uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, a, b, c, d int64, seq uint64) {
		at := time.Unix(1e9, 0)
		var e Epochs
		var l Ladder
		var tally Tally
		e.Cleared(at)
		for i := range 4 {
			at = at.Add(time.Duration(d))
			checkReading(t, e.See(at, Sight{Total: a, Idle: b, Touched: c}, "epoch"))
			g := []Generation{{seq, time.Duration(c), a}, {seq + 1, time.Duration(d), b}, {seq + uint64(i), time.Duration(a), c}}
			if r, ok := l.Climb(at, g[:i%3], g[i%3:], "gen"); ok {
				checkReading(t, r)
			}
			tally.See(uint8(seq), i%2 == 0, a)
			tally.See(uint8(a), i%2 == 1, b)
			checkReading(t, tally.Reading(at, []time.Time{at.Add(-time.Duration(b)), at.Add(-time.Duration(c))}, "bit"))
			a, b, c = b, c, a
		}
	})
}

func checkReading(t *testing.T, r Reading) {
	t.Helper()
	checkHistogram(t, r.Source+" cold", r.Cold)
	checkHistogram(t, r.Source+" promo", r.Promo)
	if r.WorkingSet < 0 || r.Span < 0 || r.Scan < 0 {
		t.Errorf("%+v", r)
	}
}
