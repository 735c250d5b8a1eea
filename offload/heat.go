package offload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload/heat"
	"github.com/spillway-io/spillway/offload/track"
)

// heatShare is the most of one core that access tracking takes: a scan that cost 1.2 s is followed by two minutes of
// none, whatever the configuration says.
const heatShare = 0.01

// heatState is what access tracking knows. It has a lock of its own, held for moments only and never together with
// Agent.mu, so that a scan of many gigabytes delays neither a period nor an answer.
type heatState struct {
	tracker *track.Tracker // nil: nothing is tracked, why says why; owned by trackHeat
	why     error
	every   time.Duration
	named   bool // the configuration says which source, or none
	watched bool // the last scan was of some cgroup: a source may hold something for it; owned by trackHeat

	mu sync.Mutex
	// +checklocks:mu
	readings map[track.Group]*heat.Reading
	// +checklocks:mu
	errors map[track.Group]error
	// +checklocks:mu
	cpu time.Duration
	// +checklocks:mu
	failed error // why the newest scan gave nothing at all
}

// openHeat finds a source. Not having one is no failure: no law needs it, and the reason is in GET /v1/heat.
func (a *Agent) openHeat() {
	h := &a.heat
	h.every, h.named = a.cfg.Heat.Every, a.cfg.Heat.Source != track.Auto
	if a.deps.Worker == nil || a.cfg.DryRun {
		h.why = dryHeat()
		return
	}
	machine, _ := a.deps.Worker.(track.Machine) // without one DAMON is not to be had
	h.tracker, h.why = track.Open(a.deps.Root, a.h, a.cfg.Heat, machine)
	switch {
	case h.why == nil:
		a.log.Info("access tracking", "source", h.tracker.Source(), "every", h.every)
	case a.cfg.Heat.Source == track.Auto || a.cfg.Heat.Source == track.Off:
		a.log.Debug("no access tracking", "error", h.why)
	default: // it was asked for by name
		a.log.Warn("no access tracking", "error", h.why, "hint", errkind.HintOf(h.why))
	}
}

// dryHeat is why a dry run knows nothing.
func dryHeat() error {
	return errkind.Hint(errkind.New(errkind.Unsupported, "offload: a dry run does not track access: that resets what the kernel remembers of it"),
		"watch one cgroup yourself: spillway offload heat CGROUP --for 2m --source clear-refs")
}

// heatIntentLocked says in a sentence whether access is tracked.
//
// +checklocks:a.mu
func (a *Agent) heatIntentLocked() (will, wont string) {
	const know = "know how recently memory was touched"
	h := &a.heat
	switch {
	case h.tracker != nil && !a.view.dryRun:
		return fmt.Sprintf("%s, of managed cgroups (%s, a scan every %v)", know, h.tracker.Source(), h.every), ""
	case h.tracker != nil || a.view.dryRun || h.named:
		return "", know + ": " + strings.TrimPrefix(strings.TrimPrefix(cmp.Or(h.why, dryHeat()).Error(), "offload: "), "track: ")
	}
	return "", know + ": nothing here that tells it can be used as it is; `spillway offload heat CGROUP` says what it takes"
}

// trackHeat scans the managed cgroups until ctx ends. Without a source it returns at once.
func (a *Agent) trackHeat(ctx context.Context) {
	h := &a.heat
	if h.tracker == nil {
		return
	}
	wait := time.NewTimer(0)
	defer wait.Stop()
	warned := false
	for {
		select {
		case <-ctx.Done():
			h.tracker.Close()
			return
		case <-wait.C:
		}
		source := h.tracker.Source()
		cost, err := a.patientScan(ctx, time.Now(), scanPatience)
		if errors.Is(err, errAbandoned) {
			a.log.Warn("access tracking abandoned at the end", "error", err)
			return
		}
		if given := h.tracker.Source() != source; err != nil && ctx.Err() == nil && (!warned || given) {
			warned = true
			a.log.Warn("access tracking failed", "error", err, "hint", errkind.HintOf(err))
		}
		wait.Reset(max(h.every, time.Duration(float64(cost)/heatShare)))
	}
}

// scanPatience is how long a scan may go on when the daemon ends. Between processes it heeds the end at once, but
// within one it waits for the kernel, for as long as that process holds its own page tables: a page fault on a dead
// network file system takes for ever.
const scanPatience = 3 * time.Second

var errAbandoned = errors.New("offload: a scan does not come back; it ends with the process")

// patientScan is scanHeat, which is left to itself when ctx has ended and it has not for as long as patience. The
// tracker is its own then. Nothing is waiting for what it found, and there is nothing to undo.
func (a *Agent) patientScan(ctx context.Context, at time.Time, patience time.Duration) (time.Duration, error) {
	type result struct {
		cost time.Duration
		err  error
	}
	done := make(chan result, 1)
	go func() {
		cost, err := a.scanHeat(ctx, at)
		done <- result{cost, err}
	}()
	select {
	case r := <-done:
		return r.cost, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done:
		return r.cost, r.err
	case <-time.After(patience):
		return 0, errAbandoned
	}
}

// scanHeat makes one scan and publishes it. With nothing managed it costs nothing.
func (a *Agent) scanHeat(ctx context.Context, at time.Time) (cost time.Duration, err error) {
	h := &a.heat
	groups := a.managedGroups()
	if len(groups) == 0 && !h.watched {
		return 0, nil
	}
	res, err := h.tracker.Scan(ctx, at, groups)
	h.watched = len(groups) > 0 || err != nil
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed = err; err != nil {
		return 0, err // the readings stay, and carry the time they were made
	}
	h.readings = make(map[track.Group]*heat.Reading, len(res.Readings))
	for g, r := range res.Readings {
		h.readings[g] = &r
	}
	h.errors, h.cpu = res.Errors, res.CPU
	return res.CPU, nil
}

func (a *Agent) managedGroups() (out []track.Group) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.view.dryRun { // since a reload
		return nil
	}
	for _, t := range a.view.order {
		if t.managed {
			out = append(out, track.Group{Path: t.path, Inode: t.inode})
		}
	}
	return out
}

// of is the newest reading of a cgroup, nil when there is none. It is never changed after it was published.
func (h *heatState) of(path string, inode uint64) *heat.Reading {
	if h.tracker == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readings[track.Group{Path: path, Inode: inode}]
}

// Heat implements admin.HeatReader.
func (a *Agent) Heat(path string) (admin.Heat, error) {
	a.mu.Lock()
	t := a.view.byPath[path]
	var managed bool
	var why, child string
	var g track.Group
	dry := a.view.dryRun
	if t != nil {
		child = a.managedChildLocked(path)
		managed, why, g = t.managed, t.row.why, track.Group{Path: t.path, Inode: t.inode}
	}
	a.mu.Unlock()
	h := &a.heat
	h.mu.Lock()
	defer h.mu.Unlock()
	switch r := h.readings[g]; {
	case t == nil:
		return admin.Heat{}, errkind.Hint(errkind.New(errkind.NotFound, "offload: no cgroup %q", path),
			"paths are below the memory controller's mount and begin with /; `spillway status --all` lists them")
	case h.tracker == nil:
		return admin.Heat{}, h.why
	case dry:
		return admin.Heat{}, dryHeat()
	case r != nil:
		return HeatOf(path, *r, h.cpu), nil
	case !managed && child != "":
		return admin.Heat{}, errkind.Hint(errkind.New(errkind.Unsupported, "offload: %q has child cgroups, whose accesses are tracked one by one", path),
			"name one of them, for example %s", child)
	case !managed:
		return admin.Heat{}, errkind.Hint(errkind.New(errkind.Unsupported, "offload: %q is only observed (%s), and access is tracked for managed cgroups", path, why),
			"add it to offload.roots, or watch it yourself: spillway offload heat CGROUP --for 2m")
	case h.errors[g] != nil:
		return admin.Heat{}, h.errors[g]
	case h.failed != nil:
		return admin.Heat{}, h.failed
	}
	return admin.Heat{}, errkind.Hint(errkind.New(errkind.Unknown, "offload: no reading of %q yet", path),
		"ask again in %v: some sources need two scans", h.every)
}

// managedChildLocked is a managed cgroup below path, "" when there is none.
//
// +checklocks:a.mu
func (a *Agent) managedChildLocked(path string) string {
	for _, t := range a.view.order {
		if t.managed && t.path != path && within(t.path, path) {
			return t.path
		}
	}
	return ""
}

// HeatOf is a reading in the admin API's shape. cpu is what the scan cost.
func HeatOf(path string, r heat.Reading, cpu time.Duration) admin.Heat {
	out := admin.Heat{
		Cgroup: path, Time: r.At, Source: r.Source, Span: admin.Duration(r.Span), Scan: admin.Duration(r.Scan),
		Seen: r.Cold.Total(), WorkingSet: r.WorkingSet, Cold: heatAges(r.Cold), ScanCPU: admin.Duration(cpu),
	}
	for _, p := range r.Curve() {
		out.Curve = append(out.Curve, admin.HeatPoint{Idle: admin.Duration(p.Idle), Bytes: p.Bytes, Known: p.Known})
	}
	if r.Promo != nil {
		out.Promoted = heatAges(r.Promo)
	}
	return out
}

func heatAges(h heat.Histogram) []admin.HeatAge {
	out := make([]admin.HeatAge, 0, len(h))
	for _, a := range h {
		out = append(out, admin.HeatAge{Idle: admin.Duration(a.Idle), Bytes: a.Bytes})
	}
	return out
}
