package laws

import (
	"math"
	"testing"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
)

// What is known to be wrong with the originals. Each test says whether it is behaviour, which the law here keeps, or
// a slip, which it does not: a slip is written out in the test alone.

// TestSwapValidationIsInverted, a slip, not in the law: validateSwap of Senpai.cpp says in its comment that it wants
// swap utilisation below the threshold and returns whether it is at or above it. It is off by default; switched on, it
// stops offloading while swap is free and allows it only once swap is four fifths full.
func TestSwapValidationIsInverted(t *testing.T) {
	const threshold = 0.8
	asWritten := func(used float64) (mayReclaim bool) { return used >= threshold }
	asMeant := func(used float64) (mayReclaim bool) { return used < threshold }
	for _, used := range []float64{0, 0.5, 0.79, 0.8, 0.99} {
		if asWritten(used) == asMeant(used) {
			t.Errorf("at %.2f both agree: this is not the slip", used)
		}
	}
	full := policy.Sample{Period: oomdPause, Usage: 1 << 30, Anon: 1 << 30, SwapFree: 1 << 30, PSI: true}
	if d := NewOomd().Decide(full); d.Step == 0 {
		t.Errorf("the law here takes nothing while swap is free: %s", d.Detail)
	}
	full.SwapFull = true
	if d := NewOomd().Decide(full); d.Step != 0 {
		t.Errorf("the law here takes %d although swap is full", d.Step)
	}
}

// TestIntegerErrorIsAStaircase, a slip of oomd's other mode, not in senpai2019, whose original divides floats: the
// error is a quotient of two std::chrono durations, which is an integer. Twice less a hair over the target backs off
// like once, a quarter of what was meant.
func TestIntegerErrorIsAStaircase(t *testing.T) {
	backoff := func(err float64) float64 { return math.Min(square(err/senpaiCoeffBackoff), 1) * senpaiMaxBackoff }
	steps := map[float64]bool{}
	worst := 1.
	for stall := senpaiPressure + 100*time.Microsecond; stall < 3*senpaiPressure; stall += 100 * time.Microsecond {
		asWritten := backoff(float64(stall / senpaiPressure)) // an integer division
		asMeant := backoff(float64(stall) / float64(senpaiPressure))
		steps[asWritten] = true
		worst = math.Min(worst, asWritten/asMeant)

		l := NewSenpai2019()
		l.Decide(policy.Sample{Period: time.Second, Usage: 1 << 30, PSI: true})
		l.Decide(policy.Sample{Period: time.Second, Usage: 1 << 30, PSI: true, MemSome: stall})
		if got := float64(l.limit)/(1<<30) - 1; math.Abs(got-asMeant) > 1e-4 {
			t.Errorf("%v: the limit grew by %.4f, want %.4f", stall, got, asMeant)
		}
	}
	if len(steps) != 2 || worst > 0.27 {
		t.Errorf("%d different back-offs over 199 stalls, at worst %.2f of what was meant: want a staircase of 2, and a quarter", len(steps), worst)
	}
}

// TestLimitLeftBehind, behaviour, kept: senpai.py never takes its limit back. When it ends, for whatever reason, the
// cgroup stays in the size it had, and a workload that needs more waits in reclaim for good. The step laws leave
// nothing behind: without an agent nothing is taken.
func TestLimitLeftBehind(t *testing.T) {
	l := NewSenpai2019()
	used, need := int64(400<<20), int64(200<<20)
	period := func(alive bool) (blocked int64) {
		limit := l.Limit()
		used = max(used, need)
		if limit > 0 {
			blocked = max(0, need-limit)
			used = min(used, limit)
		}
		if alive {
			s := policy.Sample{Period: 6 * time.Second, Usage: used, PSI: true}
			if blocked > 0 {
				s.MemSome = time.Second // what does not fit stalls the cgroup for a sixth of the time
			}
			used -= l.Decide(s).Step
		}
		return blocked
	}
	for range 70 {
		if b := period(true); b > 0 {
			t.Fatalf("%d bytes blocked of a workload that needs half of what it has", b)
		}
	}
	need = 350 << 20 // the load comes back, senpai is there
	if first, second := period(true), period(true); first == 0 || second > 0 {
		t.Fatalf("blocked %d, then %d bytes: want growth to be blocked for one period, then the limit to give way", first, second)
	}
	for range 40 { // it goes again, and the doubled limit comes down to two thirds
		need = 200 << 20
		period(true)
	}
	need = 350 << 20 // and comes back after senpai's death
	for range 1000 {
		if period(false) == 0 {
			t.Fatal("the limit of a dead senpai gave way")
		}
	}
	t.Logf("dead for 1000 periods: %s of %s blocked", size(need-l.Limit()), size(need))
}

// TestKatalystIsBlindToAnon, behaviour, kept: accuracy is computed from activations, and a page that comes back from
// swap on a classic LRU kernel counts as one only when it had been active before. Every page it took comes back, and it
// takes on at full size.
func TestKatalystIsBlindToAnon(t *testing.T) {
	sum := func(activated bool) (taken int64) {
		l := NewKatalyst()
		s := policy.Sample{
			Period: katalystInterval, Usage: 1 << 30, Anon: 600 << 20, File: 400 << 20, InactiveAnon: 600 << 20, InactiveFile: 100 << 20,
			PSI: true, Counts: true,
		}
		for range 20 {
			d := l.Decide(s)
			taken += d.Step
			s.Stolen = uint64(d.Step / page)
			s.Scanned, s.RefaultAnon = s.Stolen, s.Stolen
			if activated {
				s.Activated = s.Stolen
			}
		}
		return taken
	}
	blind, seeing := sum(false), sum(true)
	if full := int64(20 * (1 << 30) / 100); blind < full*95/100 {
		t.Errorf("took %s of at most %s: it is not blind", size(blind), size(full))
	}
	if seeing > blind*6/10 {
		t.Errorf("where refaults are activated it still takes %s of %s", size(seeing), size(blind))
	}
	t.Logf("every page comes back: takes %s where that is not activated, %s where it is", size(blind), size(seeing))
}

// TestOnlyPressureBrakes, behaviour, kept: none of the three has a term for refaults as such. A million pages come back
// in six seconds, and without pressure or activations each goes on as before.
func TestOnlyPressureBrakes(t *testing.T) {
	for _, name := range Names() {
		var took [2]int64
		for i, back := range []uint64{0, 1e6} {
			l, err := New(name)
			if err != nil {
				t.Fatal(err)
			}
			s := policy.Sample{
				Period: 6 * time.Second, Usage: 1 << 30, Anon: 600 << 20, File: 400 << 20, InactiveAnon: 600 << 20, SwapFree: 1 << 40,
				PSI: true, Counts: true, RefaultAnon: back,
			}
			for range 30 {
				took[i] += l.Decide(s).Step
			}
		}
		if took[0] == 0 || took[0] != took[1] {
			t.Errorf("%s takes %d without refaults and %d with a million", name, took[0], took[1])
		}
	}
}
