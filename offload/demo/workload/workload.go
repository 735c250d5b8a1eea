// Package workload holds the two programs that run beside the demo's key-value servers: a sidecar that keeps
// a large heap it hardly uses, and a batch job that comes in bursts.
//
// Promise: each says "ready" on its output once its memory is in place, works until its input ends, and keeps
// to the share of a core it was given.
// Ownership: each owns its whole process, including the garbage collector's settings.
// Failure: an invalid spec ends it at once with an error; it has no other way to fail.
// Non-goals: looking like any particular product.
package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/spillway-io/spillway/offload/demo/load"
)

// pageSize is the stride at which touching a byte touches every page.
const pageSize = 4096

// SidecarSpec sizes a sidecar, in bytes.
type SidecarSpec struct {
	Cold int `json:"cold"` // filled once, never touched again; in [1 MiB, 4 GiB]
	Hot  int `json:"hot"`  // touched every Every; in [0, Cold]
	// Every is how often the hot part is touched; default 100ms.
	Every time.Duration `json:"every"`
}

// Sidecar runs a sidecar until in ends.
func Sidecar(ctx context.Context, in io.Reader, out io.Writer) error {
	var spec SidecarSpec
	ctx, cancel, err := begin(ctx, in, &spec)
	if err != nil {
		return fmt.Errorf("workload: sidecar: %w", err)
	}
	defer cancel()
	if spec.Cold < 1<<20 || spec.Cold > 4<<30 || spec.Hot < 0 || spec.Hot > spec.Cold {
		return fmt.Errorf("workload: sidecar: sizes %d cold and %d hot are out of range", spec.Cold, spec.Hot)
	}
	if spec.Every <= 0 {
		spec.Every = 100 * time.Millisecond
	}
	heap := Fill(make([]byte, spec.Cold+spec.Hot), 0x51de)
	debug.FreeOSMemory()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return fmt.Errorf("workload: sidecar: say ready: %w", err)
	}
	hot := heap[spec.Cold:]
	tick := time.NewTicker(spec.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for i := 0; i < len(hot); i += pageSize {
			hot[i]++
		}
	}
}

// begin reads spec from in and returns a context that ends when in does.
func begin(ctx context.Context, in io.Reader, spec any) (context.Context, context.CancelFunc, error) {
	if err := json.NewDecoder(in).Decode(spec); err != nil {
		return nil, nil, fmt.Errorf("read spec: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx, cancel, nil
}

// Fill fills b with text that depends on seed alone, and returns it.
func Fill(b []byte, seed uint64) []byte {
	text := load.NewText(seed)
	for rest := b; len(rest) > 0; {
		n := min(len(rest), pageSize)
		copy(rest, text.Append(make([]byte, 0, n), n))
		rest = rest[n:]
	}
	return b
}
