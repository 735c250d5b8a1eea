package replay

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
)

// Setting is what gswap can be told: K, S and P of the paper.
type Setting struct {
	Percentile float64       `json:"percentile"` // of past best ages, in (0,100]
	Warmup     time.Duration `json:"-"`          // in which nothing is taken
	Promotion  float64       `json:"promotion"`  // target for choosing ages, share of the working set a minute, in (0,1)
}

// Published is the setting of policy.Defaults.
func Published() Setting {
	p := policy.Defaults(policy.GSwap)
	return Setting{Percentile: p.Percentile, Warmup: p.Warmup, Promotion: p.Promotion}
}

// Result is what one setting did to a trace.
type Result struct {
	Setting
	WarmupSeconds float64 `json:"warmup"`
	// Saved is the share of all memory that was stored, before compression, averaged over byte-minutes.
	Saved float64 `json:"saved"`
	// Stored is the share of the memory idle for policy.Age(0) that was stored.
	Stored float64 `json:"stored"`
	// P50 and P98 are promotions a minute as shares of the working set, over all job-minutes; exact to 3 %.
	P50 float64 `json:"p50"`
	P98 float64 `json:"p98"`
	// Over is the share of job-minutes with more promotions than the target.
	Over float64 `json:"over"`
	// ColdStart is the share of the memory idle for policy.Age(0) that was not stored because its job was too young.
	ColdStart float64 `json:"cold_start"`
}

// tally gathers a Result. Sums are in bytes times intervals.
type tally struct {
	set              Setting
	past             policy.Threshold // of the present job
	saved, coldStart float64
	over, intervals  uint64
	rates            rates
}

// replayer walks a trace once for all settings.
type replayer struct {
	target  float64 // promotions a minute as a share of the working set
	minutes float64 // an interval has
	each    []tally

	jobs, intervals int
	memory, cold    float64
	first, last     time.Duration
	jobCold         []float64
}

// maxSettings bounds what one replay compares: 6 KB each.
const maxSettings = 10_000

// lookUp is how many intervals are replayed between two looks at the context: milliseconds for a thousand settings.
const lookUp = 16

// Replay runs every setting over the trace in one pass. target is the promotion rate that Result.Over compares
// with, which need not be the one the settings choose ages by. progress, if not nil, hears how many jobs are done. When
// ctx ends so does the replay, within a job too, with its cause.
func Replay(ctx context.Context, t Trace, target float64, settings []Setting, progress func(jobs int)) (Fleet, []Result, error) {
	if t.Interval <= 0 || !(target > 0 && target < 1) || len(settings) > maxSettings {
		return Fleet{}, nil, fmt.Errorf("replay: interval %v, target %v or %d settings make no sense", t.Interval, target, len(settings))
	}
	r := replayer{target: target, minutes: t.Interval.Minutes(), first: math.MaxInt64}
	for _, s := range settings {
		if _, err := policy.New(policy.GSwap, policy.Params{Percentile: s.Percentile, Warmup: s.Warmup, Promotion: s.Promotion}); err != nil {
			return Fleet{}, nil, fmt.Errorf("replay: setting %+v: %w", s, err)
		}
		r.each = append(r.each, tally{set: s})
	}
	for j, err := range t.Jobs {
		if err != nil {
			return Fleet{}, nil, err
		}
		if err := r.job(ctx, j, t.Interval); err != nil {
			return Fleet{}, nil, err
		}
		if progress != nil {
			progress(r.jobs)
		}
	}
	results := make([]Result, len(r.each))
	for i := range r.each {
		results[i] = r.each[i].result(r.memory, r.cold)
	}
	return r.fleet(), results, nil
}

func (r *replayer) job(ctx context.Context, j *Job, interval time.Duration) error {
	for i := range r.each {
		r.each[i].past = policy.Threshold{}
	}
	if ctx.Err() != nil { // a job may have no interval
		return context.Cause(ctx)
	}
	var memory, cold float64
	for i := range j.Intervals {
		if i%lookUp == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		v := &j.Intervals[i]
		var stored, promoted [policy.Ages + 1]float64 // from each age on; the last one is nothing
		for a := policy.Ages - 1; a >= 0; a-- {
			stored[a] = stored[a+1] + float64(v.Cold[a])
			promoted[a] = promoted[a+1] + float64(v.Promo[a])/r.minutes
		}
		ws := float64(v.WorkingSet)
		memory += ws + stored[0]
		cold += stored[0]
		age := j.Age + time.Duration(i)*interval
		for n := range r.each {
			r.each[n].interval(r.target, ws, age, &stored, &promoted)
		}
	}
	r.jobs++
	r.intervals += len(j.Intervals)
	r.memory += memory
	r.cold += cold
	r.first = min(r.first, j.Start)
	r.last = max(r.last, j.Start+time.Duration(len(j.Intervals))*interval)
	if memory > 0 {
		r.jobCold = append(r.jobCold, cold/memory)
	}
	return nil
}

// interval decides by what earlier intervals taught, accounts, and learns.
func (t *tally) interval(target, ws float64, age time.Duration, stored, promoted *[policy.Ages + 1]float64) {
	at := t.past.Next(t.set.Percentile)
	if age < t.set.Warmup {
		t.coldStart += stored[0]
		at = policy.Ages
	}
	t.saved += stored[at]
	rate := 0.0
	if promoted[at] > 0 {
		rate = promoted[at] / max(ws, 1)
	}
	t.intervals++
	if rate > target {
		t.over++
	}
	t.rates.add(rate)
	t.past.Observe(policy.BestAge((*[policy.Ages]float64)(promoted[:]), t.set.Promotion*ws))
}

func (t *tally) result(memory, cold float64) Result {
	r := Result{Setting: t.set, WarmupSeconds: t.set.Warmup.Seconds(), P50: t.rates.quantile(0.5), P98: t.rates.quantile(0.98)}
	if memory > 0 {
		r.Saved = t.saved / memory
	}
	if cold > 0 {
		r.Stored, r.ColdStart = t.saved/cold, t.coldStart/cold
	}
	if t.intervals > 0 {
		r.Over = float64(t.over) / float64(t.intervals)
	}
	return r
}

func (r *replayer) fleet() Fleet {
	f := Fleet{Jobs: r.jobs, Minutes: float64(r.intervals) * r.minutes}
	if r.memory > 0 {
		f.Cold = r.cold / r.memory
	}
	if span := (r.last - r.first).Minutes(); r.intervals > 0 && span > 0 {
		f.Memory = r.memory * r.minutes / span
	}
	slices.SortFunc(r.jobCold, cmp.Compare[float64])
	for i, q := range []float64{0.1, 0.5, 0.9} {
		if n := len(r.jobCold); n > 0 {
			f.JobCold[i] = r.jobCold[min(n-1, int(q*float64(n)))]
		}
	}
	return f
}
