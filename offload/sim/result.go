package sim

import (
	"math"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
)

// Point is one period of one cgroup. Counts are of pages and requests of the real size, whatever the scale.
type Point struct {
	At    time.Duration // end of the period
	Usage int64         // bytes resident, before the step
	Alive int64         // bytes the workload holds, resident or not: the usage without offload and limit
	Saved int64         // bytes, net: Alive − Usage − what the pages take in the pool. May be negative

	Requests, Delayed        int64 // requests, and those that waited for a page
	RefaultAnon, RefaultFile int64
	Evicted, Early           int64         // pages evicted; pages that came back within a minute of their eviction
	Written                  int64         // bytes written to the disk, by evictions and by the pool's write-back
	Stall                    time.Duration // time spent waiting for pages, summed over all of them
	Counted                  time.Duration // of Stall, what memory PSI saw

	Step   int64         // bytes, what the law then decided
	Taken  int64         // bytes, what it really took
	Reason policy.Reason // "" without a law
	Braked bool          // the step is zero, and a reading of the decision is at or above its target
}

// Refaults are the pages that came back.
func (p Point) Refaults() int64 { return p.RefaultAnon + p.RefaultFile }

// Result is a run.
type Result struct {
	Cgroups     []CgroupResult
	Rejected    int64 // pages that the pool refused because they do not compress
	WrittenBack int64 // pages that went from the full pool to the disk
}

// CgroupResult is a run of one cgroup.
type CgroupResult struct {
	Name   string
	Whole  Figures
	Steady Figures // after Config.Settle
	Trace  []Point // one a period

	OverCap    int   // steps above 1 % of the usage; a law must not
	BelowFloor int   // steps that go below the floor; a law must not
	Pinned     int64 // pages that were in a tier when their job went; in a kernel they keep the dead cgroup
}

// Figures sum up a stretch of a run.
type Figures struct {
	Span  time.Duration
	Usage int64   // bytes, mean
	Saved int64   // bytes, mean, net
	Share float64 // Saved as a share of Alive

	Requests, Refaults, Evicted int64
	PerThousand                 float64 // refaults per 1,000 requests
	Accuracy                    float64 // 1 − pages back within a minute / evicted; 1 when nothing was evicted
	Written                     int64   // bytes written to the disk
	CountedShare                float64 // of the time waited for pages, what memory PSI saw; 0 when there was none

	Mean, P99                 time.Duration // of requests; 0 without requests
	MeanSlowdown, P99Slowdown float64       // over the same requests without any fault, ≥ 1

	BackOffs    int // periods in which a signal at its target stopped the law
	FalseAlarms int // of them, those with less than one thousandth of the time lost
	Hurt        int // periods in which waiting for pages took 5 ms/s or more
	Answered    int // of them, those with a zero step at their end or one period later
}

const (
	calmShare = 0.001 // of the time; TMO's target of pressure
	hurtShare = 0.005
)

func (e *engine) result() Result {
	k := int64(e.cfg.Scale)
	r := Result{Rejected: e.s.rejected * k, WrittenBack: e.s.writtenBack * k}
	for _, c := range e.cgroups {
		from := 0
		for from < len(c.trace) && c.trace[from].At <= c.settle {
			from++
		}
		name := c.spec.Name
		if name == "" {
			name = c.spec.Workload.Name
		}
		r.Cgroups = append(r.Cgroups, CgroupResult{
			Name: name, Trace: c.trace,
			Whole:  figures(c.trace, e.cfg.Period, &c.whole, c.service),
			Steady: figures(c.trace[from:], e.cfg.Period, &c.steady, c.service),

			OverCap: c.overCap, BelowFloor: c.belowFloor, Pinned: int64(c.pinned) * k,
		})
	}
	return r
}

// figures sums points up; delayed holds the requests that waited, and is filled with the others.
func figures(points []Point, period time.Duration, delayed *histogram, service *table) (f Figures) {
	f.Span = time.Duration(len(points)) * period
	var usage, saved, alive float64
	var stall, counted time.Duration
	var early, late int64
	for i, p := range points {
		usage, saved, alive = usage+float64(p.Usage), saved+float64(p.Saved), alive+float64(p.Alive)
		f.Requests, late = f.Requests+p.Requests, late+p.Delayed
		f.Refaults, f.Evicted, early = f.Refaults+p.Refaults(), f.Evicted+p.Evicted, early+p.Early
		f.Written += p.Written
		stall, counted = stall+p.Stall, counted+p.Counted
		lost := float64(p.Stall) / float64(period)
		if p.Braked {
			f.BackOffs++
			if lost < calmShare {
				f.FalseAlarms++
			}
		}
		if lost >= hurtShare {
			f.Hurt++
			if p.Step == 0 || i+1 < len(points) && points[i+1].Step == 0 {
				f.Answered++
			}
		}
	}
	if n := float64(len(points)); n > 0 {
		f.Usage, f.Saved = int64(usage/n), int64(saved/n)
	}
	if alive > 0 {
		f.Share = saved / alive
	}
	f.Accuracy = 1
	if f.Evicted > 0 {
		f.Accuracy = math.Max(0, 1-float64(early)/float64(f.Evicted))
	}
	if stall > 0 {
		f.CountedShare = float64(counted) / float64(stall)
	}
	if f.Requests == 0 {
		return f
	}
	f.PerThousand = 1000 * float64(f.Refaults) / float64(f.Requests)
	base := new(histogram)
	base.addTable(service, float64(f.Requests))
	delayed.addTable(service, math.Max(0, float64(f.Requests-late)))
	f.Mean, f.P99 = delayed.mean(), delayed.quantile(0.99)
	f.MeanSlowdown = math.Max(1, float64(f.Mean)/float64(base.mean())) // the draws of few delayed requests can be lucky
	f.P99Slowdown = math.Max(1, float64(f.P99)/float64(base.quantile(0.99)))
	return f
}

// Recovery says how long after at the refaults needed to be back at 1.2 times what they were in the minute before, give
// or take one page a second, over 5 s. ok is false when they never were.
func (r *CgroupResult) Recovery(at time.Duration) (took time.Duration, ok bool) {
	const before, window, grace = time.Minute, 5 * time.Second, 1.0
	base := r.rate(at-before, at)
	for _, p := range r.Trace {
		if p.At >= at+window && r.rate(p.At-window, p.At) <= 1.2*base+grace {
			return p.At - window - at, true
		}
	}
	return 0, false
}

// rate is the refaults a second of the periods that end in (from, to].
func (r *CgroupResult) rate(from, to time.Duration) float64 {
	var n int64
	span := time.Duration(0)
	last := time.Duration(0)
	for _, p := range r.Trace {
		if p.At > from && p.At <= to {
			n += p.Refaults()
			span += p.At - last
		}
		last = p.At
	}
	if span == 0 {
		return 0
	}
	return float64(n) / span.Seconds()
}
