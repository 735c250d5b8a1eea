package sim

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/spillway-io/spillway/offload/heat"
	"github.com/spillway-io/spillway/offload/policy"
)

// fast makes a law do in minutes what production does in hours, as the demo does.
var fast = policy.Params{Ratio: 0.01}

// quick is a run of w at a sixteenth of its size.
func quick(w Workload) Config {
	return Config{
		Cgroups: []Cgroup{{Workload: w, Floor: 16 * mib}}, Law: Named(policy.Composite, fast),
		Span: 15 * time.Minute, Scale: 16, Seed: 1,
	}
}

func workload(t testing.TB, name string, span time.Duration) Workload {
	t.Helper()
	w, ok := WorkloadNamed(name, span)
	if !ok {
		t.Fatalf("no workload %q", name)
	}
	return w
}

func mustRun(t testing.TB, cfg Config) Result {
	t.Helper()
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRefuses: what makes no sense is an error that says what would.
func TestRefuses(t *testing.T) {
	good := workload(t, "zipf", time.Minute)
	part := func(change func(*Part)) func(*Config) {
		return func(c *Config) {
			w := good
			w.Parts = []Part{good.Parts[0]}
			change(&w.Parts[0])
			c.Cgroups = []Cgroup{{Workload: w}}
		}
	}
	for name, change := range map[string]func(*Config){
		"no cgroup":       func(c *Config) { c.Cgroups = nil },
		"no parts":        func(c *Config) { c.Cgroups = []Cgroup{{}} },
		"model":           func(c *Config) { c.Reclaim = 7 },
		"period":          func(c *Config) { c.Period = -1 },
		"span":            func(c *Config) { c.Span = time.Millisecond },
		"settle":          func(c *Config) { c.Settle = time.Hour },
		"scale":           func(c *Config) { c.Scale = -3 },
		"ratio":           func(c *Config) { c.Tiers.Pool.Ratio = 1.5 },
		"capacity":        func(c *Config) { c.Tiers.Disk.Capacity = -1 },
		"law":             func(c *Config) { c.Law = Named("unheard of", fast) },
		"law's own error": func(c *Config) { c.Law = func() (policy.Law, error) { return nil, errors.ErrUnsupported } },
		"size":            part(func(p *Part) { p.Size = 100 }),
		"huge":            part(func(p *Part) { p.Size = math.MaxInt64 }),
		"hot":             part(func(p *Part) { p.Hot = math.NaN() }),
		"writes":          part(func(p *Part) { p.Writes = 2 }),
		"rate":            part(func(p *Part) { p.Rate = math.Inf(1) }),
		"pattern":         part(func(p *Part) { p.Pattern = 9 }),
		"kind":            part(func(p *Part) { p.Kind = 9 }),
		"churn":           part(func(p *Part) { p.Pattern = Churn }),
		"phase": func(c *Config) {
			w := good
			w.Phases = []Phase{{Part: 3}}
			c.Cgroups = []Cgroup{{Workload: w}}
		},
	} {
		cfg := quick(good)
		change(&cfg)
		if _, err := Run(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := Oracle(quick(good), 0.5); err == nil {
		t.Error("oracle: a bound below 1 was accepted")
	}
	two := quick(good)
	two.Cgroups = append(two.Cgroups, two.Cgroups[0])
	if _, err := Oracle(two, 1.1); err == nil {
		t.Error("oracle: two cgroups were accepted")
	}
	silent := good
	silent.Parts = []Part{{Name: "idle", Size: mib}}
	if _, err := Oracle(quick(silent), 1.1); err == nil {
		t.Error("oracle: a workload without requests was accepted")
	}
}

// TestDeterministic: the same seed gives the same result to the last page, another seed another one.
func TestDeterministic(t *testing.T) {
	for _, w := range Workloads(5 * time.Minute) {
		cfg := quick(w)
		cfg.Span, cfg.Scan = 5*time.Minute, 30*time.Second
		a, b := mustRun(t, cfg), mustRun(t, cfg)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: two runs with seed %d differ", w.Name, cfg.Seed)
		}
		cfg.Scan = 0 // with ages hardly anything is taken that comes back, and then nothing depends on the seed
		a = mustRun(t, cfg)
		cfg.Seed++
		if w.Name != "sidecar" && reflect.DeepEqual(a, mustRun(t, cfg)) { // too idle to differ
			t.Errorf("%s: the seed does not matter", w.Name)
		}
	}
}

// TestScale: a scaled run tells the same story as a full one.
func TestScale(t *testing.T) {
	cfg := quick(workload(t, "zipf", 15*time.Minute))
	cfg.Scale = 1
	full := mustRun(t, cfg).Cgroups[0].Steady
	cfg.Scale = 8
	small := mustRun(t, cfg).Cgroups[0].Steady
	t.Logf("full: %.3f saved, %.1f refaults per 1,000; scaled by 8: %.3f, %.1f", full.Share, full.PerThousand, small.Share, small.PerThousand)
	if math.Abs(full.Share-small.Share) > 0.05 {
		t.Errorf("saves %.3f at full scale and %.3f at an eighth", full.Share, small.Share)
	}
}

// TestSample: every field that a law could decide on is filled, and they agree with each other.
func TestSample(t *testing.T) {
	w := Workload{Name: "all kinds", Parts: []Part{
		{Name: "anon", Pattern: Zipf, Size: 40 * mib, Hot: 0.5, Rate: 500, Request: true},
		{Name: "cache", Kind: File, Pattern: Zipf, Size: 40 * mib, Hot: 0.5, Rate: 500},
		{Name: "text", Kind: Mapped, Pattern: Zipf, Size: 20 * mib, Rate: 100},
		{Name: "tmpfs", Kind: Shmem, Pattern: Scan, Size: 20 * mib, Rate: 20},
	}}
	for _, reclaim := range []Reclaim{Classic, MGLRU} {
		cfg := quick(w)
		cfg.Scale, cfg.Reclaim, cfg.Scan, cfg.Span = 1, reclaim, 10*time.Second, 5*time.Minute
		cfg.Law = func() (policy.Law, error) { return fixed{30 * mib}, nil }
		var sum policy.Sample
		var newest *heat.Reading
		cfg.Observe = func(_ int, s policy.Sample, _ policy.Decision) {
			if s.Anon+s.File != s.Usage || s.Shmem+s.Mapped > s.File {
				t.Fatalf("anon %d + file %d of %d; shmem %d, mapped %d", s.Anon, s.File, s.Usage, s.Shmem, s.Mapped)
			}
			if s.InactiveAnon > s.Anon+s.Shmem || s.InactiveFile > s.File || s.Stolen > s.Scanned {
				t.Fatalf("inactive %d, %d of %d, %d; stolen %d of %d", s.InactiveAnon, s.InactiveFile, s.Anon, s.File, s.Stolen, s.Scanned)
			}
			sum.Mapped, sum.Shmem = sum.Mapped+s.Mapped, sum.Shmem+s.Shmem
			sum.InactiveAnon, sum.InactiveFile = sum.InactiveAnon+s.InactiveAnon, sum.InactiveFile+s.InactiveFile
			sum.RefaultAnon, sum.RefaultFile = sum.RefaultAnon+s.RefaultAnon, sum.RefaultFile+s.RefaultFile
			sum.MemSome, sum.IOSome = sum.MemSome+s.MemSome, sum.IOSome+s.IOSome
			sum.Stolen, sum.Activated, sum.Reclaimed = sum.Stolen+s.Stolen, sum.Activated+s.Activated, sum.Reclaimed+s.Reclaimed
			if s.Period != cfg.Period && s.Period != time.Second || s.Age <= 0 || s.CostAnon <= 0 || s.CostFile <= 0 || s.SwapFree <= 0 || !s.PSI || !s.Counts {
				t.Fatalf("sample %+v", s)
			}
			newest = s.Heat
			if got := s.Heat.Cold.Total(); s.Heat.Span == s.Age && got != s.Usage {
				t.Fatalf("%d bytes by age, %d used", got, s.Usage)
			}
		}
		r := mustRun(t, cfg)
		v := reflect.ValueOf(sum)
		for _, name := range []string{"Mapped", "Shmem", "InactiveAnon", "InactiveFile", "RefaultAnon", "RefaultFile", "MemSome", "IOSome", "Stolen", "Activated", "Reclaimed"} {
			if v.FieldByName(name).IsZero() {
				t.Errorf("%s: Sample.%s is always zero", reclaim, name)
			}
		}
		if stolen := int64(sum.Stolen) * pageSize; stolen != sum.Reclaimed {
			t.Errorf("%s: %d bytes stolen, %d reclaimed", reclaim, stolen, sum.Reclaimed)
		}
		if newest.WorkingSet <= 0 || newest.Cold.Colder(time.Minute) == 0 || newest.Promo.Total() == 0 {
			t.Errorf("%s: last reading %+v", reclaim, newest)
		}
		if f := r.Cgroups[0].Whole; f.Saved <= 0 || f.MeanSlowdown <= 1 || f.Accuracy <= 0 || f.Accuracy >= 1 {
			t.Errorf("%s: figures %+v", reclaim, f)
		}
	}
}

// TestAges: memory that nobody touches is as old as the run, and what comes back is promoted with the age it had.
func TestAges(t *testing.T) {
	w := Workload{Name: "idle", Parts: []Part{{Pattern: Idle, Size: 8 * mib}}, Phases: []Phase{{At: 100 * time.Second, Read: 4 * mib}}}
	cfg := Config{Cgroups: []Cgroup{{Workload: w}}, Span: 130 * time.Second, Scan: 10 * time.Second}
	var last *heat.Reading
	cfg.Observe = func(_ int, s policy.Sample, _ policy.Decision) {
		last = s.Heat
		if s.Age == 100*time.Second && (s.Heat.Cold.Colder(100*time.Second) != 8*mib || s.Heat.Promo.Total() != 0) {
			t.Errorf("before: %+v", s.Heat)
		}
	}
	mustRun(t, cfg)
	if got := last.Cold.Colder(130 * time.Second); got != 4*mib {
		t.Errorf("%d bytes are as old as the run, want %d", got, 4*mib)
	}
	if got := last.Promo.Colder(100 * time.Second); got != 4*mib || last.Promo.Total() != got {
		t.Errorf("promoted %+v, want %d bytes at 100 s", last.Promo, 4*mib)
	}
}

// TestSharedTiers: two cgroups share a pool that one of them could fill, and the host's memory.
func TestSharedTiers(t *testing.T) {
	w := workload(t, "sidecar", 10*time.Minute)
	cfg := quick(w)
	cfg.Span, cfg.Law = 10*time.Minute, func() (policy.Law, error) { return fixed{20 * mib}, nil }
	cfg.Cgroups = []Cgroup{{Name: "a", Workload: w}, {Name: "b", Workload: w}}
	cfg.Tiers = Tiers{Pool: Pool{Latency: Latency{P50: 15 * time.Microsecond}, Capacity: 16 * mib}, Disk: DefaultTiers().Disk}
	r := mustRun(t, cfg)
	// What the last step wrote belongs to a period that did not come.
	if sum, all := r.Cgroups[0].Whole.Written+r.Cgroups[1].Whole.Written, r.WrittenBack*pageSize; sum == 0 || sum > all || all-sum > mib {
		t.Errorf("written back %d bytes, accounted for %d", all, sum)
	}
	if r.Cgroups[0].Name != "a" || r.Cgroups[1].Steady.Share < 0.5 {
		t.Errorf("%+v", r.Cgroups[1].Steady)
	}
	cfg.Law = Named(policy.TMO, fast)
	cfg.Memory = 10 * mib // less than they need: the host is under pressure from the start
	for _, c := range mustRun(t, cfg).Cgroups {
		if c.Whole.Saved != 0 || c.Trace[0].Reason != policy.HostPressure {
			t.Errorf("%s saved %d under host pressure, reason %s", c.Name, c.Whole.Saved, c.Trace[0].Reason)
		}
	}
}

// TestRejects: what does not compress goes to the disk, and stays when there is none.
func TestRejects(t *testing.T) {
	cfg := quick(workload(t, "incompressible", 15*time.Minute))
	cfg.Cgroups[0].Workload.Parts[0].Poor = 1
	r := mustRun(t, cfg)
	if r.Rejected == 0 || r.Cgroups[0].Whole.Written == 0 || r.Cgroups[0].Steady.Share < 0.3 {
		t.Errorf("with a disk: %d rejected, %+v", r.Rejected, r.Cgroups[0].Steady)
	}
	cfg.Tiers = DefaultTiers()
	cfg.Tiers.Disk = Disk{}
	if r := mustRun(t, cfg); r.Cgroups[0].Whole.Evicted != 0 || r.Rejected == 0 {
		t.Errorf("without a disk: %d pages went somewhere", r.Cgroups[0].Whole.Evicted)
	}
	cfg.Tiers = Tiers{File: DefaultTiers().Disk.Latency} // nor a pool: anonymous memory cannot be taken at all
	if r := mustRun(t, cfg); r.Cgroups[0].Whole.Evicted != 0 || r.Rejected != 0 {
		t.Errorf("without swap: %d pages went somewhere, %d rejected", r.Cgroups[0].Whole.Evicted, r.Rejected)
	}
}

// TestRewritesCost: reading swapped pages costs no device writes the second time, making them dirty does.
func TestRewritesCost(t *testing.T) {
	written := func(writes float64) int64 {
		w := Workload{Parts: []Part{{Pattern: Scan, Size: 64 * mib, Rate: 200, Writes: writes}}}
		cfg := quick(w)
		cfg.Law = func() (policy.Law, error) { return fixed{32 * mib}, nil }
		cfg.Tiers = Tiers{Disk: DefaultTiers().Disk}
		return mustRun(t, cfg).Cgroups[0].Steady.Written
	}
	read, rewritten := written(0), written(1)
	if read != 0 || rewritten < 64*mib {
		t.Errorf("wrote %d bytes for a loop that reads and %d for one that writes", read, rewritten)
	}
}

// TestChurnPins: tmpfs of jobs that is in swap when the job goes pins its cgroup; that is counted.
func TestChurnPins(t *testing.T) {
	cfg := quick(workload(t, "shmem-churn", 15*time.Minute))
	c := mustRun(t, cfg).Cgroups[0]
	if c.Pinned == 0 {
		t.Error("a law that knows nothing of jobs pinned no page")
	}
	cfg.Law = nil
	if c = mustRun(t, cfg).Cgroups[0]; c.Pinned != 0 || c.Whole.Evicted != 0 {
		t.Errorf("without a law %d pages are pinned, %d evicted", c.Pinned, c.Whole.Evicted)
	}
}

// limiter holds a cgroup at a size by a limit.
type limiter struct{ size int64 }

func (limiter) Name() string                         { return "limiter" }
func (limiter) Decide(policy.Sample) policy.Decision { return policy.Decision{} }
func (l limiter) Limit() (limit int64, set bool)     { return l.size, l.size > 0 }
func limits(size int64) func() (policy.Law, error) {
	return func() (policy.Law, error) { return limiter{size}, nil }
}

// TestLimitStalls: a limit holds the usage down while the working set grows, and makes the workload reclaim, all of
// which pressure sees; steps to the same size let it grow.
func TestLimitStalls(t *testing.T) {
	w := workload(t, "zipf", 10*time.Minute)
	w.Phases = []Phase{{At: 5 * time.Minute, Hot: 1}}
	cfg := quick(w)
	cfg.Span, cfg.Law = 10*time.Minute, limits(150*mib)
	limited := mustRun(t, cfg).Cgroups[0]
	cfg.Law = Named(policy.Composite, fast)
	stepped := mustRun(t, cfg).Cgroups[0]
	for _, p := range limited.Trace[1:] {
		if p.Usage > 151*mib {
			t.Fatalf("%d bytes at %s under a limit of 150 MiB", p.Usage, p.At)
		}
	}
	t.Logf("limit: %s a request, %.2f of the stall counted; steps: %s, %.2f", limited.Steady.Mean, limited.Steady.CountedShare, stepped.Steady.Mean, stepped.Steady.CountedShare)
	if limited.Steady.Mean <= stepped.Steady.Mean || limited.Steady.CountedShare < 0.3 {
		t.Errorf("a limit costs %s a request, steps %s; pressure sees %.2f", limited.Steady.Mean, stepped.Steady.Mean, limited.Steady.CountedShare)
	}
	if _, ok := limited.Recovery(5 * time.Minute); ok {
		t.Error("the limited cgroup recovered without getting any memory")
	}
	if last := stepped.Trace[len(stepped.Trace)-1]; last.Usage < 200*mib {
		t.Errorf("with steps only %d bytes came back", last.Usage)
	}
}
