// Package sim runs offload laws against simulated cgroups, thousands of times faster than the clock: page by page, with
// models of the kernel's two reclaims, tiers with latencies, and eight workloads. It is pure and seeded: the same
// Config gives the same Result, on every machine.
//
// It exists to compare laws with each other and with the best size that could have been chosen beforehand (Oracle), and
// to find by property tests what a law does wrong. The laws come from outside, so that any policy.Law can be run.
//
// Invariants: a page is in memory, in the pool, on the disk or nowhere, and counted once; what was taken comes back
// when it is touched; a run allocates nothing per touch.
// Ownership: a Config is not changed; a Result belongs to the caller. A Law is made anew for every cgroup and run.
// Failure: Run refuses a Config that makes no sense, and passes on the error of a law that cannot be made.
// Non-goals: time that is not spent on pages (queues, CPU contention), read-ahead, huge pages, NUMA, dirty page
// throttling. Times are only as good as the Latency given; compare counters first.
package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload/policy"
)

// Config is one run. Zero fields take the defaults named here.
type Config struct {
	Cgroups []Cgroup                                             // at least one; they share the tiers
	Law     func() (policy.Law, error)                           // called once for each cgroup; nil: nothing is taken. See Named
	Reclaim Reclaim                                              // Classic
	Tiers   Tiers                                                // DefaultTiers
	Period  time.Duration                                        // between two decisions; 1 s
	Span    time.Duration                                        // length of the run; 30 min
	Settle  time.Duration                                        // what comes later is Steady; half the span
	Scan    time.Duration                                        // between two scans of the access tracking; 0: none, Sample.Heat is nil
	NoPSI   bool                                                 // pressure is not readable
	Memory  int64                                                // bytes of the host; Sample.HostPressure while more is in use. 0: enough
	Scale   int                                                  // pages of 4 KiB that one simulated page stands for; 1. Requests shrink likewise
	Seed    uint64                                               // of every random choice
	Observe func(cgroup int, s policy.Sample, d policy.Decision) // called for each decision; nil: not
}

// Cgroup is one cgroup under the law.
type Cgroup struct {
	Name     string // the workload's name
	Workload Workload
	Floor    int64 // bytes, as in Sample.Floor
	Limit    int64 // bytes; above it the workload itself has to reclaim, which stalls it. 0: none
}

// Limiter is a law that steers by a limit instead of steps, like the first senpai: after each decision the engine sets
// the cgroup's limit and reclaims down to it, and does not apply the step. While the limit stands, a workload that
// needs more reclaims for itself and waits for it.
type Limiter interface {
	Limit() (bytes int64, set bool)
}

// Named returns what Config.Law needs for a law of the policy package.
func Named(name string, p policy.Params) func() (policy.Law, error) {
	return func() (policy.Law, error) { return policy.New(name, p) }
}

const pageSize = 4096

// most pages of a run: links are 32 bits wide.
const maxPages = 1 << 28

func invalid(format string, a ...any) error {
	return errkind.New(errkind.Invalid, "sim: "+format, a...)
}

func (c Config) withDefaults() (Config, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Period, time.Second)
	def(&c.Span, 30*time.Minute)
	def(&c.Settle, c.Span/2)
	if c.Scale == 0 {
		c.Scale = 1
	}
	if c.Tiers == (Tiers{}) {
		c.Tiers = DefaultTiers()
	}
	if c.Tiers.Pool.Ratio == 0 {
		c.Tiers.Pool.Ratio = DefaultTiers().Pool.Ratio
	}
	if c.Tiers.File == (Latency{}) {
		c.Tiers.File = c.Tiers.Disk.Latency
	}
	if c.Tiers.File == (Latency{}) {
		c.Tiers.File = DefaultTiers().Disk.Latency
	}
	ratio := c.Tiers.Pool.Ratio
	switch {
	case len(c.Cgroups) == 0 || len(c.Cgroups) > math.MaxUint16:
		return c, invalid("%d cgroups; give 1 to %d", len(c.Cgroups), math.MaxUint16)
	case c.Reclaim > MGLRU:
		return c, invalid("unknown reclaim model %d; use Classic or MGLRU", c.Reclaim)
	case c.Period < time.Millisecond || c.Span < c.Period:
		return c, invalid("period %s and span %s; a period is at least 1 ms and the span at least a period", c.Period, c.Span)
	case c.Settle < 0 || c.Settle >= c.Span || c.Scan < 0:
		return c, invalid("settle %s outside [0, %s), or scan %s negative", c.Settle, c.Span, c.Scan)
	case c.Scale < 1 || c.Scale > 1<<16:
		return c, invalid("scale %d outside [1, 65536]", c.Scale)
	case !(ratio > 0 && ratio < 1):
		return c, invalid("compression ratio %v outside (0, 1)", ratio)
	case c.Tiers.Pool.Capacity < 0 || c.Tiers.Disk.Capacity < 0 || c.Memory < 0:
		return c, invalid("a capacity is negative; 0 means there is none")
	}
	for i := range c.Cgroups {
		if err := c.Cgroups[i].Workload.check(int64(c.Scale) * pageSize); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (w *Workload) check(page int64) error {
	share := func(v float64) bool { return v >= 0 && v <= 1 } // written so that NaN is refused
	for _, p := range w.Parts {
		switch {
		case p.Kind > Shmem || p.Pattern > Churn:
			return invalid("%s/%s: unknown kind or pattern", w.Name, p.Name)
		case p.Size < page || p.Size/page > maxPages:
			return invalid("%s/%s: size %d is not between one and %d pages of %d bytes", w.Name, p.Name, p.Size, maxPages, page)
		case !share(p.Hot) || !share(p.Writes) || !share(p.Poor):
			return invalid("%s/%s: hot %v, writes %v or poor %v outside [0, 1]", w.Name, p.Name, p.Hot, p.Writes, p.Poor)
		case !(p.Rate >= 0 && p.Rate <= 1e9):
			return invalid("%s/%s: rate %v outside [0, 1e9] touches a second", w.Name, p.Name, p.Rate)
		case p.Pattern == Churn && (p.Jobs < 2 || int64(p.Jobs) > p.Size/page || p.Every <= 0):
			return invalid("%s/%s: a churn needs at least 2 jobs of a page each, and a time between them", w.Name, p.Name)
		}
	}
	for _, ph := range w.Phases {
		if ph.Part < 0 || ph.Part >= len(w.Parts) || !share(ph.Hot) || !(ph.Load >= 0 && ph.Load <= 1e6) || ph.Read < 0 {
			return invalid("%s: phase at %s: no part %d, or hot %v, load %v or read %d out of range",
				w.Name, ph.At, ph.Part, ph.Hot, ph.Load, ph.Read)
		}
	}
	if len(w.Parts) == 0 {
		return invalid("workload %q has no parts", w.Name)
	}
	return nil
}

// Run plays cfg to its end.
func Run(cfg Config) (Result, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Result{}, err
	}
	e, err := newEngine(cfg)
	if err != nil {
		return Result{}, err
	}
	e.run()
	return e.result(), nil
}

// engine is a run.
type engine struct {
	cfg     Config
	m       *memory
	s       *store
	cgroups []*cgroup
	ticks   int // a period
	tick    time.Duration
}

func newEngine(cfg Config) (*engine, error) {
	e := &engine{cfg: cfg, m: &memory{}}
	e.ticks = int((cfg.Period + time.Second - 1) / time.Second)
	e.tick = cfg.Period / time.Duration(e.ticks)
	total := int64(0)
	for _, spec := range cfg.Cgroups {
		for _, p := range spec.Workload.Parts {
			total += p.Size / pageSize / int64(cfg.Scale)
		}
	}
	if total > maxPages {
		return nil, invalid("%d pages in all, at most %d; use a larger scale", total, maxPages)
	}
	e.m.pages = make([]page, total, total+1+int64(len(cfg.Cgroups))*kinds*generations)
	e.s = newStore(e.m, cfg.Tiers, int64(cfg.Scale))
	first := int32(0)
	for i, spec := range cfg.Cgroups {
		c := &cgroup{
			spec: spec, m: e.m, s: e.s, scale: cfg.Scale, first: first, limit: spec.Limit,
			dice: rand.NewPCG(cfg.Seed, uint64(i)+1), ages: newAges(cfg.Scan, e.tick),
			settle: cfg.Settle, minute: int32(time.Minute / e.tick),
		}
		if cfg.Law != nil {
			var err error
			if c.law, err = cfg.Law(); err != nil {
				return nil, fmt.Errorf("sim: make the law of cgroup %d: %w", i, err)
			}
		}
		c.model = model(newClassic(c))
		if cfg.Reclaim == MGLRU {
			c.model = newMGLRU(c)
		}
		c.fill(uint16(i))
		first += c.n
		e.cgroups = append(e.cgroups, c)
		e.s.cg = append(e.s.cg, c)
	}
	for _, c := range e.cgroups {
		for _, p := range c.players {
			p.start()
		}
		c.now = Point{}
	}
	return e, nil
}

func (e *engine) run() {
	for range int(e.cfg.Span / e.cfg.Period) {
		for range e.ticks {
			e.m.now++
			for _, c := range e.cgroups {
				c.play(e.tick, time.Duration(e.m.now-1)*e.tick)
			}
		}
		for i, c := range e.cgroups {
			e.decide(i, c)
		}
	}
}

// decide closes a period of one cgroup.
func (e *engine) decide(i int, c *cgroup) {
	at := time.Duration(e.m.now) * e.tick
	s := c.sample(e.cfg.Period, at)
	s.PSI = !e.cfg.NoPSI
	if !s.PSI {
		s.MemSome, s.IOSome = 0, 0
	}
	s.SwapFree, s.SwapFull = e.s.room()*int64(e.cfg.Scale), e.s.full()
	if e.cfg.Memory > 0 {
		used := e.s.used * int64(e.cfg.Scale)
		for _, c := range e.cgroups {
			used += c.usage()
		}
		s.HostPressure = used > e.cfg.Memory
	}
	s.Heat = c.ages.reading(c)
	d := c.decide(s, at)
	if e.cfg.Observe != nil {
		e.cfg.Observe(i, s, d)
	}
}
