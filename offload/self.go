package offload

import (
	"context"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

const (
	// selfEvery is how often the daemon's own cost is averaged.
	selfEvery = 10 * time.Second
	// silences is how many times in a row the worker may leave a question unanswered (each waits 10 s) before it
	// counts as dead: one that is stopped holds limits nobody restores.
	silences = 3
)

// watchSelf measures what this daemon and its worker cost. It runs in a goroutine of its own, because a worker
// that hangs must not hang anything else, and reports on hung if it does.
func (a *Agent) watchSelf(ctx context.Context, hung chan<- error) {
	var lastCPU, lastWorker time.Duration
	var at time.Time
	silent := 0
	var unanswered error
	tick := time.NewTicker(selfEvery)
	defer tick.Stop()
	for {
		now := time.Now()
		user, system, rss, err := sys.Rusage(sys.UsageSelf)
		if err != nil {
			a.log.Warn("own cost unreadable", "error", err)
			return
		}
		cpu, worker := user+system, lastWorker
		if a.deps.Worker != nil {
			u, err := a.deps.Worker.Usage()
			switch {
			case err == nil:
				worker, silent = u.CPU, 0
			case ctx.Err() != nil:
				return
			default:
				silent, unanswered = silent+1, err
				a.log.Warn("the worker does not answer", "error", err, "times", silent)
			}
			if silent >= silences {
				send(ctx, hung, errkind.Hint(errkind.New(errkind.Unavailable, "offload: the worker has not answered %d times in a row: %w", silent, unanswered),
					"find what stops it (a stopped or frozen process?); after its end run `spillway restore`"))
				return
			}
		}
		a.mu.Lock()
		if !at.IsZero() {
			a.view.self.CPU = share(cpu-lastCPU, now.Sub(at))
			a.view.self.WorkerCPU = share(worker-lastWorker, now.Sub(at))
		}
		a.view.self.RSS = rss
		a.mu.Unlock()
		at, lastCPU, lastWorker = now, cpu, worker
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
