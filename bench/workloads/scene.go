package workloads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/spillway-io/spillway/bench/workloads/client"
	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/bench/workloads/rig"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/demo/load"
)

// scene is an experiment with any number of members: no twins, so what it compares is before and after.
type scene struct {
	cfg    Config
	rig    *rig.Rig
	rec    *rig.Recorder
	daemon *rig.Daemon
	procs  []*rig.Process // that must not end
	gens   []*generator
}

// generator is a load generator and the seconds that it has reported.
type generator struct {
	proc *rig.Process
	end  chan error

	mu sync.Mutex
	// +checklocks:mu
	seconds []load.Second
}

// inScene sets up, has do measure, and takes everything down whatever came of it. left is what should not be there.
func inScene(ctx context.Context, cfg Config, setup rig.Config, do func(s *scene) error) (left []string, err error) {
	setup.Exe = cfg.Exe
	r, err := rig.Open(ctx, setup)
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	s := &scene{cfg: cfg, rig: r}
	err = do(s)
	for _, g := range s.gens {
		if e := g.proc.Stop(30 * time.Second); e != nil {
			err = errors.Join(err, fmt.Errorf("stop %s: %w", g.proc.Name, e))
		}
		err = errors.Join(err, <-g.end)
	}
	left, cerr := r.Close()
	return left, errors.Join(err, cerr)
}

// inStage is the same for twins.
func inStage(ctx context.Context, cfg Config, w Workload, do func(s *stage) error) (left []string, err error) {
	r, err := rig.Open(ctx, rig.Config{Exe: cfg.Exe, Members: []rig.Member{{Name: "a"}, {Name: "b"}}})
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	s := &stage{cfg: cfg, w: w, rig: r, seconds: [2]map[int]load.Second{{}, {}}}
	err = errors.Join(do(s), s.stopLoad())
	left, cerr := r.Close()
	return left, errors.Join(err, cerr)
}

func (s *scene) say(format string, a ...any) { fmt.Fprintf(s.cfg.Out, "  "+format+"\n", a...) }

// server starts w's server in a member's cgroup, with its data in place.
func (s *scene) server(ctx context.Context, w Workload, name string) (drive.Target, error) {
	m := *s.rig.Member(name)
	m.Name = path.Base(name) // for files
	p, addr, err := w.Start(ctx, &stage{cfg: s.cfg, w: w, rig: s.rig}, &m)
	if err != nil {
		return drive.Target{}, err
	}
	s.procs = append(s.procs, p)
	return drive.Target{Name: m.Name, Kind: w.Kind, Addr: addr}, nil
}

// program starts a part in a member's cgroup and waits until it is ready.
func (s *scene) program(ctx context.Context, name, part string, task any) error {
	cpus, _ := rig.Places()
	p, err := s.rig.Start(rig.Spec{Name: part + " " + name, Part: []string{part}, In: s.rig.Member(name), Task: task, CPUs: cpus})
	if err != nil {
		return err
	}
	s.procs = append(s.procs, p)
	return p.Ready(ctx)
}

// watch begins to record and starts the daemon, with every member off.
func (s *scene) watch(ctx context.Context) (err error) {
	if s.rec, err = s.rig.Watch(); err != nil {
		return err
	}
	st := &stage{cfg: s.cfg, rig: s.rig}
	if err := st.startDaemon(ctx); err != nil {
		return err
	}
	s.daemon = st.daemon
	return nil
}

// apply gives members their classes; those that are not named are off.
func (s *scene) apply(ctx context.Context, on map[string]class.Class) error {
	if s.daemon == nil {
		return nil
	}
	return s.daemon.Apply(ctx, on)
}

// load starts a generator.
func (s *scene) load(spec drive.Spec, name string) (*generator, error) {
	_, cpus := rig.Places()
	p, err := s.rig.Start(rig.Spec{Name: name, Part: []string{partDrive}, Task: spec, CPUs: cpus})
	if err != nil {
		return nil, err
	}
	g := &generator{proc: p, end: make(chan error, 1)}
	s.gens = append(s.gens, g)
	go func() {
		err := load.Follow(p.Out, func(x load.Second) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.seconds = append(g.seconds, x)
		})
		io.Copy(io.Discard, p.Out)
		g.end <- err
	}()
	return g, nil
}

// latency merges a target's whole seconds within p.
func (g *generator) latency(target int, p span) *hdrhistogram.Histogram {
	h := load.NewHistogram()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, x := range g.seconds {
		if x.Target == target && !x.Start.Before(p.from) && !x.Start.Add(time.Second).After(p.to) {
			h.Merge(x.Latency)
		}
	}
	return h
}

// p99 is the median over the whole seconds within p of a target's p99, in microseconds; NaN without any.
func (g *generator) p99(target int, p span) float64 {
	var xs []float64
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, x := range g.seconds {
		if x.Target == target && !x.Start.Before(p.from) && !x.Start.Add(time.Second).After(p.to) {
			xs = append(xs, float64(x.Latency.ValueAtQuantile(99))/1000)
		}
	}
	slices.Sort(xs)
	return quantile(xs, 0.5)
}

// phase lets d pass and sees to it that nothing has died.
func (s *scene) phase(ctx context.Context, name string, d time.Duration) (span, error) {
	s.say("%s (%v)", name, d)
	out := span{from: time.Now()}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	end := time.NewTimer(d)
	defer end.Stop()
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			return out, context.Cause(ctx)
		case <-end.C:
			ended = true
		case <-tick.C:
		}
		for _, p := range s.procs {
			if err := p.Ended(); err != nil {
				return out, err
			}
		}
		for _, g := range s.gens {
			if err := g.proc.Ended(); err != nil {
				return out, err
			}
		}
		if err := s.rig.Alive(ctx); err != nil {
			return out, err
		}
	}
	out.to = time.Now()
	return out, nil
}

// small is a redis of the given number of keys, the first cold of which nobody reads.
func small(cfg Config, keys, cold int) Workload {
	w := Redis(cfg)
	w.Load.Keys, w.Load.Cold = keys, cold
	w.Needs = []Program{{"redis-server", "redis-server"}}
	w.Kind = client.Redis
	return w
}
