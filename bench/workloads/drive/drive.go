// Package drive sends requests to servers on a fixed schedule, whatever protocol they speak, and measures how
// long each took from the moment it was due.
//
// Promise: open loop. A server that stalls does not slow the schedule down: what came due meanwhile is measured
// from when it was due (coordinated omission corrected). Every target gets the same keys in the same order in
// the same seconds, and the rate may follow a day of any length.
// Ownership: Run owns the clients it dials and closes them; a load.Second belongs to emit's receiver.
// Failure: an error of a client ends Run with one that names the target. A second of which a request is still
// outstanding when Run ends is not reported.
// Non-goals: pipelining. A target has Conns connections with one request each; package load pipelines.
package drive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/spillway-io/spillway/offload/demo/load"
)

// Client makes requests on one connection, one at a time.
type Client interface {
	// Do asks for what has number key and waits for the answer.
	Do(ctx context.Context, key int) error
	Close() error
}

// Scanner is a Client that can also read much at once, for Spec.Chore.
type Scanner interface {
	Scan(ctx context.Context) error
}

// Target is one server.
type Target struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // which protocol; see package client
	Addr string `json:"addr"` // unix socket
}

// Spec says what Run sends. Every target gets the whole of it.
type Spec struct {
	Targets []Target      `json:"targets"`
	Conns   int           `json:"conns"`  // connections a target; in [1,256]
	Rate    float64       `json:"rate"`   // requests a second for each target at the day's peak; in [1,50000]
	Trough  float64       `json:"trough"` // share of Rate at the day's lowest; in (0,1], 0 is 1
	Day     time.Duration `json:"day"`    // from peak to peak; 0: the rate is constant
	Keys    int           `json:"keys"`
	Cold    int           `json:"cold"`  // the first Cold keys are never asked for
	Theta   float64       `json:"theta"` // exponent of the popularity of the others; see load.Zipf
	Cycle   bool          `json:"cycle"` // ask for the keys in turn instead
	Seed    uint64        `json:"seed"`
	Chore   time.Duration `json:"chore"` // how often each target is scanned beside the requests; 0: never
	// Rest is the part of every request in which it waits by design; it is not counted.
	Rest time.Duration `json:"rest"`
	// Start is when the schedule begins; zero: at once. Two programs with one Start share their seconds.
	Start time.Time `json:"start,omitzero"`
	// Observe, if any, is told of every answered request at once, by any goroutine.
	Observe func(target int, took time.Duration) `json:"-"`
}

func (s Spec) check() error {
	switch {
	case len(s.Targets) == 0:
		return errors.New("drive: no targets")
	case !(s.Rate >= 1 && s.Rate <= 50_000):
		return fmt.Errorf("drive: rate %v outside [1,50000]", s.Rate)
	case s.Conns < 1 || s.Conns > 256:
		return fmt.Errorf("drive: %d connections outside [1,256]", s.Conns)
	case !(s.Trough >= 0 && s.Trough <= 1):
		return fmt.Errorf("drive: trough %v outside [0,1]", s.Trough)
	case s.Keys < 1:
		return fmt.Errorf("drive: %d keys", s.Keys)
	}
	return nil
}

// requests is how many come due in second n, at least one. The day is a cosine that begins at its peak.
func (s Spec) requests(n int) int {
	rate := s.Rate
	if s.Day > 0 && s.Trough > 0 {
		at := math.Cos(2 * math.Pi * (float64(n) + 0.5) / s.Day.Seconds())
		rate *= s.Trough + (1-s.Trough)*(1+at)/2
	}
	return max(1, int(math.Round(rate)))
}

// Dial makes one connection to a target.
type Dial func(ctx context.Context, t Target) (Client, error)

// drain is how long Run waits for outstanding answers after ctx ended.
const drain = 3 * time.Second

// Run sends until ctx ends and hands every finished second of every target to emit, one call at a time.
func Run(ctx context.Context, spec Spec, dial Dial, emit func(load.Second)) error {
	if err := spec.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex // one emit at a time
	errs := make([]error, len(spec.Targets))
	var flows []*flow
	defer func() {
		for _, f := range flows {
			f.close()
		}
	}()
	for i, t := range spec.Targets {
		f := &flow{spec: spec, index: i, target: t, due: make(chan due, 1<<16), open: map[int]*second{}}
		f.emit = func(s load.Second) { mu.Lock(); defer mu.Unlock(); emit(s) }
		flows = append(flows, f)
		if err := f.connect(ctx, dial); err != nil {
			return err
		}
	}
	start := spec.Start
	if start.IsZero() {
		start = time.Now().Add(20 * time.Millisecond)
	}
	for i, f := range flows {
		f.start = start
		wg.Go(func() {
			if errs[i] = f.run(ctx); errs[i] != nil {
				cancel(errs[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// flow is one target's schedule, queue and connections.
type flow struct {
	spec    Spec
	index   int
	target  Target
	start   time.Time
	clients []Client
	chore   Client // nil without a chore
	keys    *load.Keys
	turn    int
	due     chan due
	emit    func(load.Second)

	mu sync.Mutex
	// +checklocks:mu
	open map[int]*second // by number, while requests are outstanding
}

// due is one request: when the schedule wants it, and from when it is measured, both since the start.
type due struct {
	at, from time.Duration
	key      int
}

type second struct {
	load.Second
	left int
}

func (f *flow) connect(ctx context.Context, dial Dial) (err error) {
	if !f.spec.Cycle {
		if f.keys, err = load.NewKeys(f.spec.Keys, f.spec.Cold, f.spec.Theta, f.spec.Seed); err != nil {
			return err
		}
	}
	for range f.spec.Conns {
		c, err := dial(ctx, f.target)
		if err != nil {
			return fmt.Errorf("drive: %s: %w", f.target.Name, err)
		}
		f.clients = append(f.clients, c)
	}
	if f.spec.Chore > 0 {
		if f.chore, err = dial(ctx, f.target); err != nil {
			return fmt.Errorf("drive: %s: %w", f.target.Name, err)
		}
		if _, ok := f.chore.(Scanner); !ok {
			return fmt.Errorf("drive: %s: a %s client has nothing to scan", f.target.Name, f.target.Kind)
		}
	}
	return nil
}

func (f *flow) close() {
	for _, c := range f.clients {
		c.Close()
	}
	if f.chore != nil {
		f.chore.Close()
	}
}

func (f *flow) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answers, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() {
		wait(answers, drain+f.spec.Rest)
		giveUp()
	})()
	var wg sync.WaitGroup
	errs := make([]error, len(f.clients)+1)
	part := func(i int, do func() error) {
		wg.Go(func() {
			if errs[i] = do(); errs[i] != nil {
				stop()
			}
		})
	}
	for i, c := range f.clients {
		part(i, func() error { return f.work(answers, c) })
	}
	if f.chore != nil {
		part(len(f.clients), func() error { return f.chores(ctx, answers) })
	}
	f.schedule(ctx)
	close(f.due)
	wg.Wait()
	for _, err := range errs {
		if err != nil { // the others say the same
			return fmt.Errorf("drive: %s: %w", f.target.Name, err)
		}
	}
	return nil
}

// schedule queues every request when it is due. A request that came due while schedule slept and its timer
// fired late is measured from when it fired: that delay is the generator's.
func (f *flow) schedule(ctx context.Context) {
	for n := 0; ; n++ {
		count := f.spec.requests(n)
		begin := time.Duration(n) * time.Second
		gap := time.Second / time.Duration(count)
		s := &second{Second: load.Second{Target: f.index, Number: n, Start: f.start.Add(begin), Latency: load.NewHistogram()}, left: count}
		f.mu.Lock()
		f.open[n] = s
		f.mu.Unlock()
		for i := range count {
			// The targets take turns within a gap, and who goes first alternates.
			of := len(f.spec.Targets)
			d := due{at: begin + time.Duration(i)*gap + gap*time.Duration((f.index+i)%of)/time.Duration(of)}
			d.from = d.at
			if slept := time.Since(f.start); d.at > slept {
				if !wait(ctx, d.at-slept) {
					return
				}
				d.from = max(d.at, time.Since(f.start))
			}
			d.key = f.next()
			select {
			case f.due <- d:
			case <-ctx.Done():
				return
			}
		}
	}
}

// wait is a sleep that ctx ends; it says whether it was slept out.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *flow) next() int {
	if f.keys != nil {
		return f.keys.Next()
	}
	key := f.spec.Cold + f.turn
	f.turn = (f.turn + 1) % (f.spec.Keys - f.spec.Cold)
	return key
}

// work makes the requests that are due, one after the other.
func (f *flow) work(ctx context.Context, c Client) error {
	for d := range f.due {
		if err := c.Do(ctx, d.key); err != nil {
			return err
		}
		if err := f.record(d, time.Since(f.start)-d.from-f.spec.Rest); err != nil {
			return err
		}
	}
	return nil
}

// Latencies outside what load's histograms hold are counted at the nearest end.
const (
	shortest = time.Microsecond
	longest  = 2 * time.Minute
)

func (f *flow) record(d due, took time.Duration) error {
	if f.spec.Observe != nil {
		f.spec.Observe(f.index, took)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := int(d.at / time.Second)
	s := f.open[n]
	if err := s.Latency.RecordValue(int64(min(max(took, shortest), longest))); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	s.Late = max(s.Late, d.from-d.at)
	if s.left--; s.left == 0 {
		delete(f.open, n)
		f.emit(s.Second)
	}
	return nil
}

// chores scans the target at every multiple of Chore, or as soon after as the scan before has ended.
func (f *flow) chores(ctx, answers context.Context) error {
	for n := 1; ; n++ {
		if !wait(ctx, time.Duration(n)*f.spec.Chore-time.Since(f.start)) {
			return nil
		}
		if err := f.chore.(Scanner).Scan(answers); err != nil {
			return fmt.Errorf("scan: %w", err)
		}
	}
}
