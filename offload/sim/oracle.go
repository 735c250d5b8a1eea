package sim

import (
	"math"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
)

// Best is the smallest static size that keeps a workload within a bound.
type Best struct {
	Size    int64   // bytes
	Figures Figures // Steady, at that size
	Off     Figures // Steady, with nothing taken
	Runs    int
}

// maxBisections is enough for a size that is right to 3 % of what the workload touches.
const maxBisections = 5

// Oracle looks for the size that somebody who knew the workload would have chosen beforehand: the smallest at which
// neither the mean nor the 99th percentile of the requests is more than bound times what it is with nothing taken.
// It bisects between the floor and what the workload touches once settled, in at most five runs after that one, and
// is held from above only, 1 % a period, as an agent can. cfg has one cgroup; its Law and Observe are ignored. bound
// is at least 1. A workload without requests has no bound and is refused.
func Oracle(cfg Config, bound float64) (Best, error) {
	switch {
	case !(bound >= 1) || math.IsInf(bound, 0):
		return Best{}, invalid("bound %v is not a factor of at least 1", bound)
	case len(cfg.Cgroups) != 1:
		return Best{}, invalid("the oracle sizes one cgroup, not %d", len(cfg.Cgroups))
	}
	cfg.Law, cfg.Observe = nil, nil
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Best{}, err
	}
	e, err := newEngine(cfg)
	if err != nil {
		return Best{}, err
	}
	e.run()
	off := e.result().Cgroups[0].Steady
	if off.Requests == 0 {
		return Best{}, invalid("workload %q makes no requests, so nothing bounds its size", cfg.Cgroups[0].Workload.Name)
	}
	best := Best{Size: off.Usage, Figures: off, Off: off, Runs: 1}
	within := func(got, base time.Duration) bool { return float64(got) <= bound*float64(base) }
	low, high := cfg.Cgroups[0].Floor, min(off.Usage, e.cgroups[0].touched()*21/20) // reclaim is not exact
	for range maxBisections {
		size := max((low+high)/2, pageSize)
		cfg.Law = func() (policy.Law, error) { return fixed{size}, nil }
		r, err := Run(cfg)
		if err != nil {
			return Best{}, err
		}
		best.Runs++
		if f := r.Cgroups[0].Steady; within(f.Mean, off.Mean) && within(f.P99, off.P99) {
			high, best.Size, best.Figures = size, size, f
		} else {
			low = size
		}
	}
	return best, nil
}

// touched is the memory that was touched since the run settled, bytes.
func (c *cgroup) touched() (bytes int64) {
	for _, pg := range c.m.pages[c.first : c.first+c.n] {
		if pg.flags&alive != 0 && time.Duration(pg.last)*c.ages.tick > c.settle {
			bytes += c.pageBytes()
		}
	}
	return bytes
}

// fixed takes what exceeds a size.
type fixed struct{ size int64 }

func (fixed) Name() string { return "fixed" }

func (l fixed) Decide(s policy.Sample) policy.Decision {
	step := min(s.Usage-max(l.size, s.Floor), int64(capShare*float64(s.Usage))) / pageSize * pageSize
	if step <= 0 || s.SwapFull {
		return policy.Decision{Reason: policy.SafeSize, Detail: "takes nothing: at or below the size, or swap is full"}
	}
	return policy.Decision{Step: step, Reason: policy.Steady, Detail: "takes what is above the size"}
}
