package slo

import (
	"context"
	"sync"
	"time"
)

// Watcher reads a Source once a window, in a goroutine of its own, so that a slow server holds up nobody who asks.
type Watcher struct {
	src    Source
	cancel context.CancelFunc
	done   chan struct{}

	mu sync.Mutex
	// +checklocks:mu
	last Reading
	// +checklocks:mu
	number uint64
}

// Watch begins to read src every window. The Watcher owns src from then on.
func Watch(src Source, window time.Duration) *Watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watcher{src: src, cancel: cancel, done: make(chan struct{}), last: Reading{State: Starting, Why: "no window yet"}}
	go w.run(ctx, window)
	return w
}

func (w *Watcher) run(ctx context.Context, window time.Duration) {
	defer close(w.done)
	t := time.NewTicker(window)
	defer t.Stop()
	for {
		r := w.src.Read(ctx)
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		w.last = r
		w.number++
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// Latest returns the newest reading and its number, counted from 1; 0 is before the first.
func (w *Watcher) Latest() (Reading, uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.number
}

// Close ends the watching and the source.
func (w *Watcher) Close() error {
	w.cancel()
	<-w.done
	return w.src.Close()
}
