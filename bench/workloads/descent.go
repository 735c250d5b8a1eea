package workloads

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/spillway-io/spillway/bench/workloads/rig"
	"github.com/spillway-io/spillway/offload/class"
)

// DescentResult is how often what was taken came back, for two equal servers of class latency.
type DescentResult struct {
	Servers   [2]Descent
	Leftovers []string
}

// Descent is one server from its full size to its rest and a minute beyond. Counts are pages of 4 KiB.
type Descent struct {
	Full, Rest int64 // resident, bytes
	Taken      int64 // by the agent's steps, as the daemon says
	Back       int64 // refaults from the first step until the end of the watch
	Late       int64 // of these, more than a minute after the server began to rest
	RestTaken  int64 // the same in the last part, when the size no longer changed much
	RestBack   int64
	Major      int64 // major faults over the whole of it
	Reasons    map[string]int
}

// Accuracy is the share of pages that had not come back within a minute of being taken: at least this much, because
// a page that came back later, or that the kernel itself had taken, counts as a mistake here too. What came back more
// than a minute after the descent can only be such a mistake if it was taken since, so no more of it counts than that.
func (d Descent) Accuracy() float64 {
	return 1 - float64(d.Back-d.Late+min(d.Late, d.RestTaken))/float64(d.Taken)
}

// RestAccuracy is the same for the last part alone, where hardly anything is left that is cold.
func (d Descent) RestAccuracy() float64 { return 1 - float64(d.RestBack)/float64(d.RestTaken) }

// Reclaim has two equal redis servers descend from their full size, rest, and be left alone.
func Reclaim(ctx context.Context, cfg Config) (*DescentResult, error) {
	w := Redis(cfg)
	if _, err := exec.LookPath(w.Needs[0].Path); err != nil {
		return nil, &Missing{w.Needs[0]}
	}
	descent, rest, watch := 100*time.Second, 40*time.Second, time.Minute
	if cfg.Quick {
		descent, rest, watch = 14*time.Second, 8*time.Second, 10*time.Second
	}
	if cfg.Slower > 1 { // with time for periods in which nothing is taken, which do not grow with the pace
		descent = descent*time.Duration(cfg.Slower) + 2*time.Minute
	}
	res := &DescentResult{}
	left, err := inStage(ctx, cfg, w, func(s *stage) (err error) {
		if err := s.startTwins(ctx); err != nil {
			return err
		}
		if s.rec, err = s.rig.Watch(); err != nil {
			return err
		}
		if err := s.startDaemon(ctx); err != nil {
			return err
		}
		if err := s.startLoad(ctx); err != nil {
			return err
		}
		if _, err := s.phase(ctx, "settle", cfg.times().settle); err != nil {
			return err
		}
		begin, err := s.rec.Look()
		if err != nil {
			return err
		}
		if err := s.daemon.Apply(ctx, map[string]class.Class{"a": class.Latency, "b": class.Latency}); err != nil {
			return err
		}
		if _, err := s.phase(ctx, "descend", descent); err != nil {
			return err
		}
		resting, err := s.rec.Look()
		if err != nil {
			return err
		}
		if _, err := s.phase(ctx, "rest", rest); err != nil {
			return err
		}
		if err := s.apply(ctx, -1); err != nil {
			return err
		}
		still, err := s.rec.Look()
		if err != nil {
			return err
		}
		if err := s.collect(ctx); err != nil {
			return err
		}
		soon := min(watch, max(0, time.Minute-rest))
		if _, err := s.phase(ctx, "watch what comes back", soon); err != nil {
			return err
		}
		minute, err := s.rec.Look()
		if err != nil {
			return err
		}
		if _, err := s.phase(ctx, "and what comes back later", watch-soon); err != nil {
			return err
		}
		end, err := s.rec.Look()
		if err != nil {
			return err
		}
		for i, t := range s.twins {
			x := descentOf([5]rig.Sample{begin, resting, still, minute, end}, i)
			var taken, late int64
			x.Reasons, _, taken = s.daemon.Decided(t.Member, begin.At, end.At)
			_, _, late = s.daemon.Decided(t.Member, resting.At, still.At)
			x.Taken, x.RestTaken = taken/4096, late/4096
			s.say("%s: %d MB to %d MB; %d pages taken, %d came back, %d of them late (%.4f); at rest %d and %d",
				t.Name, x.Full/1e6, x.Rest/1e6, x.Taken, x.Back, x.Late, x.Accuracy(), x.RestTaken, x.RestBack)
			res.Servers[i] = x
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("descent: %w", err)
	}
	res.Leftovers = left
	return res, nil
}

// descentOf reads the counters of server i at the beginning, when it began to rest, when it was left alone, a minute
// after it began to rest, and at the end.
func descentOf(at [5]rig.Sample, i int) Descent {
	since := func(from, to int) int64 { return int64(refaults(at[to].Of[i]) - refaults(at[from].Of[i])) }
	return Descent{
		Full: at[0].Of[i].Usage, Rest: at[2].Of[i].Usage, Back: since(0, 4), Late: since(3, 4), RestBack: since(1, 2),
		Major: int64(at[4].Of[i].MajorFaults - at[0].Of[i].MajorFaults),
	}
}
