package offload

import (
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/rightsize"
)

// sizer is a law that knows a size that did not hurt.
type sizer interface{ SafeSize() int64 }

// noteSize adds a period to what t's recommendation rests on.
//
// +checklocks:a.mu
func (a *Agent) noteSizeLocked(t *target, period time.Duration, s policy.Sample, d *policy.Decision, pool int64) {
	r := &t.row
	if r.sizes == nil {
		r.sizes = &rightsize.History{}
	}
	o := rightsize.Observation{Period: period, Usage: s.Usage}
	if d != nil {
		o.Resting = resting(*d)
		for _, in := range d.Inputs {
			if in.Signal == "refault-cost" {
				o.Cost = in.Value
			}
		}
	}
	r.sizes.Observe(o)
	if l, ok := t.law.(sizer); ok {
		r.safe = l.SafeSize()
	}
	r.uncharged = 0
	if a.h.Mode != cgroup.V2 { // v2 charges zswap's pool to the cgroup
		r.uncharged = pool
	}
}

// resting says whether d left the size alone because of what the workload needs, and not because of the host.
func resting(d policy.Decision) bool {
	switch d.Reason {
	case policy.SafeSize, policy.Holding, policy.RefaultCost, policy.MemPressure, policy.IOPressure, policy.PromotionRate, policy.SLO, policy.AtFloor:
		return true
	case policy.ColdAge:
		return d.Step == 0
	}
	return false
}

// Recommend implements admin.Recommender.
func (a *Agent) Recommend(path string) ([]admin.Recommendation, error) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if path != "" {
		t := a.view.byPath[path]
		switch {
		case t == nil:
			return nil, errkind.Hint(errkind.New(errkind.NotFound, "offload: no cgroup %q", path),
				"paths are below the memory controller's mount and begin with /; `spillway status --all` lists them")
		case !t.managed && a.managedChildLocked(path) != "":
			return nil, errkind.Hint(errkind.New(errkind.Unavailable, "offload: nothing to recommend for %q: its children are sized one by one", path),
				"name one of them, for example %s", a.managedChildLocked(path))
		case !t.managed:
			return nil, errkind.Hint(errkind.New(errkind.Unavailable, "offload: nothing to recommend for %q: it is only observed: %s", path, t.row.why),
				"put it below a root; a dry run is enough to watch it, but only taking memory shows what is needed")
		}
		return []admin.Recommendation{a.recommendLocked(t, now)}, nil
	}
	out := []admin.Recommendation{}
	for _, t := range a.view.order {
		if t.managed {
			out = append(out, a.recommendLocked(t, now))
		}
	}
	return out, nil
}

// +checklocks:a.mu
func (a *Agent) recommendLocked(t *target, now time.Time) admin.Recommendation {
	row := &t.row
	h := row.sizes
	if h == nil {
		h = &rightsize.History{}
	}
	r := h.Recommend(rightsize.Now{Floor: row.floor, Safe: row.safe, Saving: row.saving.sustained(now), Pool: row.uncharged})
	return admin.Recommendation{
		Cgroup: t.path, Class: string(t.class),
		Resources: admin.Resources{Requests: admin.Requests{Memory: rightsize.Kube(r.Request)}},
		Request:   r.Request, UpperBound: r.UpperBound, Usage: r.Usage, Need: r.Need, Safe: r.Safe, Floor: row.floor, Saving: r.Saving, RefaultCost: r.Cost,
		Watched: admin.Duration(r.Watched), Resting: admin.Duration(r.Resting),
		Confidence: r.Confidence, Level: r.Level, Why: r.Why, Raise: r.Raise,
	}
}
