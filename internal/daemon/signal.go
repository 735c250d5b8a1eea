package daemon

import (
	"context"
	"os"
	"os/signal"

	"github.com/spillway-io/spillway/internal/sys"
)

// Signaled is the cause of a context that SignalContext ended.
type Signaled struct{ Signal os.Signal }

func (s *Signaled) Error() string { return "stopped by " + s.Signal.String() }

// SignalContext returns a context that SIGINT or SIGTERM ends with a *Signaled as its cause. After the first
// signal the default action is back, so a second Ctrl-C ends a process that hangs in its clean-up; what it
// changed is then restored by the worker. stop frees the handler and must be called.
func SignalContext(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, sys.SIGINT, sys.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer signal.Stop(ch)
		select {
		case s := <-ch:
			cancel(&Signaled{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-done
	}
}
