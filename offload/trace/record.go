package trace

import (
	"time"

	"github.com/spillway-io/spillway/offload/heat"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/replay"
)

// Refaults is the source of a trace that knows no ages.
const Refaults = "refaults"

// Recorder builds a trace from what is seen of jobs at the end of each interval. A job that is missing for an
// interval ends; seen again, it is another job of the same name. It holds the trace in memory, 280 bytes an
// interval and job. Not safe for concurrent use.
type Recorder struct {
	interval time.Duration
	source   string
	jobs     []*replay.Job
	open     map[string]*replay.Job // by name, the newest
	held     int                    // intervals of all jobs
}

// NewRecorder begins a trace; interval is whole seconds, at least one.
func NewRecorder(interval time.Duration) *Recorder {
	return &Recorder{interval: interval, source: Refaults, open: map[string]*replay.Job{}}
}

// Seen is what is known of one job at the end of an interval.
type Seen struct {
	Name     string
	Usage    int64         // bytes resident
	Refaults float64       // pages a second that came back from a tier or from files
	Heat     *heat.Reading // nil: nobody tracks accesses
}

// Add records s for interval n, counted from zero.
//
// Without ages all that is resident counts as the working set. Without promotions by age, what really came back
// counts as promoted at the oldest age: of unknown age, it must not make any threshold look good.
func (r *Recorder) Add(n int, s Seen) {
	at := time.Duration(n) * r.interval
	j := r.open[s.Name]
	if j == nil || j.Start+time.Duration(len(j.Intervals))*r.interval != at {
		j = &replay.Job{Name: s.Name, Start: at}
		if s.Heat != nil {
			j.Age = max(s.Heat.Span-r.interval, 0).Truncate(time.Second)
		}
		r.open[s.Name] = j
		r.jobs = append(r.jobs, j)
	}
	v := replay.Interval{WorkingSet: max(s.Usage, 0)}
	if h := s.Heat; h != nil {
		r.source = h.Source
		v.WorkingSet = max(h.WorkingSet, 0)
		v.Cold = binned(h.Cold, 1)
		v.Promo = binned(h.Promo, r.interval.Minutes()) // a reading's promotions are those of a minute
	}
	if s.Heat == nil || s.Heat.Promo == nil {
		v.Promo[policy.Ages-1] = int64(max(s.Refaults, 0) * r.interval.Seconds() * unit)
	}
	j.Intervals = append(j.Intervals, v)
	r.held++
}

// Held is how many intervals of all jobs are in memory.
func (r *Recorder) Held() int { return r.held }

// Jobs is how many there are.
func (r *Recorder) Jobs() int { return len(r.jobs) }

// binned puts a histogram of any bounds into those of the trace, times by. What an age falls into counts as younger.
func binned(h heat.Histogram, by float64) (out [policy.Ages]int64) {
	older := int64(0)
	for i := policy.Ages - 1; i >= 0; i-- {
		from := max(h.Colder(policy.Age(i)), older)
		out[i] = int64(float64(from-older) * by)
		older = from
	}
	return out
}

// Source names what the newest reading came from; Refaults when there was none.
func (r *Recorder) Source() string { return r.source }

// Trace is what was recorded so far.
func (r *Recorder) Trace() replay.Trace {
	return replay.Trace{Interval: r.interval, Source: r.source, Jobs: func(yield func(*replay.Job, error) bool) {
		for _, j := range r.jobs {
			if !yield(j, nil) {
				return
			}
		}
	}}
}
