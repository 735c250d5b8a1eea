package workloads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/spillway-io/spillway/bench/laws"
	"github.com/spillway-io/spillway/bench/workloads/adversary"
	"github.com/spillway-io/spillway/bench/workloads/client"
	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/bench/workloads/rig"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/demo/load"
	"github.com/spillway-io/spillway/offload/policy"
)

// twin is one of the two.
type twin struct {
	*rig.Member
	proc *rig.Process
	at   drive.Target
}

// stage is one experiment while it runs.
type stage struct {
	cfg    Config
	w      Workload
	rig    *rig.Rig
	twins  [2]*twin
	rec    *rig.Recorder
	daemon *rig.Daemon
	shared string // what Prepare made

	sources []*rig.Process // where the seconds come from: the generator, or the adversaries
	follows []chan error   // the ends of their reports

	mu sync.Mutex
	// +checklocks:mu
	seconds [2]map[int]load.Second // by twin, by number
}

// span is a phase.
type span struct{ from, to time.Time }

// Run measures one workload under one law.
func Run(ctx context.Context, cfg Config, w Workload) (res *Result, err error) {
	for _, n := range w.Needs {
		if _, err := exec.LookPath(n.Path); err != nil {
			return nil, &Missing{n}
		}
	}
	members := []rig.Member{{Name: "a", Parent: w.parent()}, {Name: "b", Parent: w.parent()}}
	r, err := rig.Open(ctx, rig.Config{Exe: cfg.Exe, Members: members})
	if err != nil {
		return nil, fmt.Errorf("%s: set up: %w", w.Name, err)
	}
	s := &stage{cfg: cfg, w: w, rig: r, seconds: [2]map[int]load.Second{{}, {}}}
	res, err = s.timeline(ctx)
	err = errors.Join(err, s.stopLoad())
	left, cerr := r.Close()
	if err = errors.Join(err, cerr); err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	res.Leftovers = left
	return res, nil
}

// parent says whether the twins' processes are in cgroups below their own.
func (w Workload) parent() bool { return w.Adversary != nil && w.Adversary.Kind == adversary.Churn }

func (s *stage) say(format string, a ...any) { fmt.Fprintf(s.cfg.Out, "  "+format+"\n", a...) }

// timeline is the experiment: A/A, half 1, everything read back, half 2.
func (s *stage) timeline(ctx context.Context) (*Result, error) {
	t := s.cfg.times()
	s.say("%s: start both twins", s.w.Name)
	if err := s.startTwins(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.rec, err = s.rig.Watch(); err != nil {
		return nil, err
	}
	if err := s.startDaemon(ctx); err != nil {
		return nil, err
	}
	if err := s.startLoad(ctx); err != nil {
		return nil, err
	}
	// Requests that rest, and what outlives them, must have become as many as they will ever be.
	if _, err := s.phase(ctx, "settle", t.settle+s.w.Load.Rest*3/2); err != nil {
		return nil, err
	}
	aa, err := s.phase(ctx, "A/A: both off", t.aa)
	if err != nil {
		return nil, err
	}
	type half struct {
		span
		begin rig.Sample
	}
	var halves [2]half
	for i := range s.twins {
		if i > 0 {
			if err := s.giveBack(ctx); err != nil {
				return nil, err
			}
		}
		if halves[i].begin, err = s.rec.Look(); err != nil {
			return nil, err
		}
		if err := s.apply(ctx, i); err != nil {
			return nil, err
		}
		name := fmt.Sprintf("half %d: %s under %s, %s off", i+1, s.twins[i].Name, s.cfg.Law, s.twins[1-i].Name)
		if halves[i].span, err = s.phase(ctx, name, t.half); err != nil {
			return nil, err
		}
		if err := s.collect(ctx); err != nil {
			return nil, err
		}
	}
	if rest := s.w.Load.Rest; rest > 0 { // a second is known once its last request has rested
		if _, err := s.phase(ctx, "wait for the last answers", rest); err != nil {
			return nil, err
		}
	}
	res := &Result{Workload: s.w.Name, Law: s.cfg.Law, AA: summarize(s.ratios(aa, 0))}
	for i, h := range halves {
		res.Halves = append(res.Halves, s.half(i, h.begin, h.span))
	}
	return res, nil
}

func (s *stage) startDaemon(ctx context.Context) (err error) {
	setup := rig.Setup{Law: s.cfg.Law, MaxPool: s.w.MaxPool, Targets: s.cfg.Targets, Ratio: rig.Ratio / float64(max(1, s.cfg.Slower))}
	switch {
	case s.cfg.Law == Off:
		return nil
	case slices.Contains(laws.Names(), s.cfg.Law):
		setup.Law, setup.Baseline = policy.Composite, s.cfg.Law
	}
	s.daemon, err = s.rig.StartDaemon(ctx, setup)
	return err
}

// apply has twin on offloaded, and the other not; -1 is neither.
func (s *stage) apply(ctx context.Context, on int) error {
	if s.daemon == nil {
		return nil
	}
	classes := map[string]class.Class{}
	if on >= 0 {
		classes[s.twins[on].Name] = class.Latency
	}
	return s.daemon.Apply(ctx, classes)
}

func (s *stage) collect(ctx context.Context) error {
	if s.daemon == nil {
		return nil
	}
	return s.daemon.Collect(ctx)
}

func (s *stage) startTwins(ctx context.Context) error {
	if s.w.Prepare != nil {
		if err := s.w.Prepare(ctx, s); err != nil {
			return err
		}
	}
	for i, name := range []string{"a", "b"} {
		t := &twin{Member: s.rig.Member(name)}
		s.twins[i] = t
		var err error
		if t.proc, t.at.Addr, err = s.w.Start(ctx, s, t.Member); err != nil {
			return err
		}
		t.at.Name, t.at.Kind = name, s.w.Kind
	}
	return nil
}

// startLoad begins the requests of both twins on one schedule.
func (s *stage) startLoad(ctx context.Context) error {
	if s.w.Adversary != nil {
		begin := s.w.Load
		begin.Start = time.Now().Add(time.Second).Truncate(time.Second)
		for i, t := range s.twins {
			begin.Targets = []drive.Target{{Name: t.Name}}
			if err := t.proc.Tell(adversary.Go{Load: begin}); err != nil {
				return fmt.Errorf("start %s: %w", t.Name, err)
			}
			s.follow(t.proc, func(x load.Second) (int, load.Second) { return i, x })
		}
		return nil
	}
	spec := s.w.Load
	for _, t := range s.twins {
		spec.Targets = append(spec.Targets, t.at)
	}
	_, cpus := rig.Places()
	p, err := s.rig.Start(rig.Spec{Name: "load generator", Part: []string{partDrive}, Task: spec, CPUs: cpus})
	if err != nil {
		return err
	}
	s.follow(p, func(x load.Second) (int, load.Second) { return x.Target, x })
	return nil
}

// follow keeps the seconds that p reports; place says of which twin one is.
func (s *stage) follow(p *rig.Process, place func(load.Second) (int, load.Second)) {
	end := make(chan error, 1)
	s.sources, s.follows = append(s.sources, p), append(s.follows, end)
	go func() {
		err := load.Follow(p.Out, func(x load.Second) {
			i, x := place(x)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.seconds[i][x.Number] = x
		})
		io.Copy(io.Discard, p.Out)
		end <- err
	}()
}

func (s *stage) stopLoad() (err error) {
	for i, p := range s.sources {
		if e := p.Stop(30 * time.Second); e != nil {
			err = errors.Join(err, fmt.Errorf("stop %s: %w", p.Name, e))
		}
		err = errors.Join(err, <-s.follows[i])
	}
	s.sources = nil
	return err
}

// giveBack switches both twins off and reads all their data once, so that the next half begins as the first did.
// An adversary goes round by itself, or has no other wish.
func (s *stage) giveBack(ctx context.Context) error {
	if err := s.apply(ctx, -1); err != nil {
		return err
	}
	if s.w.Adversary == nil {
		s.say("give back: read all data of both once")
		for _, t := range s.twins {
			if err := s.readAll(ctx, t); err != nil {
				return err
			}
		}
	}
	_, err := s.phase(ctx, "settle", s.cfg.times().settle)
	return err
}

// reader is a client that can read everything once.
type reader interface {
	Read(ctx context.Context, keys int) error
}

// filler is one that can put the data in place.
type filler interface {
	Fill(ctx context.Context, keys int, seed uint64) error
}

func (s *stage) readAll(ctx context.Context, t *twin) error {
	c, err := client.Dial(ctx, t.at)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.(reader).Read(ctx, s.w.Load.Keys)
}

// fillSeed makes both twins' data the same.
const fillSeed = 7

// fill puts the data into the server at addr.
func (s *stage) fill(ctx context.Context, addr string) error {
	c, err := client.Dial(ctx, drive.Target{Name: "fill", Kind: s.w.Kind, Addr: addr})
	if err != nil {
		return err
	}
	defer c.Close()
	return c.(filler).Fill(ctx, s.w.Load.Keys, fillSeed)
}

// phase lets d pass, sees to it that nothing has died, and returns when it began and ended.
func (s *stage) phase(ctx context.Context, name string, d time.Duration) (span, error) {
	s.say("%s (%v)", name, d)
	out := span{from: time.Now()}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return out, context.Cause(ctx)
		case <-end.C:
			out.to = time.Now()
			return out, s.alive(ctx)
		case <-tick.C:
		}
		if err := s.alive(ctx); err != nil {
			return out, err
		}
	}
}

func (s *stage) alive(ctx context.Context) error {
	for _, p := range s.sources {
		if err := p.Ended(); err != nil {
			return err
		}
	}
	for _, t := range s.twins {
		if err := t.proc.Ended(); err != nil {
			return fmt.Errorf("twin %s: %w", t.Name, err)
		}
	}
	return s.rig.Alive(ctx)
}

// pair is one second of the schedule on both twins.
type pair struct{ of [2]*hdrhistogram.Histogram }

// pairs returns the whole seconds within p, its first ones left out, that both twins have finished, oldest first.
func (s *stage) pairs(p span) (ps []pair) {
	from := p.from.Add(s.cfg.times().skip)
	s.mu.Lock()
	defer s.mu.Unlock()
	var numbers []int
	for n := range s.seconds[0] {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		a := s.seconds[0][n]
		b, ok := s.seconds[1][n]
		if !ok || a.Start.Before(from) || a.Start.Add(time.Second).After(p.to) {
			continue
		}
		ps = append(ps, pair{[2]*hdrhistogram.Histogram{a.Latency, b.Latency}})
	}
	return ps
}

// logOf is where a twin's server writes its messages.
func (s *stage) logOf(m *rig.Member) string { return s.rig.Tmp() + "/" + m.Name + ".log" }

// tail is the end of a log, for an error.
func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-500):])
}
