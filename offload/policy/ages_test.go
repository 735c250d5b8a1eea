package policy

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-io/spillway/offload/heat"
)

// TestTakesOnlyWhatIsCold: between two readings a law never takes more than what the reading called cold at 120 s, nor
// faster than its ratio (composite) or at all (gswap) before it has learnt enough.
func TestTakesOnlyWhatIsCold(t *testing.T) {
	for _, name := range []string{GSwap, Composite} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { takesOnlyWhatIsCold(t, name) }) })
	}
}

func takesOnlyWhatIsCold(t *rapid.T, name string) {
	warmup := time.Duration(rapid.Int64Range(1, int64(10*time.Minute)).Draw(t, "warm-up"))
	l, err := New(name, Params{Warmup: warmup})
	if err != nil {
		t.Fatal(err)
	}
	const period = 6 * time.Second
	usage, now := int64(1<<30), time.Duration(0)
	var reclaimed int64
	for i := range rapid.IntRange(1, 12).Draw(t, "readings") {
		cold := rapid.Int64Range(0, 1<<28).Draw(t, "cold")
		promo := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1<<22)).Draw(t, "promo")
		h := &heat.Reading{
			At: time.Unix(int64(i)*120, 0), Scan: 2 * time.Minute, WorkingSet: 1 << 29,
			Cold: heat.Histogram{
				{Idle: 0, Bytes: max(1<<29, usage-cold)}, {Idle: 2 * time.Minute, Bytes: cold / 2}, {Idle: time.Hour, Bytes: cold / 2},
			},
			Promo: heat.Histogram{{Idle: time.Hour, Bytes: promo}},
		}
		taken := int64(0)
		for range 20 {
			now += period
			s := Sample{Period: period, Usage: usage, Age: now, Heat: h, Reclaimed: reclaimed, PSI: true}
			if rapid.IntRange(0, 19).Draw(t, "burst") == 0 {
				s.RefaultAnon = rapid.Uint64Range(0, 4000).Draw(t, "back")
			}
			d := l.Decide(s)
			switch {
			case name == GSwap && d.Step > 0 && now < warmup:
				t.Fatalf("%v: takes %d in a warm-up of %v", now, d.Step, warmup)
			case name == Composite && i+1 < enoughReadings && float64(d.Step) > 0.0005*float64(usage):
				t.Fatalf("%v: takes %d of %d after %d readings", now, d.Step, usage, i+1)
			}
			taken += d.Step
			usage -= d.Step
			reclaimed = d.Step
		}
		if taken > cold {
			t.Fatalf("takes %d of %d that were cold", taken, cold)
		}
	}
}

// TestNoAgesNoChange: readings that have grown old, or none, give the decisions that composite made before there was
// tracking.
func TestNoAgesNoChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams(t)
		a, errA := New(Composite, p)
		b, errB := New(Composite, p)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		old := &heat.Reading{At: time.Unix(1, 0), Cold: heat.Histogram{{Bytes: 1 << 40}}, Promo: heat.Histogram{}}
		wait := Sample{Period: 11 * time.Minute, Usage: 1 << 30, HostPressure: true, Heat: old} // the second time it is old
		for range 2 {
			a.Decide(wait)
			wait.Heat = old
		}
		wait.Heat = nil
		for range 2 {
			b.Decide(wait)
		}
		for _, s := range rapid.SliceOfN(rapid.Custom(anySample), 1, 30).Draw(t, "samples") {
			s.Heat = old
			x := a.Decide(s)
			s.Heat = nil
			y := b.Decide(s)
			said := x.Detail
			if i := strings.Index(x.Detail, " (no access tracking for "); i >= 0 {
				rest := x.Detail[i:]
				said = x.Detail[:i] + rest[strings.Index(rest, ")")+1:]
			}
			if x.Step != y.Step || x.Reason != y.Reason || said != y.Detail {
				t.Fatalf("%+v and %+v", x, y)
			}
		}
	})
}

// TestAgesByPrice: the dearer a refault, the older the memory that composite takes, and never younger than what the
// promotion target alone allows.
func TestAgesByPrice(t *testing.T) {
	promo := heat.Histogram{}
	for i := range Ages { // each age halves what comes back
		promo = append(promo, heat.Age{Idle: Age(i), Bytes: int64(64e6 * math.Pow(0.5, float64(i+1)))})
	}
	last := -1
	for _, cost := range []time.Duration{time.Microsecond, 15 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		l := mustNew(t, Composite, Params{})
		for i := range 10 {
			h := &heat.Reading{
				At: time.Unix(int64(i)*120, 0), WorkingSet: 3 << 30, Cold: heat.Histogram{{Bytes: 4 << 30}}, Promo: promo,
			}
			l.Decide(Sample{Period: 6 * time.Second, Usage: 4 << 30, PSI: true, CostAnon: cost, Heat: h})
		}
		got := l.(*composite).ages.past.Next(95)
		// 0.0005 of 3 GiB are 1.6 MB: of 64 MB halved at each age, from age 6 on.
		if got < last || got < 6 || cost == time.Microsecond && got != 6 {
			t.Errorf("at %v a page: age %v after %v", cost, Age(got), Age(max(last, 0)))
		}
		last = got
	}
	if last < 12 {
		t.Errorf("at 10 ms a page the age is %v, like on a fast tier", Age(last))
	}
}
