package sim

import (
	"flag"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-io/spillway/offload/policy"
)

var seedFlag = flag.Int("seed", 0, "run the property tests with this seed alone; 0: with 50")

const seeds = 50

// everySeed runs check with 50 seeds, or with the one of -seed. A failure says how to replay it.
func everySeed[V any](t *testing.T, any *rapid.Generator[V], check func(t *testing.T, seed int, v V)) {
	t.Helper()
	run := func(seed int) (failed bool) {
		defer func() {
			if t.Failed() {
				failed = true
				t.Logf("replay with: go test ./offload/sim -run '^%s$' -seed %d", t.Name(), seed)
			}
		}()
		check(t, seed, any.Example(seed))
		return false
	}
	if *seedFlag != 0 {
		run(*seedFlag)
		return
	}
	for seed := 1; seed <= seeds; seed++ {
		if run(seed) {
			return
		}
	}
}

// plan is one drawn run, and the law's own cap.
type plan struct {
	Config
	law     string
	maxStep float64
}

func anyTiers(t *rapid.T) Tiers {
	p50 := time.Duration(rapid.IntRange(5, 50).Draw(t, "pool µs")) * time.Microsecond
	disk := time.Duration(rapid.IntRange(60, 2000).Draw(t, "disk µs")) * time.Microsecond
	return Tiers{
		Pool: Pool{Latency{p50, 3 * p50}, rapid.Int64Range(0, 256).Draw(t, "pool MiB") * mib, rapid.Float64Range(0.2, 0.7).Draw(t, "ratio")},
		Disk: Disk{Latency{disk, 10 * disk}, rapid.Int64Range(0, 2048).Draw(t, "disk MiB") * mib},
		File: Latency{disk, 10 * disk},
	}
}

// anyPlan draws any workload under any law on any machine.
func anyPlan(t *rapid.T) plan {
	const span = 5 * time.Minute
	law := rapid.SampledFrom(policy.Names()).Draw(t, "law")
	p := policy.Params{
		Ratio:   rapid.Float64Range(0.0005, 0.05).Draw(t, "ratio"),
		MaxStep: rapid.Float64Range(0.001, 0.01).Draw(t, "max step"),
	}
	if law == policy.GSwap {
		p.Warmup = time.Minute // of the five that there are
	}
	w := rapid.SampledFrom(Workloads(span)).Draw(t, "workload")
	return plan{law: law, maxStep: p.MaxStep, Config: Config{
		Cgroups: []Cgroup{{
			Workload: w, Floor: rapid.Int64Range(0, 300).Draw(t, "floor MiB") * mib,
			Limit: rapid.SampledFrom([]int64{0, 0, 350 * mib}).Draw(t, "limit"),
		}},
		Law: Named(law, p), Reclaim: rapid.SampledFrom([]Reclaim{Classic, MGLRU}).Draw(t, "reclaim"),
		Tiers: anyTiers(t), Span: span, Scale: rapid.SampledFrom([]int{8, 16, 31}).Draw(t, "scale"),
		Period: time.Duration(rapid.SampledFrom([]int{500, 1000, 2500, 6000}).Draw(t, "period ms")) * time.Millisecond,
		Scan:   time.Duration(rapid.SampledFrom([]int{0, 10, 120}).Draw(t, "scan s")) * time.Second,
		NoPSI:  rapid.Bool().Draw(t, "no psi"), Seed: rapid.Uint64().Draw(t, "seed"),
	}}
}

// TestSteps: whatever the law, workload and machine: no step above the cap or below the floor, nothing taken that was
// not asked for, the books agree with the pages, and every page that was taken comes back when it is touched.
func TestSteps(t *testing.T) {
	t.Parallel()
	everySeed(t, rapid.Custom(anyPlan), func(t *testing.T, _ int, p plan) {
		cfg, err := p.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Observe = func(_ int, s policy.Sample, d policy.Decision) {
			if d.Step < 0 || float64(d.Step) > p.maxStep*float64(s.Usage) || d.Step > 0 && s.Usage-d.Step < s.Floor {
				t.Errorf("%s: step %d of %d, floor %d, cap %v", p.law, d.Step, s.Usage, s.Floor, p.maxStep)
			}
		}
		e, err := newEngine(cfg)
		if err != nil {
			t.Fatal(err)
		}
		e.run()
		if err := e.audit(); err != nil {
			t.Errorf("%s: %v", p.law, err)
		}
		r := e.result().Cgroups[0]
		if r.OverCap > 0 || r.BelowFloor > 0 {
			t.Errorf("%s: %d steps above the cap, %d below the floor", p.law, r.OverCap, r.BelowFloor)
		}
		page, asked, taken := int64(cfg.Scale)*pageSize, int64(0), int64(0)
		for _, at := range r.Trace {
			asked, taken = asked+at.Step, taken+at.Taken
			if taken > asked || at.Taken > at.Step+page {
				t.Fatalf("%s: at %s %d taken of %d, in all %d of %d", p.law, at.At, at.Taken, at.Step, taken, asked)
			}
		}
		c := e.cgroups[0]
		c.limit = 0
		for i := c.first; i < c.first+c.n; i++ {
			if c.m.pages[i].flags&alive == 0 {
				continue
			}
			away := c.m.pages[i].flags&resident == 0
			if waited := c.touch(i) > 0; waited != away {
				t.Fatalf("%s: page %d is away %t and waited %t", p.law, i, away, waited)
			}
			if c.touch(i) > 0 {
				t.Fatalf("%s: page %d waits twice", p.law, i)
			}
		}
		if err := e.audit(); err != nil || c.resident() != c.alive || c.pooled != 0 {
			t.Errorf("%s: %d of %d pages came back, %d are in the pool: %v", p.law, c.resident(), c.alive, c.pooled, err)
		}
	})
}

// anyStationary draws a store whose use does not change, on a machine like the demo's.
func anyStationary(t *rapid.T) plan {
	law := rapid.SampledFrom([]string{policy.Composite, policy.TMO}).Draw(t, "law")
	part := Part{
		Name: "store", Kind: rapid.SampledFrom([]Kind{Anon, Anon, File}).Draw(t, "kind"), Pattern: Zipf, Size: 400 * mib,
		Hot: rapid.Float64Range(0.15, 0.9).Draw(t, "hot"), Rate: rapid.Float64Range(1000, 6000).Draw(t, "rate"), Request: true,
	}
	return plan{law: law, Config: Config{
		Cgroups: []Cgroup{{Workload: Workload{Name: "stationary", Parts: []Part{part}}, Floor: 16 * mib}},
		Law:     Named(law, fast), Reclaim: rapid.SampledFrom([]Reclaim{Classic, MGLRU}).Draw(t, "reclaim"),
		Span: 40 * time.Minute, Scale: 8, Seed: rapid.Uint64().Draw(t, "seed"),
	}}
}

// TestConverges: under a use that does not change, both laws settle: in the last quarter the saving varies by at most
// three hundredths of the store, and the size changes its direction a few times at most.
func TestConverges(t *testing.T) {
	t.Parallel()
	everySeed(t, rapid.Custom(anyStationary), func(t *testing.T, seed int, p plan) {
		r := mustRun(t, p.Config).Cgroups[0]
		last := r.Trace[len(r.Trace)*3/4:]
		low, high := math.Inf(1), math.Inf(-1)
		sizes := make([]float64, 0, len(last))
		for _, at := range last {
			share := float64(at.Saved) / float64(at.Alive)
			low, high = min(low, share), max(high, share)
			sizes = append(sizes, float64(at.Usage))
		}
		n := turns(sizes, 0.03)
		if testing.Verbose() {
			t.Logf("seed %d: %s on %s, hot %.2f of %v: saves %.3f to %.3f, %d turns", seed, p.law, p.Reclaim,
				p.Cgroups[0].Workload.Parts[0].Hot, p.Cgroups[0].Workload.Parts[0].Kind, low, high, n)
		}
		if high-low > 0.03 {
			t.Errorf("%s: saves between %.3f and %.3f of the store", p.law, low, high)
		}
		if n > 8 {
			t.Errorf("%s: turns %d times in %d periods", p.law, n, len(last))
		}
		if high < 0.01 && p.Cgroups[0].Workload.Parts[0].Hot < 0.8 {
			t.Errorf("%s: saves nothing of a store of which %.2f is used", p.law, p.Cgroups[0].Workload.Parts[0].Hot)
		}
	})
}

// turns counts how often x changes its direction; it has turned when it is further from its last extreme than the
// share slack.
func turns(x []float64, slack float64) (n int) {
	low, high, direction := x[0], x[0], 0
	for _, v := range x {
		low, high = min(low, v), max(high, v)
		switch {
		case direction <= 0 && v > low*(1+slack):
			n -= direction
			direction, high = 1, v
		case direction >= 0 && v < high*(1-slack):
			n += direction
			direction, low = -1, v
		}
	}
	return n
}

func TestTurns(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want int
	}{
		{[]float64{100, 100, 101, 100, 99, 100}, 0},
		{[]float64{100, 90, 80, 70}, 0},
		{[]float64{100, 90, 80, 81, 82, 90, 100}, 1},
		{[]float64{100, 110, 100, 110, 100}, 3},
		{[]float64{100, 99, 98, 97, 96, 95, 96, 97, 98, 99, 100}, 1},
	} {
		if got := turns(c.x, 0.03); got != c.want {
			t.Errorf("turns(%v) = %d, want %d", c.x, got, c.want)
		}
	}
}

// anyStalled draws a store of which cold parts are read at some moments, on the lists that pressure does not see.
func anyStalled(t *rapid.T) plan {
	w := Workload{Name: "stalled", Parts: []Part{{
		Name: "store", Pattern: Zipf, Size: 400 * mib, Request: true,
		Hot: rapid.Float64Range(0.2, 0.5).Draw(t, "hot"), Rate: rapid.Float64Range(1000, 4000).Draw(t, "rate"),
	}}}
	at := 4 * time.Minute
	for range 8 {
		at += time.Duration(rapid.IntRange(20, 60).Draw(t, "after s")) * time.Second
		w.Phases = append(w.Phases, Phase{At: at, Read: rapid.Int64Range(2, 8).Draw(t, "read MiB") * mib})
	}
	return plan{Config: Config{
		Cgroups: []Cgroup{{Workload: w, Floor: 16 * mib}}, Law: Named(policy.Composite, fast),
		Span: at + 10*time.Second, Settle: time.Minute, Scale: 4, Seed: rapid.Uint64().Draw(t, "seed"),
		NoPSI: rapid.Bool().Draw(t, "no psi"),
	}}
}

// TestBrakesBlind: composite answers every stall of 5 ms/s or more within two periods by a zero step, where memory
// pressure counts none of it or cannot be read.
func TestBrakesBlind(t *testing.T) {
	t.Parallel()
	stalls := 0
	everySeed(t, rapid.Custom(anyStalled), func(t *testing.T, _ int, p plan) {
		r := mustRun(t, p.Config).Cgroups[0]
		for _, ph := range p.Cgroups[0].Workload.Phases {
			i := slices.IndexFunc(r.Trace, func(at Point) bool { return at.At > ph.At })
			at := r.Trace[i]
			if at.Stall < time.Duration(hurtShare*float64(time.Second)) {
				continue // most of it had come back before
			}
			stalls++
			if at.Counted > at.Stall/5 {
				t.Errorf("pressure counts %s of the %s at %s: the stall is not blind", at.Counted, at.Stall, at.At)
			}
			if at.Step != 0 && r.Trace[i+1].Step != 0 {
				t.Errorf("%s of stall at %s, and then steps of %d and %d", at.Stall, at.At, at.Step, r.Trace[i+1].Step)
			}
		}
		if f := r.Steady; f.FalseAlarms > len(r.Trace)/20 || f.Answered < f.Hurt*9/10 {
			t.Errorf("%d false alarms in %d periods; %d of %d hurt periods answered", f.FalseAlarms, len(r.Trace), f.Answered, f.Hurt)
		}
	})
	if *seedFlag == 0 && stalls < 2*seeds {
		t.Errorf("only %d stalls: the test saw nothing", stalls)
	}
}
