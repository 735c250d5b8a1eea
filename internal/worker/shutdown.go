package worker

import (
	"context"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/journal"
)

// flushPatience is how long the last answer may take to leave.
const flushPatience = time.Second

// shutdown undoes everything and releases the state directory. id is the close request to answer, 0 when the
// daemon is gone. What hurts running programs goes first: limits, then knobs; no change under way can delay them
// by more than twice stepPatience.
func (s *server) shutdown(ctx context.Context, id uint64) error {
	start := time.Now()
	if err := mark(s.lock, undoing); err != nil {
		s.m.log.Warn("cannot tell that undoing has begun", "err", err)
	}
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.stop(errHangup) // calls every blocked thread back; each step restores its own limit

	within(&s.work, stepPatience)
	out := s.undoPhase(ctx, limits)
	within(&s.changes, stepPatience)
	out = append(out, s.undoPhase(ctx, knobs)...)
	s.m.log.Info("limits and knobs are back", "took", time.Since(start))

	// A change under way takes itself back, because its context has ended; a step that the kernel holds fast has not
	// lowered any limit yet and is called back the moment it can be.
	s.work.Wait()
	s.changes.Wait()
	final := s.m.undoAll(ctx, s.m.j.Entries(), false, nil)
	out = append(dropKept(out), final...)
	for _, o := range out {
		logOutcome(s.m.log, "undoing", o)
	}
	err := failures(out)
	if id != 0 {
		s.last(id, out, err)
	}
	close(s.quit)
	s.closeAll()
	return err
}

// undoPhase undoes the entries of one phase only.
func (s *server) undoPhase(ctx context.Context, p int) []Outcome {
	return s.m.undoAll(ctx, s.m.j.Entries(), false, func(e journal.Entry) bool { return phase(e.Kind) != p })
}

// dropKept leaves out what a later pass tries, and reports, again.
func dropKept(out []Outcome) []Outcome {
	var done []Outcome
	for _, o := range out {
		if o.Result != Kept {
			done = append(done, o)
		}
	}
	return done
}

// within waits for wg, but not longer than patience.
func within(wg *sync.WaitGroup, patience time.Duration) {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func (s *server) last(id uint64, out []Outcome, err error) {
	r := reply{ID: id, Err: toWire(err)}
	r.tell(out)
	b, encErr := encode(r)
	if encErr != nil {
		s.m.log.Error("cannot tell what was undone", "err", encErr)
		return
	}
	sent := make(chan struct{})
	s.out <- message{b: b, sent: sent}
	timer := time.NewTimer(flushPatience)
	defer timer.Stop()
	select {
	case <-sent:
	case <-timer.C:
	}
}

// closeAll gives descriptors and, last, the lock back.
func (s *server) closeAll() {
	s.mu.Lock()
	for path, h := range s.handles {
		h.g.Close()
		delete(s.handles, path)
	}
	s.mu.Unlock()
	if err := s.m.j.Close(); err != nil {
		s.m.log.Warn("journal did not close", "err", err)
	}
	s.lock.Close()
}
