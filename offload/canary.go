package offload

import (
	"context"
	"time"

	"github.com/spillway-io/spillway/offload/tier"
)

// runCanary measures the tiers at start and every canary.every, and hands the results to Run. A failure is
// logged and the law goes on with its seeds: not knowing a tier's latency is no reason to stop.
func (a *Agent) runCanary(ctx context.Context, cfg Canary, out chan<- []tier.Measurement) {
	for {
		ms, err := tier.Canary(ctx, tier.CanaryConfig{
			Root: a.deps.Root, Hierarchy: a.h, Set: a.tiers, Worker: a.deps.Worker, Exe: a.deps.Exe, Size: cfg.Size, Log: a.log,
		})
		if err != nil && ctx.Err() == nil {
			a.log.Warn("canary could not measure the tiers; the law uses its seeds", "error", err)
		}
		if len(ms) > 0 {
			select {
			case out <- ms:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(cfg.Every):
		}
	}
}
