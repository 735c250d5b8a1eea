package policy

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-io/spillway/offload/heat"
)

// anyParams draws what New accepts.
func anyParams(t *rapid.T) Params {
	share := func(name string) float64 { return rapid.Float64Range(0.0001, 0.9).Draw(t, name) }
	return Params{
		Ratio:       rapid.Float64Range(0, 1).Draw(t, "ratio"),
		MaxStep:     rapid.Float64Range(0, 0.01).Draw(t, "max step"),
		MemPressure: share("mem target"), IOPressure: share("io target"), RefaultCost: share("refault target"),
		Hold:       rapid.IntRange(0, 20).Draw(t, "hold"),
		Promotion:  share("promotion target"),
		Percentile: rapid.Float64Range(0, 100).Draw(t, "percentile"),
		Warmup:     time.Duration(rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(0, int64(time.Hour))).Draw(t, "warm-up")),
	}
}

// anySample draws one that may be calm, hurt, or senseless.
func anySample(t *rapid.T) Sample {
	stall := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, int64(time.Second)), rapid.Int64())
	pages := rapid.OneOf(rapid.Uint64Range(0, 10), rapid.Uint64Range(0, 1e5), rapid.Uint64())
	return Sample{
		Period:  time.Duration(rapid.OneOf(rapid.Just(int64(time.Second)), rapid.Int64Range(1, int64(time.Hour)), rapid.Int64()).Draw(t, "period")),
		Usage:   rapid.OneOf(rapid.Int64Range(0, 1<<20), rapid.Int64Range(0, 1<<40), rapid.Int64()).Draw(t, "usage"),
		Floor:   rapid.OneOf(rapid.Int64Range(0, 1<<30), rapid.Int64()).Draw(t, "floor"),
		PSI:     rapid.Bool().Draw(t, "psi"),
		MemSome: time.Duration(stall.Draw(t, "mem")), IOSome: time.Duration(stall.Draw(t, "io")),
		RefaultAnon: pages.Draw(t, "anon"), RefaultFile: pages.Draw(t, "file"),
		CostAnon: time.Duration(stall.Draw(t, "cost anon")), CostFile: time.Duration(stall.Draw(t, "cost file")),
		SwapFull: rapid.IntRange(0, 9).Draw(t, "swap full") == 0, HostPressure: rapid.IntRange(0, 9).Draw(t, "host") == 0,
		WritePrice: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1), rapid.Just(1.0), rapid.Just(math.NaN()), rapid.Float64()).Draw(t, "write price"),
		Reclaimed:  rapid.OneOf(rapid.Int64Range(0, 1<<30), rapid.Int64()).Draw(t, "reclaimed"),
		Age:        time.Duration(rapid.OneOf(rapid.Int64Range(0, int64(2*time.Hour)), rapid.Int64()).Draw(t, "age")),
		Heat:       anyHeat(t),
		// Learnt figures are no more to be trusted than measured ones.
		TargetScale: rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0.25, 4), rapid.Float64()).Draw(t, "scale"),
		Probe:       rapid.OneOf(rapid.Just(""), rapid.Just(""), rapid.StringN(0, 80, 400)).Draw(t, "learner"),
		// A law may use these to estimate, so they are as senseless as the rest.
		InactiveAnon: rapid.OneOf(rapid.Int64Range(0, 1<<40), rapid.Int64()).Draw(t, "inactive anon"),
		InactiveFile: rapid.OneOf(rapid.Int64Range(0, 1<<40), rapid.Int64()).Draw(t, "inactive file"),
	}
}

// anyHeat draws none, one without promotions, or a full one; a few come again, as they do between two scans.
func anyHeat(t *rapid.T) *heat.Reading {
	if rapid.IntRange(0, 4).Draw(t, "no heat") == 0 {
		return nil
	}
	histogram := func(name string) heat.Histogram {
		h := heat.Histogram{}
		idle := time.Duration(0)
		for range rapid.IntRange(0, 6).Draw(t, name) {
			h = append(h, heat.Age{Idle: idle, Bytes: rapid.OneOf(rapid.Int64Range(0, 1<<30), rapid.Int64()).Draw(t, name+" bytes")})
			idle += time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, name+" idle"))
		}
		return h
	}
	h := &heat.Reading{
		At:         time.Unix(rapid.Int64Range(0, 2000).Draw(t, "at"), 0),
		Scan:       time.Duration(rapid.OneOf(rapid.Just(int64(2*time.Minute)), rapid.Int64()).Draw(t, "scan")),
		WorkingSet: rapid.OneOf(rapid.Int64Range(0, 1<<40), rapid.Int64()).Draw(t, "working set"),
		Cold:       histogram("cold"), Source: "test",
	}
	if rapid.Bool().Draw(t, "sees promotions") {
		h.Promo = histogram("promo")
	}
	return h
}

// check states the package's invariants for one decision.
func check(t interface{ Errorf(string, ...any) }, p Params, s Sample, d Decision) {
	most := p.MaxStep
	if most == 0 {
		most = 0.01
	}
	switch {
	case d.Step < 0:
		t.Errorf("negative step %d", d.Step)
	case d.Step%page != 0:
		t.Errorf("step %d is not page aligned", d.Step)
	case d.Step > 0 && float64(d.Step) > most*float64(s.Usage)*(1+1e-12):
		t.Errorf("step %d is more than %v of %d", d.Step, most, s.Usage)
	case d.Step > 0 && s.Usage-d.Step < s.Floor:
		t.Errorf("step %d takes %d below the floor %d", d.Step, s.Usage, s.Floor)
	case d.Step > 0 && (s.HostPressure || s.SwapFull || s.WritePrice >= 1):
		t.Errorf("step %d under an outer stop", d.Step)
	case d.Step > 0 && (s.Period <= 0 || s.Usage <= 0):
		t.Errorf("step %d from a senseless sample", d.Step)
	case d.Detail == "" || len(d.Detail) > 400:
		t.Errorf("detail of %d bytes: %q", len(d.Detail), d.Detail)
	}
	switch d.Reason {
	case Steady, Eased:
		if d.Step == 0 {
			t.Errorf("%s without a step", d.Reason)
		}
	case SafeSize: // a probe or nothing
	case ColdAge: // what is cold, or nothing
		if d.Signal != coldAge {
			t.Errorf("reason %s with signal %q", d.Reason, d.Signal)
		}
	case MemPressure, IOPressure, RefaultCost, PromotionRate, Holding, SLO, WarmUp, AtFloor, HostPressure, SwapFull, WriteBudget, TooSmall, NoSignal:
		if d.Step != 0 {
			t.Errorf("%s with a step of %d", d.Reason, d.Step)
		}
	default:
		t.Errorf("unknown reason %q", d.Reason)
	}
	over := false
	for _, r := range d.Inputs {
		if math.IsNaN(r.Value) || r.Value < 0 || r.Target <= 0 {
			t.Errorf("reading %+v", r)
		}
		over = over || r.Value >= r.Target
	}
	if over && d.Step > 0 {
		t.Errorf("step %d with a signal at its target: %+v", d.Step, d.Inputs)
	}
	named := d.Reason == MemPressure || d.Reason == IOPressure || d.Reason == RefaultCost || d.Reason == PromotionRate
	if named != over {
		t.Errorf("reason %s, a signal at its target: %t", d.Reason, over)
	}
	if (d.Reason == Eased || d.Reason == ColdAge) != (d.Signal != "" && d.Step > 0) && d.Step > 0 {
		t.Errorf("reason %s with signal %q", d.Reason, d.Signal)
	}
}

func TestInvariants(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := anyParams(t)
				l, err := New(name, p)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range rapid.SliceOfN(rapid.Custom(anySample), 1, 30).Draw(t, "samples") {
					check(t, p, s, l.Decide(s))
				}
			})
		})
	}
}

// TestHoldLasts: after a back-off no step for Hold periods, whatever the samples say, unless nothing was due anyway.
func TestHoldLasts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams(t)
		p.Hold = rapid.IntRange(1, 15).Draw(t, "hold")
		l, err := New(Composite, p)
		if err != nil {
			t.Fatal(err)
		}
		l.Decide(Sample{Period: time.Second, Usage: 1 << 30, RefaultAnon: 1 << 40})
		for i := range p.Hold {
			if d := l.Decide(Sample{Period: time.Second, Usage: 1 << 30, PSI: true}); d.Step != 0 || d.Reason != Holding {
				t.Fatalf("period %d of %d after a back-off: %+v", i+1, p.Hold, d)
			}
		}
	})
}

// TestDeterministic: a law is a function of its samples; two of them never disagree.
func TestDeterministic(t *testing.T) {
	a := follow(demo(9), mustNew(t, Composite, demoParams), 200, nil)
	b := follow(demo(9), mustNew(t, Composite, demoParams), 200, nil)
	for i := range a.decisions {
		if a.decisions[i].Detail != b.decisions[i].Detail {
			t.Fatalf("period %d: %q and %q", i, a.decisions[i].Detail, b.decisions[i].Detail)
		}
	}
}

func FuzzDecide(f *testing.F) {
	f.Add(true, 0.01, 0.0, 10, int64(1e9), int64(400<<20), int64(0), int64(0), uint64(0), int64(0), uint8(1))
	f.Add(true, math.NaN(), math.Inf(1), -1, int64(0), int64(-1), int64(math.MinInt64), int64(math.MinInt64), uint64(math.MaxUint64), int64(math.MinInt64), uint8(255))
	f.Add(false, 1.0, 5e-324, math.MaxInt, int64(1), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), uint64(math.MaxUint64), int64(math.MaxInt64), uint8(1))
	f.Add(true, 1.0, 0.01, 0, int64(1), int64(math.MaxInt64), int64(-1), int64(0), uint64(3), int64(math.MaxInt64), uint8(0))
	f.Add(false, 0.01, 0.002, 0, int64(6e9), int64(400<<20), int64(16<<20), int64(0), uint64(0), int64(0), uint8(1|8|16|32))
	f.Add(false, 0.01, 0.002, 0, int64(6e9), int64(400<<20), int64(-1), int64(0), uint64(9), int64(0), uint8(8|16))
	f.Add(true, 0.01, 0.002, 0, int64(6e9), int64(math.MaxInt64), int64(16<<20), int64(0), uint64(0), int64(0), uint8(1|16|32|64))
	f.Fuzz(func(t *testing.T, composite bool, ratio, target float64, hold int, period, usage, floor, stall int64, pages uint64, cost int64, flags uint8) {
		name := TMO
		switch {
		case composite:
			name = Composite
		case flags&8 != 0:
			name = GSwap
		}
		p := Params{Ratio: ratio, MemPressure: target, IOPressure: target, RefaultCost: target, Hold: hold, Promotion: target, Warmup: 1}
		l, err := New(name, p)
		if err != nil {
			return
		}
		s := Sample{
			Period: time.Duration(period), Usage: usage, Floor: floor, PSI: flags&1 != 0,
			MemSome: time.Duration(stall), IOSome: time.Duration(stall / 2),
			RefaultAnon: pages, RefaultFile: pages / 3, CostAnon: time.Duration(cost), CostFile: time.Duration(cost / 2),
			SwapFull: flags&2 != 0, HostPressure: flags&4 != 0, Reclaimed: usage, Age: time.Hour,
		}
		if flags&16 != 0 {
			h := heat.Histogram{{Idle: time.Duration(period), Bytes: floor}, {Idle: time.Hour, Bytes: usage}}
			s.Heat = &heat.Reading{At: time.Unix(1, 0), Cold: h, WorkingSet: usage}
			if flags&32 != 0 {
				s.Heat.Promo = h
			}
		}
		scan := func() {
			if flags&64 != 0 && s.Heat != nil {
				s.Heat.At = s.Heat.At.Add(time.Minute)
			}
		}
		for range 12 {
			d := l.Decide(s)
			check(t, p, s, d)
			s.Usage -= d.Step
			scan()
		}
		s.RefaultAnon, s.RefaultFile, s.MemSome, s.IOSome = 0, 0, 0, 0
		for range 40 {
			d := l.Decide(s)
			check(t, p, s, d)
			s.Usage -= d.Step
			s.Reclaimed = d.Step
			scan()
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	cold := make(heat.Histogram, 0, heat.MaxPageAge)
	for i := range cap(cold) {
		cold = append(cold, heat.Age{Idle: time.Duration(i) * 2 * time.Minute, Bytes: 10 << 20})
	}
	for name, s := range map[string]Sample{
		"signals": {Reclaimed: 1 << 20},
		"ages":    {Heat: &heat.Reading{Scan: 2 * time.Minute, Cold: cold, Promo: heat.Histogram{}, WorkingSet: 1 << 30}},
	} {
		b.Run(name, func(b *testing.B) {
			l := mustNew(b, Composite, Params{})
			s.Period, s.Usage, s.PSI, s.RefaultAnon = 6*time.Second, 4<<30, true, 20
			at := time.Unix(0, 0)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if s.Heat != nil && n%20 == 0 {
					at = at.Add(2 * time.Minute)
					s.Heat.At = at
				}
				l.Decide(s)
			}
		})
	}
}
