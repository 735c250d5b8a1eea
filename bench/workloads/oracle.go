package workloads

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"syscall"
	"time"

	"github.com/spillway-io/spillway/bench/workloads/rig"
)

// OracleResult is the best static size of a server, found on the kernel, and what a law makes of its twin in the same
// run.
type OracleResult struct {
	Law       string
	AA        Summary // p99 of a over b, second by second, both off
	AAP99     float64 // of both meanwhile, µs: by how much the one made the other wait later on
	Full      int64   // what twin a held before anything was taken, bytes
	Steps     []OracleStep
	Low, High int64 // the room that the search was left with, bytes

	Under   Half    // b under the law from its full size on, a off
	Earlier float64 // b's saving as it was before the time over which Under's is averaged: less says it still went down
	Rest    Twin    // b in the last part of it, which is as long as a step is measured

	Leftovers []string
}

// OracleStep is one size: twin a held at it, b off.
type OracleStep struct {
	Size int64 // the limit, bytes; what is resident may be less after a smaller size
	Half
	P99      float64 // median ratio over the A/A's; NaN when unknown
	Feasible bool    // P99 is within OracleBound
	Sure     bool    // and chance hardly changes that
	Reached  bool    // false: the kernel refused to go that low, and nothing was measured
}

// Majors is the offloaded twin's major faults per 1,000 requests.
func (x OracleStep) Majors() float64 { return x.Twins[x.On].MajorPer1000 }

// oracleTimes are how long the A/A takes, a size is held before it is measured, it is measured, it is measured in
// addition when that left it doubtful, and the law has.
type oracleTimes struct {
	tries                        int
	aa, hold, measure, more, law time.Duration
}

func (c Config) oracleTimes() oracleTimes {
	if c.Quick {
		return oracleTimes{2, 8 * time.Second, 3 * time.Second, 7 * time.Second, 2 * time.Second, 14 * time.Second}
	}
	// At 1 % a second the law is down to 40 % after 92 s.
	return oracleTimes{5, 25 * time.Second, 15 * time.Second, 20 * time.Second, 10 * time.Second, 115 * time.Second}
}

// Oracle finds, in at most five sizes of one redis twin, the one that saves most at a p99 within OracleBound of the
// other twin's, and then has the law run on the other twin. The size is a memory limit, lowered 1 % at a time; the
// tiers are the daemon's, which runs throughout and leaves the twins alone until it is the law's turn.
func Oracle(ctx context.Context, cfg Config) (*OracleResult, error) {
	w := Redis(cfg)
	if _, err := exec.LookPath(w.Needs[0].Path); err != nil {
		return nil, &Missing{w.Needs[0]}
	}
	t := cfg.oracleTimes()
	res := &OracleResult{Law: cfg.Law}
	left, err := inStage(ctx, cfg, w, func(s *stage) (err error) {
		if err := s.startTwins(ctx); err != nil {
			return err
		}
		if s.rec, err = s.rig.Watch(); err != nil {
			return err
		}
		if err := s.startDaemon(ctx); err != nil { // it makes the swap file, too
			return err
		}
		// The daemon takes its swap file back at the end, and the pages in it must have room then.
		defer func() { err = errors.Join(err, s.unlimit()) }()
		if err := s.startLoad(ctx); err != nil {
			return err
		}
		if _, err := s.phase(ctx, "settle", cfg.times().settle); err != nil {
			return err
		}
		aa, err := s.phase(ctx, "A/A: both off", t.aa)
		if err != nil {
			return err
		}
		if res.AA = summarize(s.ratios(aa, 0)); math.IsNaN(res.AA.Median) {
			return fmt.Errorf("no whole second of both twins was measured in %v", t.aa)
		}
		begin, err := s.rec.Look()
		if err != nil {
			return err
		}
		x, y := s.twin(0, begin, aa), s.twin(1, begin, aa)
		res.Full, res.AAP99 = begin.Of[0].Usage, (x.P99+y.P99)/2
		if err := s.bisect(ctx, t, begin, res); err != nil {
			return err
		}
		if err := s.unlimit(); err != nil {
			return err
		}
		if err := s.giveBack(ctx); err != nil {
			return err
		}
		return s.underLaw(ctx, t, res)
	})
	if err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	res.Leftovers = left
	return res, nil
}

// bisect tries sizes of twin a. Between two it is not given back what it lost: what is never read stays out, and what a
// too small size had taken of the rest comes back by itself once there is room. So a step is a state that the kernel
// gets better at, as it would over the hours for which somebody sets a size.
// begin is from before anything was taken.
func (s *stage) bisect(ctx context.Context, t oracleTimes, begin rig.Sample, res *OracleResult) error {
	load := s.w.Load
	find := newSearch(res.Full, 1-float64(load.Cold)/float64(load.Keys), t.tries)
	for size, ok := find.next(); ok; size, ok = find.next() {
		x, err := s.atSize(ctx, t, begin, size, res.AA.Median)
		if err != nil {
			return err
		}
		find.learn(size, x.Feasible)
		res.Steps = append(res.Steps, x)
	}
	res.Low, res.High = find.low, find.high
	return nil
}

// atSize holds twin a at a size and measures it beside b.
func (s *stage) atSize(ctx context.Context, t oracleTimes, begin rig.Sample, size int64, aa float64) (x OracleStep, err error) {
	x = OracleStep{Size: size, P99: math.NaN(), Sure: true}
	name := fmt.Sprintf("size %d of %d MB", size/1e6, begin.Of[0].Usage/1e6)
	now, err := s.rec.Look()
	if err != nil {
		return x, err
	}
	err = s.lower(ctx, s.twins[0], now.Of[0].Usage, size)
	if errors.Is(err, syscall.EBUSY) {
		s.say("%s: the kernel cannot go that low", name)
		return x, nil
	}
	if err != nil {
		return x, err
	}
	x.Reached = true
	if _, err := s.phase(ctx, name+": settle", t.hold); err != nil {
		return x, err
	}
	p, err := s.phase(ctx, name, t.measure)
	if err != nil {
		return x, err
	}
	p.from = p.from.Add(-s.cfg.times().skip) // what is skipped after a change has passed already
	x.P99, x.Feasible, x.Sure = ratioVerdict(s.ratios(p, 0), aa)
	if !x.Sure && t.more > 0 {
		longer, err := s.phase(ctx, name+": doubtful, so longer", t.more)
		if err != nil {
			return x, err
		}
		p.to = longer.to
	}
	x.Half = s.half(0, begin, p)
	x.P99, x.Feasible, x.Sure = ratioVerdict(x.Ratio, aa)
	a, b := x.Twins[0], x.Twins[1]
	s.say("%s: resident %d MB, net saving %.3f, p99 %.0f to %.0f µs, ratio %.3f over the A/A (%d s), feasible %t, sure %t; "+
		"major faults per 1,000 %.2f to %.2f",
		name, a.End/1e6, x.Net(), a.P99, b.P99, x.P99, len(x.Ratio), x.Feasible, x.Sure, a.MajorPer1000, b.MajorPer1000)
	return x, nil
}

// lowerPace leaves the twins' CPU free between two stairs; a size of 40 % is there after five seconds.
const lowerPace = 50 * time.Millisecond

// lower brings t, which holds from bytes, to a limit of size.
func (s *stage) lower(ctx context.Context, t *twin, from, size int64) error {
	tick := time.NewTicker(lowerPace)
	defer tick.Stop()
	for _, at := range stairs(from, size) {
		if err := t.limit(at); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// underLaw has twin b go down under the law, a off, until it rests.
func (s *stage) underLaw(ctx context.Context, t oracleTimes, res *OracleResult) error {
	begin, err := s.rec.Look()
	if err != nil {
		return err
	}
	if err := s.apply(ctx, 1); err != nil {
		return err
	}
	p, err := s.phase(ctx, fmt.Sprintf("b under %s, a off", s.cfg.Law), t.law)
	if err != nil {
		return err
	}
	if err := s.collect(ctx); err != nil {
		return err
	}
	res.Under = s.half(1, begin, p)
	res.Earlier = s.saving(1, begin, p.to.Add(-s.cfg.times().save))
	res.Rest = s.twin(1, begin, span{p.to.Add(-t.measure - s.cfg.times().skip), p.to})
	x := res.Under.Twins[1]
	p99, _ := res.P99()
	s.say("%s: resident %d MB, net saving %.3f (%.3f of the oracle's), before that %.3f; p99 ratio %.3f over the A/A (%d s); "+
		"major faults per 1,000 %.2f, at rest %.2f; %d steps, %v",
		s.cfg.Law, x.End/1e6, res.Under.Net(), res.Share(), res.Earlier, p99.Median, p99.N,
		x.MajorPer1000, res.Rest.MajorPer1000, x.Steps, x.Reasons)
	return nil
}
