package demo

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/offload/demo/load"
	"github.com/spillway-io/spillway/offload/demo/watch"
)

// Result is everything the demo measured; it is bench/out/demo.json.
type Result struct {
	Room    string          `json:"room"`
	Commit  string          `json:"commit"`
	Machine string          `json:"machine"`
	Goals   map[string]Goal `json:"goals"`

	RedisSaving        number   `json:"redis_saving"`          // net, share of the server's memory, the lesser of the two halves
	RedisP99Ratio      number   `json:"redis_p99_ratio"`       // median of the paired per-second ratios of both halves
	RedisFaultsPer1000 number   `json:"redis_faults_per_1000"` // major faults per 1,000 reads of the offloaded server
	SidecarColdGone    number   `json:"sidecar_cold_gone"`     // share of the sidecar's cold heap that left
	AARatio            number   `json:"aa_ratio"`              // as redis_p99_ratio, with both servers off
	Leftovers          int      `json:"leftovers"`
	LeftoverNames      []string `json:"leftover_names,omitempty"`

	Calibration Calibration `json:"calibration"`
	Halves      []Half      `json:"halves"`
	GiveBack    *GiveBack   `json:"give_back,omitempty"`
	Sidecar     Side        `json:"sidecar"`
	Batch       Side        `json:"batch"`
	Law         string      `json:"law"`
	Period      float64     `json:"period_seconds"`
}

// Calibration is the A/A block.
type Calibration struct {
	Ratio   summary        `json:"ratio"`
	Servers [2]ServerStats `json:"servers"`
}

// Half is one half of the experiment.
type Half struct {
	Offloaded string         `json:"offloaded"`
	Ratio     summary        `json:"ratio"` // offloaded / not, p99 second by second
	Servers   [2]ServerStats `json:"servers"`

	ratios []float64
}

// ServerStats is one server in one phase. Memory is in bytes, latencies in microseconds from when the read was due.
type ServerStats struct {
	Name          string         `json:"name"`
	Offloaded     bool           `json:"offloaded"`
	Start         int64          `json:"start_bytes"`
	End           int64          `json:"end_bytes"`
	Saved         int64          `json:"saved_net_bytes"` // mean of the phase's end
	Saving        float64        `json:"saving"`          // Saved as a share of Start
	Pool          int64          `json:"pool_bytes"`      // its part of the compressed pool at the end
	P50           float64        `json:"p50_us"`
	P99           float64        `json:"p99_us"`
	Throughput    float64        `json:"reads_per_s"`
	Reads         int64          `json:"reads"`
	MajorFaults   uint64         `json:"major_faults"`
	FaultsPer1000 float64        `json:"major_faults_per_1000_reads"`
	FailCnt       uint64         `json:"limit_stalls"`
	Decisions     map[string]int `json:"decisions,omitempty"` // by reason
	Steps         int            `json:"steps"`               // decisions with a step
	StepTook      float64        `json:"step_took_ms"`        // mean time a step blocked the worker
}

// Side is the sidecar or the batch job over the whole experiment.
type Side struct {
	Start     int64          `json:"start_bytes"`
	End       int64          `json:"end_bytes"`
	Saved     int64          `json:"saved_net_bytes"`
	Swapped   int64          `json:"swapped_bytes"`
	Decisions map[string]int `json:"decisions,omitempty"`
}

func (r *rig) newResult() *Result {
	return &Result{Room: "offload", Commit: r.node.commit, Machine: machine(), Goals: map[string]Goal{}, Law: "composite", Period: period.Seconds()}
}

func (r *rig) reportCalibration(res *Result, s span) {
	c := s.counted()
	res.Calibration.Ratio = summarize(p99Ratios(r.gen.pairs(c.from, c.to), 0))
	res.AARatio = res.Calibration.Ratio.Median
	for i := range r.twins {
		res.Calibration.Servers[i] = r.serverStats(i, s, false)
	}
}

func (r *rig) reportHalf(res *Result, on int, s span) {
	h := Half{Offloaded: r.twins[on].name}
	c := s.counted()
	h.ratios = p99Ratios(r.gen.pairs(c.from, c.to), on)
	h.Ratio = summarize(h.ratios)
	for i := range r.twins {
		h.Servers[i] = r.serverStats(i, s, i == on)
	}
	res.Halves = append(res.Halves, h)
}

// p99Ratios is the p99 of twin over to that of the other, second by second.
func p99Ratios(ps []pair, over int) []float64 {
	var p [2][]float64
	for _, s := range ps {
		for i, h := range s.of {
			p[i] = append(p[i], float64(h.ValueAtQuantile(99)))
		}
	}
	return ratios(p[over], p[1-over])
}

// serverStats describes twin i in a phase: memory from its beginning to its end, everything else without
// the seconds that do not count.
func (r *rig) serverStats(i int, s span, offloaded bool) ServerStats {
	st := ServerStats{Name: r.twins[i].name, Offloaded: offloaded}
	c := s.counted()
	ps := r.gen.pairs(c.from, c.to)
	all := load.NewHistogram()
	for _, p := range ps {
		all.Merge(p.of[i])
	}
	st.Reads = all.TotalCount()
	st.P50, st.P99 = micros(all, 50), micros(all, 99)
	if len(ps) > 0 {
		st.Throughput = float64(st.Reads) / float64(len(ps))
	}
	r.memory(&st, i, s)
	if in := r.rec.Between(c.from, c.to); len(in) > 1 {
		first, last := in[0], in[len(in)-1]
		st.MajorFaults = last.Of[i].MajorFaults - first.Of[i].MajorFaults
		st.FailCnt = last.Of[i].FailCnt - first.Of[i].FailCnt
		if reads := st.Throughput * last.At.Sub(first.At).Seconds(); reads > 0 {
			st.FaultsPer1000 = 1000 * float64(st.MajorFaults) / reads
		}
	}
	st.Decisions, st.Steps, st.StepTook = r.node.decided(r.twins[i].path, s)
	return st
}

// memory fills in the figures about memory: its start is the first sample of the phase, its saving the mean
// over the phase's end.
func (r *rig) memory(st *ServerStats, i int, s span) {
	in := r.rec.Between(s.from.Add(-time.Second), s.to)
	if len(in) == 0 {
		return
	}
	first, last := in[0], in[len(in)-1]
	st.Start, st.End = first.Of[i].Usage, last.Of[i].Usage
	st.Saved = r.savedAtEnd(i, first, s)
	st.Pool = r.rec.PoolPart(last, i)
	if st.Start > 0 {
		st.Saving = float64(st.Saved) / float64(st.Start)
	}
}

// savedAtEnd is by how much member i's footprint shrank since first, as a mean over the last saveWindow of s.
func (r *rig) savedAtEnd(i int, first watch.Sample, s span) int64 {
	var saved []float64
	for _, x := range r.rec.Between(s.to.Add(-saveWindow), s.to) {
		saved = append(saved, float64(r.rec.Footprint(first, i)-r.rec.Footprint(x, i)))
	}
	if len(saved) == 0 {
		return 0
	}
	return int64(mean(saved))
}

func micros(h *hdrhistogram.Histogram, q float64) float64 {
	return float64(h.ValueAtQuantile(q)) / 1000
}

// reportSidecar describes sidecar and batch job over everything that was recorded. Of the sidecar's cold heap
// is gone what its cgroup both lost and has in swap, which no page of a file can pretend.
func (r *rig) reportSidecar(res *Result, now time.Time) {
	in := r.rec.Between(time.Time{}, now)
	if len(in) == 0 {
		return
	}
	first := in[0]
	whole := span{first.At, now}
	for i, side := range []*Side{&res.Sidecar, &res.Batch} {
		m := i + len(r.twins)
		last := in[len(in)-1].Of[m]
		side.Start, side.End, side.Swapped = first.Of[m].Usage, last.Usage, last.Swap
		side.Saved = r.savedAtEnd(m, first, whole)
		side.Decisions, _, _ = r.node.decided(r.members()[m].path, whole)
	}
	gone := min(res.Sidecar.Start-res.Sidecar.End, res.Sidecar.Swapped)
	res.SidecarColdGone = number(max(0, float64(gone)/sidecarCold))
}

// decided counts the daemon's decisions for a cgroup in a phase by their reason.
func (n *node) decided(cgroup string, s span) (byReason map[string]int, steps int, tookMS float64) {
	byReason = map[string]int{}
	var took time.Duration
	n.each(cgroup, s, func(d admin.Decision) {
		byReason[d.Reason]++
		if d.Step > 0 {
			steps++
			took += time.Duration(d.Took)
		}
	})
	if steps > 0 {
		tookMS = float64(took.Microseconds()) / 1000 / float64(steps)
	}
	return byReason, steps, tookMS
}

// each calls f for every collected decision about a cgroup in a phase, in no order.
func (n *node) each(cgroup string, s span, f func(admin.Decision)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.decisions {
		if d.Cgroup == cgroup && !d.Time.Before(s.from) && !d.Time.After(s.to) {
			f(d)
		}
	}
}
