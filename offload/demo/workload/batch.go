package workload

import (
	"compress/flate"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"
)

// BatchSpec shapes a batch job.
type BatchSpec struct {
	Bytes int `json:"bytes"` // memory of one burst; in [64 KiB, 1 GiB]
	// Share is the share of one core that the job takes on average; in (0,1].
	Share float64 `json:"share"`
	// Pause is how long the job keeps nothing between two bursts; default 2s.
	Pause time.Duration `json:"pause"`
}

// slice is how long the job works before it yields for as long as its share demands: short, so that a
// neighbour's tail does not depend on where a slice falls.
const slice = 2 * time.Millisecond

// Batch runs a batch job until in ends: it fills memory with text, compresses it, drops it, rests.
func Batch(ctx context.Context, in io.Reader, out io.Writer) error {
	var spec BatchSpec
	ctx, cancel, err := begin(ctx, in, &spec)
	if err != nil {
		return fmt.Errorf("workload: batch: %w", err)
	}
	defer cancel()
	if spec.Bytes < 64<<10 || spec.Bytes > 1<<30 || !(spec.Share > 0 && spec.Share <= 1) {
		return fmt.Errorf("workload: batch: %d bytes at share %v are out of range", spec.Bytes, spec.Share)
	}
	if spec.Pause <= 0 {
		spec.Pause = 2 * time.Second
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return fmt.Errorf("workload: batch: say ready: %w", err)
	}
	for seed := uint64(1); ctx.Err() == nil; seed++ {
		work(ctx, spec, seed)
		debug.FreeOSMemory()
		rest(ctx, spec.Pause)
	}
	return nil
}

// work is one burst. It paces itself: after a slice of work it sleeps until its share is kept.
func work(ctx context.Context, spec BatchSpec, seed uint64) {
	p := pace{share: spec.Share}
	p.resume()
	data := make([]byte, spec.Bytes)
	const piece = 16 << 10
	for off := 0; off < len(data) && ctx.Err() == nil; off += piece {
		Fill(data[off:min(off+piece, len(data))], seed+uint64(off))
		p.yield(ctx)
	}
	z, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil {
		panic("workload: flate knows its own level: " + err.Error())
	}
	for off := 0; off < len(data) && ctx.Err() == nil; off += piece {
		z.Write(data[off:min(off+piece, len(data))]) // io.Discard takes everything
		p.yield(ctx)
	}
}

// pace keeps a loop to a share of one core.
type pace struct {
	share float64
	since time.Time
}

func (p *pace) resume() { p.since = time.Now() }

// yield sleeps when a slice is used up.
func (p *pace) yield(ctx context.Context) {
	if worked := time.Since(p.since); worked >= slice {
		rest(ctx, pauseAfter(worked, p.share))
		p.resume()
	}
}

// pauseAfter is how long to rest after having worked, so that work is share of the whole.
func pauseAfter(worked time.Duration, share float64) time.Duration {
	return time.Duration(float64(worked) * (1 - share) / share)
}

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
