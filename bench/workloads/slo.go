package workloads

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/spillway-io/spillway/bench/workloads/rig"
	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/offload/demo/load"
)

// SLOResult is what a service level taught the agent: once where taking does not hurt, once where it does.
type SLOResult struct {
	Runs      []SLORun // fast, slow
	Leftovers []string
}

// SLORun is one pair of twins with one tier and one source of the signal.
type SLORun struct {
	Name   string // fast: the compressed pool; slow: a disk
	Source string
	AA     Summary
	Half   Half        // the offloaded twin is the first
	Looks  []SLOLook   // about one a second
	Lost   SLOFallback // of the fast run
	// Early and Late are the first and the last quarter of the half.
	Early, Late Window
}

// Window is a part of a half: the offloaded twin, and the median of its p99 over the other's.
type Window struct {
	Twin
	Ratio float64
}

// SLOLook is what the daemon said at one time.
type SLOLook struct {
	At time.Duration // since the twin was offloaded
	admin.SLO
}

// SLOFallback is what the daemon did when the signal stopped.
type SLOFallback struct {
	Said       bool          // it says that it uses the targets of the class
	After      time.Duration // since the signal stopped
	Multiplier float64       // then
	Text       string
}

// fellBack is how the learner's sentence without a signal begins.
const fellBack = "no SLO signal"

// First is when the daemon first said what pick looks for; negative: never.
func (r SLORun) First(pick func(admin.SLO) bool) time.Duration {
	for _, l := range r.Looks {
		if pick(l.SLO) {
			return l.At
		}
	}
	return -1
}

// Last is the newest look; ok is false without one.
func (r SLORun) Last() (l SLOLook, ok bool) {
	if len(r.Looks) == 0 {
		return l, false
	}
	return r.Looks[len(r.Looks)-1], true
}

// sloSetting is one run before it is one.
type sloSetting struct {
	name   string
	disk   bool
	source string  // of the signal: what the generator exports, or a probe of the daemon's
	cold   float64 // share of the keys that are never asked for
	theta  float64
	rate   float64
	// targets of class latency, where they are not the law's. With these none of the law's brakes stops it before
	// the service suffers: what they would do is measured by everything else here.
	targets []string
	half    time.Duration // how long it may learn
}

// sloSettings: in the fast run most of what leaves is never missed and comes back out of the pool. In the slow one all
// data are asked for about equally often and come back from a disk, and the targets were set far too wide: with the
// law's own ones it stops by itself at a hundredth or two.
var sloSettings = []sloSetting{
	{"fast", false, "prometheus", 0.6, 0.99, 1500, nil, 200 * time.Second},
	{"slow", true, "redis", 0, 0.3, 500, []string{"mem_pressure: 0.9", "io_pressure: 0.9", "refault_cost: 0.02"}, 110 * time.Second},
}

func (t sloSetting) lines(path, page, sock string) string {
	source := fmt.Sprintf("{prometheus: {url: \"http://%s/metrics\", metric: %s, labels: {twin: a}}}", page, exportMetric)
	if t.source == "redis" {
		source = fmt.Sprintf("{rate: 200, redis: {address: \"unix:%s\", key: %q}}", sock, load.AppendKey(nil, 0))
	}
	return fmt.Sprintf("  slo:\n    - cgroup: %q\n      source: %s\n", path, source)
}

// sloTimes are the phases of one run, but for the learning; lost is how long a lost signal may go unsaid.
func (c Config) sloTimes() (settle, aa, lost time.Duration) {
	if c.Quick {
		return 3 * time.Second, 8 * time.Second, 20 * time.Second
	}
	return 5 * time.Second, 15 * time.Second, 20 * time.Second
}

// ServiceLevel offloads one of two redis twins whose signal the agent is given, with everything else as in Redis.
func ServiceLevel(ctx context.Context, cfg Config) (*SLOResult, error) {
	if n := Redis(cfg).Needs[0]; n.Path != "" {
		if _, err := exec.LookPath(n.Path); err != nil {
			return nil, &Missing{n}
		}
	}
	res := &SLOResult{}
	for _, t := range sloSettings {
		w := Redis(cfg)
		w.Name = "slo " + t.name
		w.Load.Cold, w.Load.Theta, w.Load.Rate = int(t.cold*float64(w.Load.Keys)), t.theta, t.rate
		run := SLORun{Name: t.name}
		left, err := inStage(ctx, cfg, w, func(s *stage) error { return s.level(ctx, t, &run) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
		res.Runs, res.Leftovers = append(res.Runs, run), append(res.Leftovers, left...)
	}
	return res, nil
}

// level is one run.
func (s *stage) level(ctx context.Context, t sloSetting, run *SLORun) error {
	settle, aa, lost := s.cfg.sloTimes()
	half := t.half
	if s.cfg.Quick {
		half /= 3
	}
	s.say("%s: start both twins", s.w.Name)
	if err := s.startTwins(ctx); err != nil {
		return err
	}
	page, err := freePort()
	if err != nil {
		return err
	}
	if s.rec, err = s.rig.Watch(); err != nil {
		return err
	}
	on := s.twins[0]
	s.daemon, err = s.rig.StartDaemon(ctx, rig.Setup{Law: s.cfg.Law, Disk: t.disk, Targets: t.targets, SLO: t.lines(on.Path, page, on.at.Addr)})
	if err != nil {
		return err
	}
	exporter, err := s.startExport(page)
	if err != nil {
		return err
	}
	if _, err := s.phase(ctx, "settle", settle); err != nil {
		return err
	}
	p, err := s.phase(ctx, "A/A: both off", aa)
	if err != nil {
		return err
	}
	run.AA = summarize(s.ratios(p, 0))
	begin, err := s.rec.Look()
	if err != nil {
		return err
	}
	if err := s.apply(ctx, 0); err != nil {
		return err
	}
	name := fmt.Sprintf("%s under %s, which learns from %s", on.Name, s.cfg.Law, t.source)
	if p, err = s.watchLevel(ctx, name, half, run, nil); err != nil {
		return err
	}
	if err := s.collect(ctx); err != nil {
		return err
	}
	run.Half = s.half(0, begin, p)
	window := func(p span) Window { return Window{s.twin(0, begin, p), summarize(s.ratios(p, 0)).Median} }
	run.Early, run.Late = window(span{p.from, p.from.Add(half / 4)}), window(span{p.to.Add(-half / 4), p.to})
	if t.source == "redis" { // the signal is the service: it does not stop
		return nil
	}
	if err := exporter.Tell("stop exporting"); err != nil {
		return fmt.Errorf("stop exporting: %w", err)
	}
	stopped := time.Now()
	rest := SLORun{}
	_, err = s.watchLevel(ctx, "the signal has stopped", lost, &rest, func(l SLOLook) bool { return l.says(fellBack) })
	if l, ok := rest.Last(); ok {
		run.Lost = SLOFallback{l.says(fellBack), time.Since(stopped), l.Multiplier, l.Why + " (" + l.State + ": " + l.StateWhy + ")"}
	}
	return err
}

func (l SLOLook) says(words string) bool {
	return len(l.Why) >= len(words) && l.Why[:len(words)] == words
}

// startExport begins the requests of both twins, with the latencies exported at page.
func (s *stage) startExport(page string) (*rig.Process, error) {
	task := exportTask{Load: s.w.Load, Listen: page}
	for _, t := range s.twins {
		task.Load.Targets = append(task.Load.Targets, t.at)
	}
	_, cpus := rig.Places()
	p, err := s.rig.Start(rig.Spec{Name: "load generator", Part: []string{partExport}, Task: task, CPUs: cpus})
	if err != nil {
		return nil, err
	}
	s.follow(p, func(x load.Second) (int, load.Second) { return x.Target, x })
	return p, nil
}

// watchLevel is phase with a look at what the daemon says each second. A look that enough accepts ends it early.
func (s *stage) watchLevel(ctx context.Context, name string, d time.Duration, run *SLORun, enough func(SLOLook) bool) (span, error) {
	s.say("%s (%v)", name, d)
	out := span{from: time.Now()}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for time.Since(out.from) < d {
		select {
		case <-ctx.Done():
			return out, context.Cause(ctx)
		case <-tick.C:
		}
		if err := s.alive(ctx); err != nil {
			return out, err
		}
		level, err := s.daemon.Level(ctx, s.twins[0].Member)
		if err != nil {
			return out, err
		}
		if level == nil { // not managed yet
			continue
		}
		if run.Source == "" {
			run.Source = level.Source
		}
		l := SLOLook{time.Since(out.from), *level}
		before, ok := run.Last()
		run.Looks = append(run.Looks, l)
		if !ok || before.Multiplier != l.Multiplier {
			s.say("%5.1f s: multiplier %.3g after %d pairs: %s", l.At.Seconds(), l.Multiplier, l.Pairs, l.Why)
		}
		if enough != nil && enough(l) {
			break
		}
	}
	out.to = time.Now()
	return out, nil
}
