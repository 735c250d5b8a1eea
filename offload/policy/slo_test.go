package policy

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestScaleMovesOneTarget: only the refault cost target moves, and only within its bounds.
func TestScaleMovesOneTarget(t *testing.T) {
	for _, c := range []struct{ scale, want float64 }{
		{0, 1}, {1, 1}, {0.5, 0.5}, {4, 4}, {100, 4}, {1e-9, 0.25}, {-3, 1}, {math.NaN(), 1}, {math.Inf(1), 1},
	} {
		l, err := New(Composite, Params{})
		if err != nil {
			t.Fatal(err)
		}
		d := l.Decide(Sample{Period: time.Second, Usage: 1 << 30, PSI: true, TargetScale: c.scale})
		def := Defaults(Composite)
		want := map[string]float64{memPSI: def.MemPressure, ioPSI: def.IOPressure, refaultCost: def.RefaultCost * c.want}
		for _, r := range d.Inputs {
			if r.Target != want[r.Signal] {
				t.Errorf("scale %v: %s has target %v, want %v", c.scale, r.Signal, r.Target, want[r.Signal])
			}
		}
	}
}

// TestNothingLearntLoosensTheBrake: whatever the learner says, pressure at its target, the host's brake and a full
// swap stop the law, with the reason they have without a learner.
func TestNothingLearntLoosensTheBrake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyParams(t)
		learnt, err := New(Composite, p)
		if err != nil {
			t.Fatal(err)
		}
		plain, _ := New(Composite, p)
		for range rapid.IntRange(1, 20).Draw(t, "periods") {
			s := anySample(t)
			s.PSI = true
			d := learnt.Decide(s)
			bare := s
			bare.TargetScale, bare.Probe = 0, ""
			want := plain.Decide(bare)
			braked := s.HostPressure || s.SwapFull || s.Period > 0 && s.Usage > 0 &&
				(s.share(s.MemSome) >= p.MemPressure || s.share(s.IOSome) >= p.IOPressure)
			if braked && d.Step != 0 {
				t.Fatalf("step %d under the brake: %+v", d.Step, s)
			}
			if braked && (want.Reason == HostPressure || want.Reason == SwapFull) && d.Reason != want.Reason {
				t.Fatalf("reason %s hides %s", d.Reason, want.Reason)
			}
			if s.Probe != "" && d.Step != 0 {
				t.Fatalf("step %d although the learner holds", d.Step)
			}
		}
	})
}

// TestProbeHolds: a hold names itself, and a back-off during it is still a back-off.
func TestProbeHolds(t *testing.T) {
	l, err := New(Composite, Params{})
	if err != nil {
		t.Fatal(err)
	}
	calm := Sample{Period: time.Second, Usage: 1 << 30, Probe: "compares"}
	if d := l.Decide(calm); d.Step != 0 || d.Reason != SLO || d.Signal != sloP99 || d.Detail != "takes nothing: compares (no pressure is readable here: braking on refaults alone)" {
		t.Errorf("%+v", d)
	}
	hurt := calm
	hurt.RefaultAnon = 1e6
	if d := l.Decide(hurt); d.Reason != RefaultCost {
		t.Errorf("%+v", d)
	}
	if d := l.Decide(calm); d.Reason != Holding {
		t.Errorf("%+v", d)
	}
}
