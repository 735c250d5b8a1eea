package offload

import (
	"context"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/offload/tier"
)

// settle is how long after the canary its own stalls may still pull the host-wide trigger: the longest window
// that watchPressure asks for, and one more for the kernel's averaging.
const settle = 4 * time.Second

// measuring says that the canary begins or has ended.
type measuring struct {
	on bool
	ms []tier.Measurement

	file    *tier.FileCost // nil: not measured, which fileWhy explains
	fileWhy string
}

// runCanary measures the tiers at start and every canary.every, and hands the results to Run. A failure is
// logged and the law goes on with its seeds: not knowing a tier's latency is no reason to stop.
//
// The canary sends its pages out and waits for each, which is memory pressure on the host. It must not pull the
// brake against everybody else, so Run takes no step and ignores the trigger from its begin until settle after
// its end; real pressure pulls it again within a window.
func (a *Agent) runCanary(ctx context.Context, cfg Canary, out chan<- measuring) {
	for {
		if !send(ctx, out, measuring{on: true}) {
			return
		}
		ms, err := tier.Canary(ctx, tier.CanaryConfig{
			Root: a.deps.Root, Hierarchy: a.h, Set: a.tiers, Worker: a.deps.Worker, Exe: a.deps.Exe, Size: cfg.Size, Log: a.log,
		})
		if err != nil && ctx.Err() == nil {
			a.log.Warn("canary could not measure the tiers; the law uses its seeds", "error", err)
		}
		done := measuring{ms: ms}
		file, err := tier.CanaryFile(ctx, tier.CanaryConfig{
			Root: a.deps.Root, Hierarchy: a.h, Set: a.tiers, Worker: a.deps.Worker, Exe: a.deps.Exe, Log: a.log,
		}, a.deps.StateDir, "/var/tmp")
		if done.file = &file; err != nil {
			done.file, done.fileWhy = nil, err.Error()
			if ctx.Err() == nil {
				a.log.Warn("canary could not measure file cache; the law uses its seed", "error", err)
			}
		}
		if !send(ctx, out, done) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(cfg.Every):
		}
	}
}

func send[T any](ctx context.Context, out chan<- T, v T) bool {
	select {
	case out <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// measure notes the canary's begin or end.
func (a *Agent) measure(m measuring, now time.Time) {
	for _, x := range m.ms {
		a.tiers.Record(x)
	}
	if m.file != nil {
		a.tiers.RecordFile(*m.file)
		a.balance.files = *m.file
	}
	if !m.on {
		a.mu.Lock()
		a.balance.filesWhy = m.fileWhy
		a.mu.Unlock()
	}
	a.host.measuring = m.on
	a.host.settled = now.Add(settle)
}

// fileRefaultLocked is what the canary found out about files, or why it is not known.
//
// +checklocks:a.mu
func (a *Agent) fileRefaultLocked() (*admin.FileRefault, string) {
	m := a.tiers.FileCost()
	if m.At.IsZero() {
		return nil, a.balance.filesWhy
	}
	return &admin.FileRefault{Dir: m.Dir, FileSystem: m.Type, P50: admin.Duration(m.P50), P99: admin.Duration(m.P99),
		InOrder: admin.Duration(m.InOrder), MeasuredAt: m.At, Note: m.Note}, ""
}

// quiet says whether the canary is at work or has just been.
func (h *hostState) quiet(now time.Time) bool { return h.measuring || now.Before(h.settled) }
