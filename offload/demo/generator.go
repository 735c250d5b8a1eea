package demo

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/spillway-io/spillway/offload/demo/child"
	"github.com/spillway-io/spillway/offload/demo/load"
)

// generator is the load generator's process and what it has reported so far.
type generator struct {
	proc *child.Process
	read chan error // the end of its report

	mu sync.Mutex
	// +checklocks:mu
	seconds [2]map[int]load.Second // by target, by number
}

// startGenerator begins the reads of both twins.
func (r *rig) startGenerator() (err error) {
	task := load.Spec{Rate: r.cfg.Rate, Keys: r.cfg.Keys, Cold: r.cfg.cold(), Theta: popularity, Seed: readSeed}
	for _, t := range r.twins {
		task.Targets = append(task.Targets, load.Target{Name: t.name, Dialer: t.at})
	}
	g := &generator{read: make(chan error, 1), seconds: [2]map[int]load.Second{{}, {}}}
	_, cpus := child.Places()
	g.proc, err = r.spawn.Start(child.Spec{Name: "load generator", Args: []string{r.cfg.Exe, "demo-part", partLoad}, Task: task, CPUs: cpus})
	if err != nil {
		return err
	}
	go func() {
		err := load.Follow(g.proc.Out, func(s load.Second) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.seconds[s.Target][s.Number] = s
		})
		io.Copy(io.Discard, g.proc.Out)
		g.read <- err
	}()
	r.gen = g
	return nil
}

// ended says whether the generator is gone, which it never should be by itself.
func (g *generator) ended() error {
	select {
	case <-g.proc.Done:
		return fmt.Errorf("demo: the load generator ended: %v", g.proc.Err)
	default:
		return nil
	}
}

func (g *generator) stop() error {
	if err := g.proc.Stop(5 * time.Second); err != nil {
		return fmt.Errorf("demo: stop the load generator: %w", err)
	}
	return <-g.read
}

// pair is one second of the schedule on both twins.
type pair struct {
	start time.Time
	of    [2]*hdrhistogram.Histogram
}

// pairs returns the whole seconds within [from,to) that both twins have finished, oldest first.
func (g *generator) pairs(from, to time.Time) (ps []pair) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := range len(g.seconds[0]) + len(g.seconds[1]) {
		a, ok := g.seconds[0][n]
		b, ok2 := g.seconds[1][n]
		if !ok || !ok2 || a.Start.Before(from) || a.Start.Add(time.Second).After(to) {
			continue
		}
		ps = append(ps, pair{a.Start, [2]*hdrhistogram.Histogram{a.Latency, b.Latency}})
	}
	return ps
}

// latest is the p99 of each twin in the newest second that both have finished; zero before that.
func (g *generator) latest() (p99 [2]time.Duration) {
	now := time.Now()
	ps := g.pairs(now.Add(-10*time.Second), now)
	if len(ps) == 0 {
		return p99
	}
	for i, h := range ps[len(ps)-1].of {
		p99[i] = time.Duration(h.ValueAtQuantile(99))
	}
	return p99
}
