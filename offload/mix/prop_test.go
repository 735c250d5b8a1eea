package mix

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func anySample(t *rapid.T) Sample {
	size := rapid.Int64Range(-1<<20, 1<<40)
	return Sample{
		Anon: size.Draw(t, "anon"), File: size.Draw(t, "file"), Shmem: size.Draw(t, "shmem"),
		NoSwap: rapid.Bool().Draw(t, "no swap"), SwapFull: rapid.Bool().Draw(t, "swap full"), ShortLived: rapid.Bool().Draw(t, "short"),
		Incompressible: rapid.Bool().Draw(t, "poor"), OffPool: rapid.Bool().Draw(t, "off pool"),
		Steering: Steering(rapid.IntRange(0, 2).Draw(t, "steering")),
		TookAnon: rapid.Int64().Draw(t, "took anon"), TookFile: size.Draw(t, "took file"),
		RefaultAnon: rapid.Uint64().Draw(t, "back anon"), RefaultFile: rapid.Uint64().Draw(t, "back file"),
		CostAnon: time.Duration(rapid.Int64().Draw(t, "cost anon")), CostFile: time.Duration(size.Draw(t, "cost file")),
		PoolShare: rapid.SampledFrom([]float64{0, 0.3, 1, 2, -1, math.NaN(), math.Inf(1)}).Draw(t, "share"),
	}
}

// Whatever the samples say: a choice is in range, the weight moves by one stride, and the rules hold.
func TestChoicesKeepTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New(Params{FileOnly: rapid.Bool().Draw(t, "file only")})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s, before := anySample(t), m.weight
			c := m.Choose(s)
			if c.Swappiness < KernelsChoice || c.Swappiness > MaxWeight || c.Reason == "" || c.Detail == "" {
				t.Fatalf("%+v from %+v", c, s)
			}
			if d := m.weight - before; d > stride || d < -stride || m.weight < 0 || m.weight > MaxWeight {
				t.Fatalf("weight %d → %d", before, m.weight)
			}
			s = s.sane()
			must := s.NoSwap || s.Steering != Deaf && (m.p.FileOnly || s.SwapFull || s.Incompressible && !s.OffPool ||
				s.ShortLived && s.Shmem > 0 && 2*s.Shmem >= s.Anon+s.Shmem+1)
			if must && c.Swappiness != FileOnly {
				t.Fatalf("took more than file cache: %+v from %+v", c, s)
			}
			if s.Steering == Deaf && c.Swappiness != KernelsChoice && c.Reason != NoSwap {
				t.Fatalf("told a kernel that cannot hear: %+v", c)
			}
			if s.Steering == Coarse && c.Swappiness > FileOnly {
				t.Fatalf("gave a weight to a kernel that has none: %+v", c)
			}
			for _, v := range []float64{m.anon.lost, m.anon.freed, m.file.lost, m.file.freed} {
				if math.IsNaN(v) || v < 0 {
					t.Fatalf("costs %+v %+v", m.anon, m.file)
				}
			}
		}
	})
}

// In a world where one kind is clearly dearer, the weight ends on the other side, from whichever of its sides it came.
func TestTheCheaperKindIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New(Params{})
		w := world{step: rapid.Int64Range(256<<10, 64<<20).Draw(t, "step")}
		s := Sample{Anon: 1 << 30, File: 1 << 30, Steering: Weights, CostAnon: 20 * time.Microsecond, CostFile: 20 * time.Microsecond}
		for _, anonDear := range []bool{rapid.Bool().Draw(t, "first"), rapid.Bool().Draw(t, "then")} {
			w.anonBack, w.fileBack = 0.05, 0.5
			if anonDear {
				w.anonBack, w.fileBack = w.fileBack, w.anonBack
			}
			for range 1200 { // longer than the longest pause of an exploration
				w.take(&s, m.Choose(s).Swappiness)
			}
			if anonDear && m.weight > stride || !anonDear && m.weight < MaxWeight-stride {
				t.Fatalf("anonymous memory dear: %v; the weight is %d", anonDear, m.weight)
			}
		}
	})
}

func TestTook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		usage, swap, pool := rapid.Int64Range(-1<<40, 1<<40).Draw(t, "usage"), rapid.Int64Range(-1<<40, 1<<40).Draw(t, "swap"), rapid.Int64Range(-1<<40, 1<<40).Draw(t, "pool")
		anon, file := Took(usage, swap, rapid.Uint64().Draw(t, "back"), pool)
		if anon < 0 || file < 0 || anon+file != max(0, usage)+max(0, pool) {
			t.Fatalf("%d + %d of %d", anon, file, usage)
		}
	})
	// v2 charges the pool to the cgroup: 4 MiB of anonymous memory that shrank to 1 MiB and 2 MiB of file cache show as
	// 5 MiB less.
	if anon, file := Took(5<<20, 4<<20, 0, 1<<20); anon != 4<<20 || file != 2<<20 {
		t.Errorf("anon %d, file %d", anon, file)
	}
}

func TestLivesAreBounded(t *testing.T) {
	var l Lives
	for i := range 3 * maxBroods {
		l.Died(string(rune('a'+i%26))+time.Duration(i).String(), time.Minute)
	}
	if len(l.broods) > maxBroods {
		t.Errorf("%d broods", len(l.broods))
	}
}

func TestPoolNeverOverflows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Pool
		var age time.Duration
		for range 40 {
			age += time.Duration(rapid.Int64Range(0, int64(10*time.Hour)).Draw(t, "age"))
			p.Note(Growth{Own: rapid.Bool().Draw(t, "own"), Mixed: rapid.Bool().Draw(t, "mixed"), Out: rapid.Int64().Draw(t, "out"),
				Stored: rapid.Int64().Draw(t, "stored"), Pool: rapid.Int64().Draw(t, "pool")}, age)
			if share, _ := p.Share(); math.IsNaN(share) || share < 0 || share > 2 {
				t.Fatalf("share %v", share)
			}
			if poor, why := p.Incompressible(); poor == (why == "") || p.retest > lastRetest {
				t.Fatalf("%v %q %v", poor, why, p.retest)
			}
		}
	})
}
