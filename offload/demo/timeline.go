package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillway-io/spillway/internal/psi"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/demo/watch"
)

const (
	// skip is how many seconds after a change do not count: the servers' and the kernel's caches are settling.
	skip = 5 * time.Second
	// saveWindow is the end of a half over which the saving is averaged.
	saveWindow = 20 * time.Second
	// pollDecisions is shorter than the daemon's ring lasts.
	pollDecisions = 10 * time.Second
)

// span is a phase of the timeline.
type span struct{ from, to time.Time }

// counted is the span without its first seconds.
func (s span) counted() span { return span{s.from.Add(skip), s.to} }

// timeline is the experiment: A/A, half 1, give-back, half 2.
func (r *rig) timeline(ctx context.Context) (*Result, error) {
	off := r.setting("composite", -1)
	r.show.phase("start the daemon, let it measure its tiers", 5*time.Second)
	if err := r.startNode(ctx, off); err != nil {
		return nil, err
	}
	if err := r.startGenerator(); err != nil {
		return nil, err
	}
	res := r.newResult()

	aa, err := r.phase(ctx, "A/A: both servers off, the noise of this machine", r.cfg.Calibrate+skip)
	if err != nil {
		return nil, err
	}
	r.reportCalibration(res, aa)
	for i := range r.twins {
		if i > 0 {
			back, err := r.giveBack(ctx, i-1, off)
			if err != nil {
				return nil, err
			}
			res.GiveBack = back
		}
		if err := r.node.apply(ctx, r.setting("composite", i)); err != nil {
			return nil, err
		}
		s, err := r.phase(ctx, fmt.Sprintf("half %d: %s offloaded, %s not", i+1, r.twins[i].name, r.twins[1-i].name), r.cfg.Half)
		if err != nil {
			return nil, err
		}
		if err := r.node.collect(ctx); err != nil {
			return nil, err
		}
		r.reportHalf(res, i, s)
	}
	r.reportSidecar(res, time.Now())
	return res, nil
}

// setting has the sidecar and the batch job offloaded, and of the twins the one with index on, or none.
func (r *rig) setting(law string, on int) setting {
	s := setting{law: law, classes: map[string]class.Class{r.sidecar.path: class.Tax, r.batch.path: class.Throughput}}
	if on >= 0 {
		s.classes[r.twins[on].path] = class.Latency
	}
	return s
}

// phase lets d pass and returns when it began and ended.
func (r *rig) phase(ctx context.Context, name string, d time.Duration) (span, error) {
	r.show.phase(name, d)
	s := span{from: time.Now()}
	err := r.watch(ctx, s.from.Add(d))
	s.to = time.Now()
	return s, err
}

// watch waits until a moment, sees to it that nothing has died, and keeps the progress line alive.
func (r *rig) watch(ctx context.Context, until time.Time) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	end := time.NewTimer(time.Until(until))
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
			return r.alive()
		case <-tick.C:
		}
		if err := r.alive(); err != nil {
			return err
		}
		r.show.update(r.liveLine())
		if time.Since(r.node.collected) >= pollDecisions {
			if err := r.node.collect(ctx); err != nil {
				return err
			}
		}
	}
}

// alive says which part of the experiment has died.
func (r *rig) alive() error {
	if err := r.gen.ended(); err != nil {
		return err
	}
	if err := r.rec.Err(); err != nil {
		return fmt.Errorf("demo: watch the cgroups: %w", err)
	}
	for _, m := range r.members() {
		select {
		case <-m.proc.Done:
			return fmt.Errorf("demo: %s ended: %v", m.name, m.proc.Err)
		default:
		}
	}
	select {
	case <-r.node.proc.Done:
		return fmt.Errorf("demo: the daemon ended: %v: %s", r.node.proc.Err, r.node.logTail())
	case <-r.worker.Dead():
		return errors.New("demo: the demo's own worker process ended")
	default:
		return nil
	}
}

// liveLine is what the progress line says beside the phase.
func (r *rig) liveLine() string {
	now := time.Now()
	ss := r.rec.Between(now.Add(-3*time.Second), now)
	if len(ss) == 0 {
		return ""
	}
	s := ss[len(ss)-1]
	p99 := r.gen.latest()
	return fmt.Sprintf("MB A %d B %d sidecar %d | p99 A %v B %v",
		s.Of[0].Usage>>20, s.Of[1].Usage>>20, s.Of[2].Usage>>20, p99[0].Round(time.Microsecond), p99[1].Round(time.Microsecond))
}

// GiveBack is what happened when the offloaded server's cold keys were all wanted at once.
type GiveBack struct {
	Server      string  `json:"server"`
	Keys        int     `json:"keys"`
	Seconds     float64 `json:"seconds"`
	Refaults    uint64  `json:"refaults"`
	PSI         bool    `json:"psi"`
	PSISeconds  float64 `json:"psi_seconds"` // memory "some" that the kernel counted meanwhile
	PSIShare    number  `json:"psi_share"`   // of what the refaults cost at the tier's measured p50
	LimitStalls uint64  `json:"limit_stalls"`
	Before      int64   `json:"before_bytes"`
	After       int64   `json:"after_bytes"`
}

// giveBack switches twin i off and reads its cold keys once: everything comes back, and no limit is in the way.
func (r *rig) giveBack(ctx context.Context, i int, off setting) (*GiveBack, error) {
	t := r.twins[i]
	r.show.phase("give back: read the cold keys of "+t.name+" once", 8*time.Second)
	if err := r.node.apply(ctx, off); err != nil {
		return nil, err
	}
	before, err := r.rec.Look()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := t.scan(ctx, 0, r.cfg.cold()); err != nil {
		return nil, err
	}
	took := time.Since(begin)
	after, err := r.rec.Look()
	if err != nil {
		return nil, err
	}
	b, a := before.Of[i], after.Of[i]
	g := &GiveBack{
		Server: t.name, Keys: r.cfg.cold(), Seconds: took.Seconds(), Refaults: a.RefaultAnon - b.RefaultAnon,
		PSI: a.HasPSI && b.HasPSI, PSISeconds: stalled(b.Stall, a.Stall).Seconds(), LimitStalls: a.FailCnt - b.FailCnt,
		Before: b.Usage, After: a.Usage,
	}
	g.PSIShare = psiShare(b, a, time.Duration(g.Refaults)*r.refaultCost(ctx))
	return g, r.watch(ctx, time.Now().Add(2*time.Second))
}

// stalled is the "some" time between two readings of a pressure file.
func stalled(from, to psi.Totals) time.Duration {
	return time.Duration(to.Some-from.Some) * time.Microsecond
}

// psiShare is what memory PSI counted between two readings, as a share of the time really spent; NaN when unknown.
func psiShare(from, to watch.Reading, spent time.Duration) number {
	if !from.HasPSI || !to.HasPSI || spent <= 0 {
		return number(math.NaN())
	}
	return number(stalled(from.Stall, to.Stall).Seconds() / spent.Seconds())
}

// refaultCost is what one refault costs by the daemon's own measurement, 0 when it does not say.
func (r *rig) refaultCost(ctx context.Context) time.Duration {
	st, err := r.node.admin.Status(ctx)
	if err != nil {
		return 0
	}
	for _, t := range st.Tiers {
		if t.State == "active" && t.P50 > 0 {
			return time.Duration(t.P50)
		}
	}
	return 0
}
