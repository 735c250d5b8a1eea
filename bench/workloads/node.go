package workloads

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"time"

	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/bench/workloads/rig"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/demo/workload"
)

// NodeResult is what a small node of several services saved.
type NodeResult struct {
	Members   []NodeMember
	Reads     []NodeLatency
	Faults    float64 // major faults of the two services per 1,000 requests, in the last part
	Leftovers []string
}

// NodeMember is one cgroup: what it was, and what it took at the beginning and at the end, bytes.
type NodeMember struct {
	Name  string
	Class class.Class
	Cold  float64 // share of its data that nobody touches, by design
	Start int64   // resident before the agent began, mean
	Saved int64   // by which its footprint, pool and bookkeeping included, was smaller in the last part
	Taken int64   // by the agent's steps
}

// NodeLatency is a service's p99 in µs: twice before the agent began, and in the last part.
type NodeLatency struct{ First, Before, After float64 }

// Saving is the share of all used memory that was saved, of it by the tax class and by the others.
func (r *NodeResult) Saving() (all, tax, app float64) {
	var used float64
	for _, m := range r.Members {
		used += float64(m.Start)
		if m.Class == class.Tax {
			tax += float64(m.Saved)
		} else {
			app += float64(m.Saved)
		}
	}
	return (tax + app) / used, tax / used, app / used
}

// TaxShare is how much of the used memory belongs to the tax class.
func (r *NodeResult) TaxShare() float64 {
	var used, tax float64
	for _, m := range r.Members {
		used += float64(m.Start)
		if m.Class == class.Tax {
			tax += float64(m.Start)
		}
	}
	return tax / used
}

// ColdShare is the share of the used memory that is cold by design: no law can save more of it than that, before
// compression.
func (r *NodeResult) ColdShare() float64 {
	var used, cold float64
	for _, m := range r.Members {
		used += float64(m.Start)
		cold += m.Cold * float64(m.Start)
	}
	return cold / used
}

// nodeProgram is a member of the node and what runs in it.
type nodeProgram struct {
	NodeMember
	keys    int                   // of a redis; 0: none
	sidecar *workload.SidecarSpec // or a heap
	batch   *workload.BatchSpec   // and bursts
}

// The parents of the node's members, as kubelet makes them.
const (
	pods       = "kubepods"
	burstable  = pods + "/burstable"
	bestEffort = pods + "/besteffort"
)

// nodeMix is the node. Cold shares: the published mean over services is 35 %, between 19 and 62.
func nodeMix() []nodeProgram {
	out := []nodeProgram{
		{NodeMember: NodeMember{Name: burstable + "/pod-front", Class: class.Latency, Cold: 0.25}, keys: 110_000},
		{NodeMember: NodeMember{Name: burstable + "/pod-store", Class: class.Latency, Cold: 0.45}, keys: 110_000},
		{
			NodeMember: NodeMember{Name: bestEffort + "/pod-batch", Class: class.Throughput, Cold: 0.38},
			sidecar:    &workload.SidecarSpec{Cold: 44 << 20, Hot: 44 << 20, Every: time.Second}, batch: &workload.BatchSpec{Bytes: 24 << 20, Share: 0.05},
		},
	}
	for _, name := range []string{"log-agent", "mesh-proxy", "metrics"} {
		out = append(out, nodeProgram{
			NodeMember: NodeMember{Name: burstable + "/sidecar-" + name, Class: class.Tax, Cold: 0.65},
			sidecar:    &workload.SidecarSpec{Cold: 30 << 20, Hot: 10 << 20, Every: time.Second},
		})
	}
	return out
}

// Node runs the mix for five minutes under the law, a minute when quick.
func Node(ctx context.Context, cfg Config) (*NodeResult, error) {
	mix := nodeMix()
	w := Redis(cfg)
	if _, err := exec.LookPath(w.Needs[0].Path); err != nil {
		return nil, &Missing{w.Needs[0]}
	}
	before, run, last := 15*time.Second, 5*time.Minute, 30*time.Second
	if cfg.Quick {
		before, run, last = 6*time.Second, time.Minute, 12*time.Second
	}
	setup := rig.Config{Parents: []string{pods, burstable, bestEffort}}
	classes := map[string]class.Class{}
	for _, p := range mix {
		setup.Members, classes[p.Name] = append(setup.Members, rig.Member{Name: p.Name}), p.Class
	}
	res := &NodeResult{}
	left, err := inScene(ctx, cfg, setup, func(s *scene) error {
		gens, err := s.populate(ctx, mix)
		if err != nil {
			return err
		}
		if _, err := s.phase(ctx, "settle", 4*time.Second); err != nil {
			return err
		}
		first, err := s.phase(ctx, "all off", before)
		if err != nil {
			return err
		}
		second, err := s.phase(ctx, "all off again", before)
		if err != nil {
			return err
		}
		if err := s.apply(ctx, classes); err != nil {
			return err
		}
		p, err := s.phase(ctx, "the node under "+s.cfg.Law, run)
		if err != nil {
			return err
		}
		if err := s.daemon.Collect(ctx); err != nil {
			return err
		}
		end := span{p.to.Add(-last), p.to}
		for _, g := range gens {
			res.Reads = append(res.Reads, NodeLatency{g.p99(0, first), g.p99(0, second), g.p99(0, end)})
		}
		res.Faults = s.faults(gens, end)
		for i, m := range mix {
			x := m.NodeMember
			x.Start = int64(s.mean(second, func(y rig.Sample) int64 { return y.Of[i].Usage }))
			x.Saved = int64(s.mean(second, func(y rig.Sample) int64 { return s.rec.Footprint(y, i) }) - s.mean(end, func(y rig.Sample) int64 { return s.rec.Footprint(y, i) }))
			_, _, x.Taken = s.daemon.Decided(s.rig.Member(x.Name), p.from, p.to)
			s.say("%-36s %-10s %4d MB, %3d MB saved, %d MB taken", x.Name, x.Class, x.Start/1e6, x.Saved/1e6, x.Taken/1e6)
			res.Members = append(res.Members, x)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	res.Leftovers = left
	return res, nil
}

// populate starts everything on the node and returns the services' generators.
func (s *scene) populate(ctx context.Context, mix []nodeProgram) (gens []*generator, err error) {
	var specs []drive.Spec
	for _, p := range mix {
		if p.keys > 0 {
			w := small(s.cfg, p.keys, int(p.Cold*float64(p.keys)))
			t, err := s.server(ctx, w, p.Name)
			if err != nil {
				return nil, err
			}
			w.Load.Targets, w.Load.Conns, w.Load.Rate = []drive.Target{t}, 4, 800
			specs = append(specs, w.Load)
		}
		if p.sidecar != nil {
			if err := s.program(ctx, p.Name, partSidecar, *p.sidecar); err != nil {
				return nil, err
			}
		}
		if p.batch != nil {
			if err := s.program(ctx, p.Name, partBatch, *p.batch); err != nil {
				return nil, err
			}
		}
	}
	if err := s.watch(ctx); err != nil {
		return nil, err
	}
	for _, spec := range specs {
		g, err := s.load(spec, "load generator of "+spec.Targets[0].Name)
		if err != nil {
			return nil, err
		}
		gens = append(gens, g)
	}
	return gens, nil
}

// mean is of what pick finds in a span's samples: a batch job comes in bursts.
func (s *scene) mean(p span, pick func(rig.Sample) int64) float64 {
	var xs []float64
	for _, x := range s.rec.Between(p.from, p.to) {
		xs = append(xs, float64(pick(x)))
	}
	return mean(xs)
}

// faults is how many major faults the services, which come first, had per 1,000 requests.
func (s *scene) faults(gens []*generator, p span) float64 {
	in := s.rec.Between(p.from, p.to)
	if len(in) < 2 {
		return math.NaN()
	}
	var faults uint64
	var requests int64
	for i, g := range gens {
		faults += in[len(in)-1].Of[i].MajorFaults - in[0].Of[i].MajorFaults
		requests += g.latency(0, p).TotalCount()
	}
	if requests == 0 {
		return math.NaN()
	}
	return 1000 * float64(faults) / float64(requests)
}
