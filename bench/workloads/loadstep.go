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
)

// StepResult is what a load step did to servers that had settled at their small size. Every server is a repetition.
type StepResult struct {
	Servers   []StepServer
	Leftovers []string
}

// StepServer is one of them. Rates are refaults a second, sizes bytes, latencies microseconds.
type StepServer struct {
	Full, Settled, Grown int64   // resident before the first step of the agent, at the load step, and at the end
	Drift                float64 // share by which it still shrank a second over the base window: 0 has settled
	Base                 float64 // mean rate over the base window
	Peak                 float64 // largest five-second mean after the step
	End                  float64 // mean rate over the last third of what was watched after the step
	// Back is how long after the step the mean rate of five seconds was first at most Within times the base again;
	// negative: never.
	Back             float64 // seconds
	BaseP99, PeakP99 float64 // of the load that was there before: before the step, and in the five seconds after it
	EndP99           float64
}

// Within is how much above its base a refault rate may stay, and MinBase the base below which it is not taken as a
// measure: a server that had no refault at all could never get back to that.
const (
	Within  = 1.2
	MinBase = 5.0 // a second; about 60 µs a second of the server's time
)

const smooth = 5 * time.Second

// stepTimes are the phases of a load step.
func (c Config) stepTimes() (servers int, descent, base, after time.Duration) {
	if c.Quick {
		return 1, 20 * time.Second, 8 * time.Second, 12 * time.Second
	}
	return 5, 240 * time.Second, 20 * time.Second, 60 * time.Second
}

// LoadStep has several servers settle under the law and then doubles their load at once: a second generator asks for
// as many keys again, at the same rate: the oldest ones, which nobody had asked for before and which left memory first.
func LoadStep(ctx context.Context, cfg Config) (*StepResult, error) {
	n, descent, baseFor, after := cfg.stepTimes()
	// 12,000 keys are asked for, 16 MB, nearly alike often, so that 1,000 requests a second see each of their 4,000
	// pages about every four seconds: first touches of as many new keys, which are refaults that no law can avoid, are
	// over within 30 s.
	const keys, hot, rate = 36_000, 12_000, 1000
	w := small(cfg, keys, keys-hot)
	if _, err := exec.LookPath(w.Needs[0].Path); err != nil {
		return nil, &Missing{w.Needs[0]}
	}
	var setup rig.Config
	classes := map[string]class.Class{}
	for i := range n {
		name := fmt.Sprintf("step-%d", i)
		setup.Members, classes[name] = append(setup.Members, rig.Member{Name: name}), class.Latency
	}
	res := &StepResult{}
	left, err := inScene(ctx, cfg, setup, func(s *scene) error {
		spec := drive.Spec{Conns: 4, Rate: rate, Keys: keys, Cold: keys - hot, Theta: 0.4, Seed: 21}
		for _, m := range setup.Members {
			t, err := s.server(ctx, w, m.Name)
			if err != nil {
				return err
			}
			spec.Targets = append(spec.Targets, t)
		}
		if err := s.watch(ctx); err != nil {
			return err
		}
		old, err := s.load(spec, "load generator")
		if err != nil {
			return err
		}
		if _, err := s.phase(ctx, "settle", 5*time.Second); err != nil {
			return err
		}
		full, err := s.rec.Look()
		if err != nil {
			return err
		}
		if err := s.apply(ctx, classes); err != nil {
			return err
		}
		if _, err := s.phase(ctx, fmt.Sprintf("%d servers descend under %s", n, s.cfg.Law), descent); err != nil {
			return err
		}
		// The second generator connects meanwhile and begins at the step.
		more := spec
		more.Keys, more.Cold, more.Seed = hot, 0, 22
		more.Start = time.Now().Add(baseFor)
		if _, err := s.load(more, "second load generator"); err != nil {
			return err
		}
		base, err := s.phase(ctx, "base", time.Until(more.Start))
		if err != nil {
			return err
		}
		step, err := s.phase(ctx, "load doubled", after)
		if err != nil {
			return err
		}
		step.from = more.Start
		base.to = more.Start
		for i := range n {
			x := stepServer(s.rec, i, base, step)
			x.Full = full.Of[i].Usage
			x.BaseP99, x.PeakP99 = old.p99(i, base), old.p99(i, span{step.from, step.from.Add(smooth + time.Second)})
			x.EndP99 = old.p99(i, span{step.to.Add(-after / 3), step.to})
			s.say("server %d: %d MB, %d at the step, %d after; refaults %.1f/s, peak %.0f, at the end %.1f; back after %.1f s",
				i, x.Full/1e6, x.Settled/1e6, x.Grown/1e6, x.Base, x.Peak, x.End, x.Back)
			res.Servers = append(res.Servers, x)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load step: %w", err)
	}
	res.Leftovers = left
	return res, nil
}

// point is a rate at an instant: the mean since the point before.
type point struct {
	at    time.Time
	since time.Time
	n     uint64
}

func refaultPoints(rec *rig.Recorder, i int, p span) (out []point) {
	in := rec.Between(p.from, p.to)
	for k := 1; k < len(in); k++ {
		a, b := in[k-1], in[k]
		out = append(out, point{b.At, a.At, refaults(b.Of[i]) - refaults(a.Of[i])})
	}
	return out
}

// refaults counts pages that came back, from swap and from files.
func refaults(r rig.Reading) uint64 { return r.RefaultAnon + r.RefaultFile }

// rate is how many a second there were over all of ps; NaN of nothing.
func rate(ps []point) float64 {
	if len(ps) == 0 {
		return math.NaN()
	}
	var n uint64
	for _, p := range ps {
		n += p.n
	}
	return float64(n) / ps[len(ps)-1].at.Sub(ps[0].since).Seconds()
}

// settle finds in the points after a step when the mean rate of smooth was first at most limit, in seconds since the
// step, -1 if never; and the largest such mean.
func settle(ps []point, step time.Time, limit float64) (back, peak float64) {
	back = -1
	for end := range ps {
		begin := end
		for begin > 0 && !ps[begin-1].since.Before(ps[end].at.Add(-smooth-200*time.Millisecond)) {
			begin--
		}
		if ps[end].at.Sub(step) < smooth {
			continue
		}
		r := rate(ps[begin : end+1])
		peak = max(peak, r)
		if back < 0 && r <= limit {
			back = ps[end].at.Sub(step).Seconds()
		}
	}
	return back, peak
}

func stepServer(rec *rig.Recorder, i int, base, step span) (x StepServer) {
	before, after := refaultPoints(rec, i, base), refaultPoints(rec, i, step)
	x.Base, x.End = rate(before), rate(after[len(after)*2/3:])
	x.Back, x.Peak = settle(after, step.from, Within*max(x.Base, MinBase))
	if in := rec.Between(base.from, base.to); len(in) > 0 {
		first, last := in[0].Of[i].Usage, in[len(in)-1].Of[i].Usage
		x.Settled, x.Drift = last, (1-float64(last)/float64(first))/base.to.Sub(base.from).Seconds()
	}
	if in := rec.Between(step.from, step.to); len(in) > 0 {
		x.Grown = in[len(in)-1].Of[i].Usage
	}
	return x
}
