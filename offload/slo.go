package offload

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/sensitivity"
	"github.com/spillway-io/spillway/offload/slo"
)

// SLO says how fast the services in some cgroups must answer, and where that is read. From it the agent learns how
// much of a service's latency offloading costs, and stretches or tightens its refault cost target accordingly.
type SLO struct {
	Cgroup    string        `yaml:"cgroup"`    // glob as in classes; the first entry that matches counts
	Source    slo.Config    `yaml:"source"`    // one signal, shared by all cgroups that match
	P99       time.Duration `yaml:"p99"`       // above it nothing is taken; 0, the default: no absolute bound
	Inflation float64       `yaml:"inflation"` // p99 with offloading ÷ without, above 1 up to 10; default 1.1
}

// resolved is s with its defaults for periods of the given length.
func (s SLO) resolved(period time.Duration) (SLO, error) {
	if _, err := s.globs(); err != nil {
		return s, errkind.Wrap(errkind.Invalid, fmt.Errorf("offload: slo: %w", err))
	}
	src, err := s.Source.Resolved(period)
	if err != nil {
		return s, fmt.Errorf("offload: slo for %.120q: %w", s.Cgroup, err)
	}
	s.Source, s.Inflation = src, cmp.Or(s.Inflation, sensitivity.DefaultInflation)
	bad := func(hint, format string, a ...any) (SLO, error) {
		return s, errkind.Hint(errkind.New(errkind.Invalid, "offload: slo for %.120q: "+format, append([]any{s.Cgroup}, a...)...), "%s", hint)
	}
	if s.P99 < 0 || s.P99 > time.Minute {
		return bad("leave it out for no absolute bound", "p99 %v is outside 0 to 1m", s.P99)
	}
	if !(s.Inflation > 1 && s.Inflation <= 10) {
		return bad("1.1 is the default: a tenth slower at most", "inflation %v is outside (1,10]", s.Inflation)
	}
	return s, nil
}

// globs compiles the pattern; package class does the matching, its answer is not used.
func (s SLO) globs() (*class.Set, error) {
	return class.Compile([]class.Rule{{Match: s.Cgroup, Class: class.Latency}})
}

// objective is one entry of offload.slo at work; it belongs to the goroutine in Run.
type objective struct {
	SLO
	globs *class.Set
	watch *slo.Watcher // nil until Run
	// latest is the newest reading and its number; tests replace it.
	latest func() (slo.Reading, uint64)
}

func (o *objective) matches(path string) bool { return len(o.globs.Unused([]string{path})) == 0 }

// setObjectives replaces what the agent watches; opened by openObjectives. An entry that did not change goes on, and
// what was learnt from it in hours stays. keep is false when none can: their windows have another length.
func (a *Agent) setObjectives(list []SLO, keep bool) error {
	before := a.objectives
	a.objectives = nil
	for _, s := range list {
		same := func(o *objective) bool { return o != nil && keep && reflect.DeepEqual(o.SLO, s) }
		if i := slices.IndexFunc(before, same); i >= 0 {
			a.objectives = append(a.objectives, before[i])
			before[i] = nil
			continue
		}
		globs, err := s.globs()
		if err != nil { // Config.Resolved refused it before
			return err
		}
		a.objectives = append(a.objectives, &objective{SLO: s, globs: globs, latest: func() (slo.Reading, uint64) {
			return slo.Reading{State: slo.Starting, Why: "not asked yet"}, 0
		}})
	}
	for _, o := range before {
		a.closeObjective(o)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.targets {
		if t.slo != nil && t.slo.objective != a.objectiveOf(t.path) {
			t.slo, t.row.slo = nil, nil
		}
	}
	return nil
}

// objectiveOf is the first that matches, or nil.
func (a *Agent) objectiveOf(path string) *objective {
	for _, o := range a.objectives {
		if o.matches(path) {
			return o
		}
	}
	return nil
}

// openObjectives begins to watch the signals. One that cannot be opened is logged; its cgroups keep their class's
// targets.
func (a *Agent) openObjectives() {
	for _, o := range a.objectives {
		if o.watch != nil {
			continue
		}
		src, err := slo.Open(o.Source, a.cfg.Period)
		if err != nil {
			a.warnOnce("slo "+o.Cgroup, "SLO signal cannot be opened", err)
			continue
		}
		o.watch = slo.Watch(src, a.cfg.Period)
		o.latest = o.watch.Latest
	}
}

func (a *Agent) closeObjectives() {
	for _, o := range a.objectives {
		a.closeObjective(o)
	}
}

// closeObjective ends the watching of o; nil is none.
func (a *Agent) closeObjective(o *objective) {
	if o == nil || o.watch == nil {
		return
	}
	if err := o.watch.Close(); err != nil {
		a.log.Warn("SLO signal not closed", "error", err)
	}
	o.watch = nil
}

// learning is one target's part; it belongs to the goroutine in Run. Nil: no objective matches.
type learning struct {
	objective *objective
	learner   *sensitivity.Learner
	seen      uint64 // number of the last reading used
	advice    sensitivity.Advice
	refaults  float64 // share of the last period read
	taken     int64   // by steps since the last advice
}

// join finds t's objective, if it has one and none is known yet.
func (a *Agent) join(t *target) {
	if t.slo != nil {
		return
	}
	o := a.objectiveOf(t.path)
	if o == nil {
		return
	}
	h := fnv.New64a()
	h.Write([]byte(t.path)) // never fails
	t.slo = &learning{
		objective: o,
		learner:   sensitivity.New(sensitivity.SLO{P99: o.P99, Inflation: o.Inflation, Blind: blind(o.Source)}, h.Sum64()^t.inode),
		advice:    sensitivity.Advice{Scale: 1},
	}
}

// blind says whether a source asks for nothing that offloading could take away: a connect, or a key that is asked for
// so often that it never leaves. It sees what waits behind others' refaults, and in its p99 only when they take more
// than a hundredth of the time: more than the refault cost target of class latency at its widest.
func blind(c slo.Config) bool { return c.TCP != nil || c.Redis != nil }

// learn gives every learner the period that just ended, before the coming one is decided.
func (a *Agent) learn(now time.Time) {
	disturbed := a.host.braked() || a.host.quiet(now)
	for _, t := range a.targets {
		if t.managed && t.slo != nil {
			a.teach(t, disturbed)
		}
	}
}

func (a *Agent) teach(t *target, disturbed bool) {
	l := t.slo
	r, n := l.objective.latest()
	p := sensitivity.Period{
		Saved: t.row.saving.net, Refaults: l.refaults, Taken: l.taken, Disturbed: disturbed,
	}
	if n != l.seen {
		p.Known = r.State == slo.Good || r.State == slo.Slow && r.P99 > 0
		p.P99, p.AtLeast = r.P99, r.AtLeast
	}
	l.seen, l.taken = n, 0
	before := l.advice.Scale
	l.advice = l.learner.Observe(p)
	if l.advice.Scale != before {
		a.log.Info("refault cost target changed", "cgroup", t.path, "multiplier", l.advice.Scale, "reason", l.advice.Why)
	}
	view := l.view(t.path, r)
	a.mu.Lock()
	t.row.slo = view
	a.mu.Unlock()
}

// advise puts what was learnt into the law's sample.
func (l *learning) advise(s *policy.Sample) {
	if l == nil {
		return
	}
	l.refaults = s.RefaultShare()
	s.TargetScale = l.advice.Scale
	if l.advice.Hold {
		s.Probe = l.advice.Why
	}
}

// withhold is for the laws that do not look at the sample's Probe.
func (l *learning) withhold(d *policy.Decision) {
	if l != nil && l.advice.Hold {
		d.Withhold(l.advice.Why)
	}
}

// took notes what a step took.
func (l *learning) took(n int64) {
	if l != nil {
		l.taken += n
	}
}

// view is what people see.
func (l *learning) view(path string, r slo.Reading) *admin.SLO {
	st := l.learner.Stats()
	o := l.objective
	v := &admin.SLO{
		Cgroup: path, Source: o.Source.String(), State: string(r.State), StateWhy: r.Why,
		P50: admin.Duration(r.P50), P99: admin.Duration(r.P99), AtLeast: r.AtLeast, Requests: r.Count,
		MaxP99: admin.Duration(o.P99), MaxInflation: o.Inflation,
		Multiplier: st.Scale, Holds: l.advice.Hold, Why: st.Why, Blocks: st.Blocks, Pairs: st.Pairs,
		PerMiB: interval(st.PerMiB), PerPermille: interval(st.PerShare), Inflation: interval(st.Inflation),
	}
	return v
}

// interval leaves out what is not known: JSON has no infinity.
func interval(i sensitivity.Interval) *admin.Interval {
	if !i.Known {
		return nil
	}
	out := &admin.Interval{Estimate: i.Est}
	if !math.IsInf(i.Low, 0) {
		out.Low = &i.Low
	}
	if !math.IsInf(i.High, 0) {
		out.High = &i.High
	}
	return out
}
