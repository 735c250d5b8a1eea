package offload

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
)

// historyLen is an hour of one-second points; longer periods cover more.
const historyLen = 3600

// recentLen is how many noteworthy decisions of all cgroups are kept for the dashboard.
const recentLen = 512

// view is what the admin API reads; guarded by Agent.mu.
type view struct {
	byPath       map[string]*target
	order        []*target // managed first, then by usage; rebuilt by publish
	roots        []string
	missingRoots []string
	unusedRules  []string
	paused       string
	pausedUntil  time.Time
	host         admin.Host
	wear         *admin.Endurance // nil: switched off; never changed, only replaced
	tiers        []admin.Tier
	points       []admin.Point // ring
	nextPoint    int
	recent       []admin.Decision // ring of steps and changes of reason
	nextRecent   int
	lastReason   map[string]string
	reclaimed    int64
	self         admin.Self
	law          string
	period       time.Duration
	dryRun       bool
	counts       map[countKey]uint64
}

type countKey struct{ class, reason string }

// count keeps d if somebody would want to see it, a step or a zero step for a new reason, and returns the
// number under which settle finds it.
func (v *view) count(d admin.Decision) int {
	if v.counts == nil {
		v.counts, v.lastReason = map[countKey]uint64{}, map[string]string{}
	}
	v.counts[countKey{d.Class, d.Reason}]++
	if d.Step == 0 && v.lastReason[d.Cgroup] == d.Reason {
		return v.nextRecent - 1
	}
	v.lastReason[d.Cgroup] = d.Reason
	if len(v.recent) < recentLen {
		v.recent = append(v.recent, d)
	} else {
		v.recent[v.nextRecent%recentLen] = d
	}
	v.nextRecent++
	return v.nextRecent - 1
}

// settle replaces the kept decision number n by d, which now says what came of its step.
func (v *view) settle(n int, d admin.Decision) {
	if n < v.nextRecent-len(v.recent) { // overwritten meanwhile
		return
	}
	if kept := &v.recent[n%recentLen]; kept.Cgroup == d.Cgroup && kept.Time.Equal(d.Time) {
		*kept = d
	}
}

// publish makes the newest figures visible. period is 0 when no period has passed.
func (a *Agent) publish(now time.Time, period time.Duration) {
	h := &a.host
	a.mu.Lock()
	defer a.mu.Unlock()
	v := &a.view
	v.law, v.period, v.dryRun = a.cfg.Law, a.cfg.Period, a.cfg.DryRun
	v.byPath = make(map[string]*target, len(a.targets))
	v.order = v.order[:0]
	p := admin.Point{Time: now, MemSome: h.memSome, IOSome: h.ioSome}
	for path, t := range a.targets {
		v.byPath[path] = t
		v.order = append(v.order, t)
		if t.managed {
			p.Resident += t.row.stat.Usage
			p.Saving += t.row.saving.sustained(now)
		}
	}
	v.tiers = v.tiers[:0]
	for _, tr := range a.tiers.Tiers() {
		at := admin.Tier{
			Name: tr.Name, Kind: string(tr.Kind), State: string(tr.State), Detail: tr.Detail, Size: tr.Size, Used: tr.Used, Stored: tr.Stored,
			P50: admin.Duration(tr.Measured.P50), P99: admin.Duration(tr.Measured.P99), Compression: tr.Compression(),
			MeasuredAt: tr.Measured.At, Ours: tr.Ours,
		}
		v.tiers = append(v.tiers, at)
		switch {
		case tr.Memory():
			p.Pool += tr.Used
			p.Stored += tr.Stored
		default:
			p.Disk += tr.Used
		}
	}
	v.host = admin.Host{
		MemTotal: h.mem.Total, MemAvailable: h.mem.Available,
		SwapTotal: h.mem.SwapTotal, SwapUsed: h.mem.SwapTotal - h.mem.SwapFree,
		PoolBytes: p.Pool, StoredBytes: p.Stored, SavingNet: p.Saving,
		PSI: h.memPSI != nil, MemSome: h.memSome, IOSome: h.ioSome, DiskWritten: h.written,
	}
	if now.After(v.pausedUntil) {
		v.paused = ""
	}
	if period <= 0 {
		return
	}
	if len(v.points) < historyLen {
		v.points = append(v.points, p)
	} else {
		v.points[v.nextPoint%historyLen] = p
	}
	v.nextPoint++
}

// Status implements admin.Source.
func (a *Agent) Status() admin.Status {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	v := &a.view
	s := admin.Status{
		Node: a.node, Version: a.deps.Version, Commit: a.deps.Commit, PID: os.Getpid(), Started: a.started, Now: now,
		Kernel: a.kernel, CgroupMode: string(a.h.Mode), Actuator: a.actuator(), Law: v.law,
		Period: admin.Duration(v.period), DryRun: v.dryRun, Roots: slices.Clone(v.roots),
		Dashboard: a.deps.Dashboard, Host: v.host, Tiers: slices.Clone(v.tiers), Self: v.self,
	}
	if now.Before(v.pausedUntil) {
		s.Paused = v.paused
	}
	for _, t := range v.order {
		if t.managed {
			if t.row.slo != nil {
				s.SLO = append(s.SLO, *t.row.slo)
			}
			s.Managed++
		} else {
			s.Observed++
		}
	}
	s.PSIShare, s.PSIShareWhy = a.psiShare()
	s.FileRefault, s.FileRefaultWhy = a.fileRefaultLocked()
	s.Can, s.Cannot = slices.Clone(a.balance.can), slices.Clone(a.balance.cannot)
	s.Endurance = v.wear
	s.Will, s.Wont = a.intentLocked()
	s.Advice = a.adviceLocked()
	return s
}

func (a *Agent) actuator() string {
	if a.h.Mode == cgroup.V2 && a.h.CanReclaim {
		return "memory.reclaim"
	}
	if a.h.Mode == cgroup.V2 {
		return "none: memory.reclaim needs Linux 5.19"
	}
	return "limit-shrink"
}

// intentLocked says in plain sentences what this daemon will and will not do on this machine.
//
// +checklocks:a.mu
func (a *Agent) intentLocked() (will, wont []string) {
	v := &a.view
	n := 0
	for _, t := range v.order {
		if t.managed {
			n++
		}
	}
	switch {
	case v.dryRun && len(v.roots) > 0:
		will = append(will, fmt.Sprintf("decide for %d cgroups below %s, and take nothing", n, strings.Join(v.roots, ", ")))
		wont = append(wont, "change anything: dry run")
	case a.deps.Worker == nil:
		wont = append(wont, "change anything: it started as a dry run; restart it to act")
	case len(v.roots) == 0:
		wont = append(wont, "offload anything: there are no roots (no kubepods here; name cgroups with --root or offload.roots)")
	default:
		will = append(will, fmt.Sprintf("offload %d cgroups below %s by %s, at most 1 %% of each a period of %v", n, strings.Join(v.roots, ", "), a.actuator(), v.period))
	}
	if s := a.tiers.Advice(); s != "" {
		wont = append(wont, "offload anonymous memory: "+s)
	}
	if !v.host.PSI {
		reason := "PSI is unavailable"
		if a.host.psiErr != nil {
			reason = a.host.psiErr.Error()
		}
		wont = append(wont, "use pressure: "+reason+"; refault cost and available memory are the brakes")
	}
	will, wont = a.steeringLocked(will, wont)
	if yes, no := a.heatIntentLocked(); yes != "" {
		will = append(will, yes)
	} else {
		wont = append(wont, no)
	}
	will = append(will, "observe every cgroup")
	wont = append(wont, "touch cgroups outside the roots, its own cgroup ("+a.self+"), or a setting it did not make")
	for _, r := range v.missingRoots {
		wont = append(wont, "act on "+r+" until it exists")
	}
	for _, r := range v.unusedRules {
		wont = append(wont, fmt.Sprintf("use the class rule %q until a cgroup matches it", r))
	}
	return will, wont
}

// adviceLocked sums what observed cgroups outside the roots would save, by their top two levels.
//
// +checklocks:a.mu
func (a *Agent) adviceLocked() []string {
	const worth = int64(32 * bytesize.MiB)
	sums := map[string]int64{}
	for _, t := range a.view.order {
		if t.managed || !t.leaf || t.row.why != "outside the roots" {
			continue
		}
		seg := strings.SplitN(t.path, "/", 3)
		sums["/"+seg[1]] += t.row.cold
	}
	var tops []string
	for p, n := range sums {
		if n >= worth && p != "/" && !within(a.self, p) {
			tops = append(tops, p)
		}
	}
	slices.SortFunc(tops, func(x, y string) int { return cmp.Or(cmp.Compare(sums[y], sums[x]), cmp.Compare(x, y)) })
	var out []string
	for _, p := range tops[:min(len(tops), 5)] {
		roots := strings.Join(append(slices.Clone(a.view.roots), p), ", ") // naming one replaces the default
		out = append(out, fmt.Sprintf("would save about %v; add roots: [%s]", bytesize.Size(sums[p]/int64(bytesize.MiB))*bytesize.MiB, roots))
	}
	return out
}

// Cgroups implements admin.Source: managed cgroups first, then by usage.
func (a *Agent) Cgroups() []admin.Cgroup {
	now := time.Now()
	a.mu.Lock()
	out := make([]admin.Cgroup, 0, len(a.view.order))
	for _, t := range a.view.order {
		out = append(out, t.cgroup(now))
	}
	a.mu.Unlock()
	slices.SortFunc(out, func(x, y admin.Cgroup) int {
		if x.Managed != y.Managed {
			if x.Managed {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(y.Usage, x.Usage), strings.Compare(x.Path, y.Path))
	})
	return out
}

// Decisions implements admin.Source. Of one cgroup it returns every period's decision that is still
// remembered; of all cgroups the steps and the changes of reason.
func (a *Agent) Decisions(path string, limit int) []admin.Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := &a.view
	if path != "" {
		if t := v.byPath[path]; t != nil {
			return t.row.newest(limit)
		}
		return nil
	}
	n := min(limit, len(v.recent))
	out := make([]admin.Decision, 0, n)
	for i := 1; i <= n; i++ {
		out = append(out, v.recent[(v.nextRecent-i)%recentLen])
	}
	return out
}

// History implements admin.Source, oldest first.
func (a *Agent) History() []admin.Point {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := &a.view
	if len(v.points) < historyLen {
		return slices.Clone(v.points)
	}
	at := v.nextPoint % historyLen
	return append(slices.Clone(v.points[at:]), v.points[:at]...)
}

// Explain implements admin.Source.
func (a *Agent) Explain(path string) (admin.Explanation, error) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.view.byPath[path]
	if t == nil {
		return admin.Explanation{}, errkind.Hint(errkind.New(errkind.NotFound, "offload: no cgroup %q", path),
			"paths are below the memory controller's mount and begin with /; `spillway status --all` lists them")
	}
	p := t.params
	params := map[string]float64{
		"ratio": p.Ratio, "max_step": p.MaxStep, "mem_pressure": p.MemPressure, "io_pressure": p.IOPressure,
		"refault_cost": p.RefaultCost, "hold_periods": float64(p.Hold), "floor_bytes": float64(t.row.floor),
		"come_back": p.ComeBack,
		"promotion": p.Promotion, "percentile": p.Percentile, "warmup_seconds": p.Warmup.Seconds(),
	}
	maps.DeleteFunc(params, func(_ string, v float64) bool { return v == 0 }) // the law does not look at it
	return admin.Explanation{Cgroup: t.cgroup(now), Decisions: t.row.newest(kept), Params: params}, nil
}
