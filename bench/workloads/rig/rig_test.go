package rig

import (
	"slices"
	"testing"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
)

// seen keeps the sample it was shown.
type seen struct{ policy.Sample }

func (*seen) Name() string { return "seen" }
func (l *seen) Decide(s policy.Sample) policy.Decision {
	l.Sample = s
	return policy.Decision{Step: 4096}
}

// Shares and rates must be what they were, and only time passes faster.
func TestDilatedKeepsSharesAndRates(t *testing.T) {
	in := policy.Sample{Period: time.Second, MemSome: 20 * time.Millisecond, IOSome: 10 * time.Millisecond, RefaultAnon: 5, RefaultFile: 7, Usage: 1 << 30, Age: time.Minute}
	l := &seen{}
	if d := (&dilated{l}).Decide(in); d.Step != 4096 {
		t.Errorf("step %d was changed", d.Step)
	}
	out := l.Sample
	if out.Period != dilation*time.Second || out.Age != dilation*time.Minute || out.Usage != in.Usage {
		t.Errorf("period %v, age %v, usage %d", out.Period, out.Age, out.Usage)
	}
	per := func(s policy.Sample) []float64 {
		p := s.Period.Seconds()
		return []float64{s.MemSome.Seconds() / p, s.IOSome.Seconds() / p, float64(s.RefaultAnon) / p, float64(s.RefaultFile) / p}
	}
	if a, b := per(in), per(out); !slices.Equal(a, b) {
		t.Errorf("rates were %v and are %v", a, b)
	}
}

func TestEnterRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {"0", "0", "", "--"}, {"x", "0", "", "--", "true"}, {"0", "0", "", "-", "true"}, {"0", "0", "/does/not/exist", "--", "true"}} {
		if err := EnterMain(args); err == nil {
			t.Errorf("%q: accepted", args)
		}
	}
}
