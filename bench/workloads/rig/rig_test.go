package rig

import (
	"slices"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
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

// On v1 the pool's growth is put on the members by what each has in swap; on v2 it is in their usage already.
func TestFootprint(t *testing.T) {
	first := Sample{Pool: 1 << 20, Of: make([]Reading, 2)}
	now := Sample{Pool: 4 << 20, Of: make([]Reading, 2)}
	now.Of[0].Usage, now.Of[0].Swap = 100<<20, 8<<20
	now.Of[1].Usage, now.Of[1].Swap = 50<<20, 4<<20
	meta := func(swap int64) int64 { return swap / 4096 * pageMeta }
	for mode, want := range map[cgroup.Mode][2]int64{
		cgroup.Hybrid: {100<<20 + 2<<20 + meta(8<<20), 50<<20 + 1<<20 + meta(4<<20)},
		cgroup.V2:     {100<<20 + meta(8<<20), 50<<20 + meta(4<<20)},
	} {
		rec := &Recorder{mode: mode, samples: []Sample{first}}
		if got := [2]int64{rec.Footprint(now, 0), rec.Footprint(now, 1)}; got != want {
			t.Errorf("%s: footprints %v, want %v", mode, got, want)
		}
		if got := rec.Footprint(first, 0); got != 0 {
			t.Errorf("%s: nothing has footprint %d", mode, got)
		}
	}
}

func TestEnterRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {"0", "0", "", "--"}, {"x", "0", "", "--", "true"}, {"0", "0", "", "-", "true"}, {"0", "0", "/does/not/exist", "--", "true"}} {
		if err := EnterMain(args); err == nil {
			t.Errorf("%q: accepted", args)
		}
	}
}

func TestBetween(t *testing.T) {
	at := time.Unix(1000, 0)
	rec := &Recorder{}
	for i := range 5 {
		rec.samples = append(rec.samples, Sample{At: at.Add(time.Duration(i) * time.Second), Cgroups: i})
	}
	got := rec.Between(at.Add(time.Second), at.Add(3*time.Second))
	if len(got) != 3 || got[0].Cgroups != 1 || got[2].Cgroups != 3 {
		t.Errorf("between: %v", got)
	}
}
