package workloads

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/spillway-io/spillway/bench/workloads/rig"
	"github.com/spillway-io/spillway/offload/demo/load"
)

// Result is what one pair measured. Latencies are in microseconds from when a request was due, sizes in bytes.
type Result struct {
	Workload, Law string
	AA            Summary // p99 of a over b, second by second, with both off
	Halves        []Half
	Leftovers     []string
}

// Half is one half: twin On under the law, the other off.
type Half struct {
	On     int
	Ratio  []float64 // p99 of the one over the other's, second by second
	Twins  [2]Twin
	Pool   int64 // growth of the compressed pool, host-wide
	Stored int64 // growth of what it holds
	Out    int64 // bytes that left for swap, host-wide
	Device int64 // of them, bytes that went to the swap device
	Poor   int64 // pages that zswap refused; -1 unknown
	Dying  int   // growth of the kernel's count of memory cgroups
}

// Twin is one twin in one half.
type Twin struct {
	Start, End    int64   // resident
	Saving        float64 // net, share of Start, mean of the half's end
	P50, P99      float64
	Throughput    float64 // requests a second
	MajorPer1000  float64 // major faults per 1,000 requests
	RefaultPer1k  float64 // pages that came back, from swap and files, per 1,000 requests; reads of files are no faults
	Stall         float64 // share of time in memory PSI "some"
	LimitStalls   uint64
	OOMKills      uint64
	Steps         int
	Taken         int64
	Reasons       map[string]int
	requests      int64
	major, refult uint64
}

// ratios is the p99 of twin over to the other's, second by second.
func (s *stage) ratios(p span, over int) (out []float64) {
	for _, x := range s.pairs(p) {
		a, b := float64(x.of[over].ValueAtQuantile(99)), float64(x.of[1-over].ValueAtQuantile(99))
		if r := a / b; b > 0 && !math.IsInf(r, 0) && !math.IsNaN(r) {
			out = append(out, r)
		}
	}
	return out
}

// half describes one half that began with sample begin.
func (s *stage) half(on int, begin rig.Sample, p span) Half {
	h := Half{On: on, Ratio: s.ratios(p, on), Poor: -1}
	in := s.rec.Between(begin.At, p.to)
	last := in[len(in)-1] // begin is in it
	h.Pool, h.Stored = last.Pool-begin.Pool, last.Stored-begin.Stored
	h.Out, h.Device = 4096*int64(last.SwapOut-begin.SwapOut), 4096*(last.Device-begin.Device)
	if begin.Poor >= 0 {
		h.Poor = last.Poor - begin.Poor
	}
	h.Dying = last.Cgroups - begin.Cgroups
	for i := range s.twins {
		h.Twins[i] = s.twin(i, begin, p)
	}
	return h
}

func (s *stage) twin(i int, begin rig.Sample, p span) Twin {
	all, ps := load.NewHistogram(), s.pairs(p)
	for _, x := range ps {
		all.Merge(x.of[i])
	}
	t := Twin{
		Start: begin.Of[i].Usage, P50: float64(all.ValueAtQuantile(50)) / 1000, P99: float64(all.ValueAtQuantile(99)) / 1000,
		requests: all.TotalCount(),
	}
	if len(ps) > 0 {
		t.Throughput = float64(t.requests) / float64(len(ps))
	}
	counted := s.rec.Between(p.from.Add(s.cfg.times().skip), p.to)
	if len(counted) > 1 {
		a, b := counted[0], counted[len(counted)-1]
		x, y := a.Of[i], b.Of[i]
		secs := b.At.Sub(a.At).Seconds()
		t.End = y.Usage
		t.major, t.refult = y.MajorFaults-x.MajorFaults, y.RefaultAnon-x.RefaultAnon+y.RefaultFile-x.RefaultFile
		t.LimitStalls, t.OOMKills = y.FailCnt-x.FailCnt, y.OOMKills-x.OOMKills
		t.Stall = math.NaN()
		if x.HasPSI && y.HasPSI {
			t.Stall = float64(y.Stall.Some-x.Stall.Some) / 1e6 / secs
		}
		if n := t.Throughput * secs; n > 0 {
			t.MajorPer1000, t.RefaultPer1k = 1000*float64(t.major)/n, 1000*float64(t.refult)/n
		}
	}
	t.Saving = s.saving(i, begin, p.to)
	if s.daemon != nil {
		t.Reasons, t.Steps, t.Taken = s.daemon.Decided(s.twins[i].Member, p.from, p.to)
	}
	return t
}

// saving is by how much twin i's footprint shrank since begin, mean over the end of a half, as a share of what was
// resident.
func (s *stage) saving(i int, begin rig.Sample, end time.Time) float64 {
	var xs []float64
	for _, x := range s.rec.Between(end.Add(-s.cfg.times().save), end) {
		xs = append(xs, float64(s.rec.Footprint(begin, i)-s.rec.Footprint(x, i)))
	}
	if begin.Of[i].Usage == 0 {
		return math.NaN()
	}
	return mean(xs) / float64(begin.Of[i].Usage)
}

// Net is the saving of the offloaded twin that the other did not show by itself: something else on the host, or
// the kernel, may free idle page cache too.
func (h Half) Net() float64 { return h.Twins[h.On].Saving - max(0, h.Twins[1-h.On].Saving) }

// Nets is one Net a half.
func (r *Result) Nets() (out []float64) {
	for _, h := range r.Halves {
		out = append(out, h.Net())
	}
	return out
}

// P99 sums up the ratios of all halves.
func (r *Result) P99() Summary {
	var all []float64
	for _, h := range r.Halves {
		all = append(all, h.Ratio...)
	}
	return summarize(all)
}

// Mean is the mean over the halves of what pick finds.
func (r *Result) Mean(pick func(h Half) float64) float64 {
	var xs []float64
	for _, h := range r.Halves {
		xs = append(xs, pick(h))
	}
	return mean(xs)
}

// Reasons adds up why the law decided as it did, by reason; names come sorted.
func (r *Result) Reasons() (names []string, count map[string]int) {
	count = map[string]int{}
	for _, h := range r.Halves {
		for reason, n := range h.Twins[h.On].Reasons {
			count[reason] += n
		}
	}
	return slices.Sorted(maps.Keys(count)), count
}

// Summary is a sample's median and quartiles; NaN of nothing.
type Summary struct {
	N              int
	Median, Q1, Q3 float64
}

func summarize(xs []float64) Summary {
	s := slices.Sorted(slices.Values(xs))
	return Summary{len(s), quantile(s, 0.5), quantile(s, 0.25), quantile(s, 0.75)}
}

// quantile interpolates between the two nearest of the sorted values; NaN without any.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// mean is NaN of nothing.
func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
