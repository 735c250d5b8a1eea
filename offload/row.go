package offload

import (
	"maps"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/rightsize"
)

// kept is how many decisions a managed cgroup remembers: two minutes of one-second periods.
const kept = 128

// keptAll bounds the decisions that all cgroups remember together, about 10 MiB: a node with thousands remembers fewer
// of each, but never under keptLeast.
const (
	keptAll   = 100 * kept
	keptLeast = 8
)

// memory is how many decisions each of n managed cgroups remembers.
func memory(n int) int { return min(kept, max(keptLeast, keptAll/max(n, 1))) }

// row is what the admin API shows of one target; guarded by Agent.mu.
type row struct {
	stat      cgroup.Stat
	why       string
	floor     int64
	peak      int64
	fileMax   int64
	psi       bool
	psiWhy    string
	memSome   float64
	ioSome    float64
	refaults  float64
	faults    float64
	offloaded map[string]int64
	saving    saving
	cold      int64      // estimate for observed cgroups
	slo       *admin.SLO // nil: no signal for it; never changed, only replaced
	mix       string
	poor      bool
	written   int64              // to drives, its share of what swapping wrote
	sizes     *rightsize.History // nil: never managed
	safe      int64              // the law's safe size, 0 without
	uncharged int64              // bytes of its pages in a pool that is charged to nobody

	decisions []admin.Decision // ring
	next      int
	pending   int   // index+1 of the decision whose step is in flight, 0 none
	recent    int   // number in view.recent of that decision
	fileAt    int64 // file cache when that step was decided
	took      int64 // bytes the last finished step took, until record has split them
}

func (r *row) peakFile() int64 {
	r.fileMax = max(r.fileMax, r.stat.File)
	return r.fileMax
}

// setObserved refreshes a cgroup that is only watched. Inactive pages are the kernel's own guess at what is
// cold; anonymous ones are counted at half, because compressing them keeps about half of them in memory.
func (r *row) setObserved(s cgroup.Stat) {
	r.stat = s
	r.cold = s.InactiveFile + s.InactiveAnon/2
	r.peak = max(r.peak, s.Usage)
}

// release forgets what only a managed cgroup has.
func (r *row) release() {
	r.psi, r.psiWhy = false, "not read while only observed"
	r.offloaded, r.floor, r.mix, r.poor, r.slo = nil, 0, "", false, nil
	r.memSome, r.ioSome, r.refaults, r.faults = 0, 0, 0, 0
	r.sizes, r.safe, r.uncharged = nil, 0, 0
	r.saving.reset()
}

// push adds a decision and marks it pending if it asked for a step. size is how many are remembered, if this is the
// first.
func (r *row) push(d admin.Decision, size int) {
	if r.decisions == nil {
		r.decisions = make([]admin.Decision, 0, size)
	}
	if len(r.decisions) < cap(r.decisions) {
		r.decisions = append(r.decisions, d)
	} else {
		r.decisions[r.next%cap(r.decisions)] = d
	}
	if d.Step > 0 {
		r.pending = r.next%cap(r.decisions) + 1
		r.fileAt = r.stat.File
	}
	r.next++
}

// finish completes the pending decision with what its step did, and returns it.
func (r *row) finish(res worker.StepResult, taken int64, err error) (admin.Decision, bool) {
	if r.pending == 0 {
		return admin.Decision{}, false
	}
	d := &r.decisions[r.pending-1]
	r.pending = 0
	d.Reclaimed, d.Took = taken, admin.Duration(res.Took)
	r.took = taken
	if err != nil {
		d.Error = err.Error()
	}
	return *d, true
}

// newest returns up to n decisions, newest first.
func (r *row) newest(n int) []admin.Decision {
	n = min(n, len(r.decisions))
	out := make([]admin.Decision, 0, n)
	for i := 1; i <= n; i++ {
		out = append(out, r.decisions[(r.next-i)%cap(r.decisions)])
	}
	return out
}

// cgroup renders t for the API.
func (t *target) cgroup(now time.Time) admin.Cgroup {
	r := &t.row
	c := admin.Cgroup{
		Path: t.path, Class: string(t.class), Managed: t.managed, Why: r.why,
		Usage: r.stat.Usage, Peak: r.peak, Floor: r.floor, Anon: r.stat.Anon, File: r.stat.File,
		Offloaded: maps.Clone(r.offloaded), PSI: r.psi, PSIWhy: r.psiWhy,
		MemSome: r.memSome, IOSome: r.ioSome, Refaults: r.refaults, Faults: r.faults,
		Mix: r.mix, Incompressible: r.poor, Written: r.written,
	}
	if t.managed {
		c.Saving, c.SLO = r.saving.sustained(now), r.slo
	}
	if r.psi {
		c.PSIWhy = ""
	}
	if d := r.newest(1); len(d) == 1 && t.managed { // an old decision says nothing about a cgroup that is only watched
		c.Last = &d[0]
	}
	return c
}
