package worker

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/sys"
)

// handle leads each request to exactly one answer, except cancel, which has none. It never blocks.
func (s *server) handle(req *request) {
	switch req.Op {
	case opCancel:
		s.mu.Lock()
		cancel := s.cancels[req.Of]
		s.mu.Unlock()
		if cancel != nil {
			cancel()
		}
	case opUsage:
		s.send(req.ID, s.usage())
	case opStep:
		s.begin(req, func(ctx context.Context) {
			h, err := s.claim(req)
			if err != nil {
				s.answerStep(req, reply{Err: toWire(err)})
				return
			}
			s.steps <- &job{ctx, func() {
				defer s.work.Done()
				s.answerStep(req, s.step(ctx, req, h))
			}}
		})
	case opDo:
		s.begin(req, func(ctx context.Context) {
			s.turn(req.ID, func() reply { return s.change(ctx, req) })
		})
	case opUndo:
		s.begin(req, func(ctx context.Context) {
			s.turn(req.ID, func() reply { return s.undoOne(ctx, req.Entry) })
		})
	case opKdamond:
		s.begin(req, func(ctx context.Context) { s.kdamond(ctx, req) })
	default:
		s.send(req.ID, reply{Err: toWire(errkind.New(errkind.Invalid, "worker: unknown request %q", req.Op))})
	}
}

// begin gives the request its context and calls f, which must lead to exactly one answer.
func (s *server) begin(req *request, f func(context.Context)) {
	s.mu.Lock()
	if len(s.cancels) >= maxPending {
		s.mu.Unlock()
		s.send(req.ID, reply{Err: toWire(errkind.New(errkind.Exhausted, "worker: %d requests in flight", maxPending))})
		return
	}
	ctx, cancel := s.timed(req.Millis)
	s.cancels[req.ID] = cancel
	s.mu.Unlock()
	f(ctx)
}

func (s *server) timed(millis int64) (context.Context, context.CancelFunc) {
	if millis > 0 {
		return context.WithTimeout(s.ctx, time.Duration(millis)*time.Millisecond)
	}
	return context.WithCancel(s.ctx)
}

// answer ends a request that began.
func (s *server) answer(id uint64, r reply) {
	s.end(id)
	s.send(id, r)
}

// answerStep is answer for a step, which may have asked for its answer to linger.
func (s *server) answerStep(req *request, r reply) {
	s.end(req.ID)
	s.out <- message{b: line(req.ID, r), lazy: req.Lazy}
}

// end forgets how to cancel a request.
func (s *server) end(id uint64) {
	s.mu.Lock()
	cancel := s.cancels[id]
	delete(s.cancels, id)
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// send never blocks for long: out has room for every request that can be in flight.
func (s *server) send(id uint64, r reply) { s.out <- message{b: line(id, r)} }

func line(id uint64, r reply) []byte {
	r.ID = id
	b, err := encode(r)
	if err != nil {
		b, _ = encode(reply{ID: id, Err: toWire(err)})
	}
	return b
}

// turn queues a change behind those under way.
func (s *server) turn(id uint64, f func() reply) {
	s.mu.Lock()
	closing := s.closing
	if !closing {
		s.changes.Add(1)
	}
	s.mu.Unlock()
	if closing {
		s.answer(id, reply{Err: toWire(errkind.New(errkind.Unavailable, "worker: change: shutting down"))})
		return
	}
	select {
	case s.turns <- func() {
		defer s.changes.Done()
		s.answer(id, f())
	}:
	default:
		s.changes.Done()
		s.answer(id, reply{Err: toWire(errkind.New(errkind.Exhausted, "worker: too many changes waiting"))})
	}
}

func (s *server) change(ctx context.Context, req *request) reply {
	var r reply
	if req.Change == nil {
		r.Err = toWire(errkind.New(errkind.Invalid, "worker: change: empty"))
		return r
	}
	var e journal.Entry
	var err error
	interruptible(ctx, func() { e, err = s.m.do(ctx, *req.Change) })
	if err != nil {
		r.Err = toWire(err)
		return r
	}
	r.Entry = e.ID
	if e.Kind == journal.SwapFile || e.Kind == journal.Zram {
		r.Device = journal.Text(e.Path)
	}
	return r
}

func (s *server) undoOne(ctx context.Context, id uint64) reply {
	e, ok := s.m.j.Get(id)
	if !ok {
		return reply{Err: toWire(errkind.New(errkind.NotFound, "worker: undo: no change %d outstanding", id))}
	}
	if e.Kind == journal.Knob {
		inherited, err := s.m.inherit(e)
		if err != nil {
			return reply{Err: toWire(err)}
		}
		if inherited {
			return reply{}
		}
	}
	var o Outcome
	interruptible(ctx, func() { o = s.m.undo(ctx, e, false) })
	if o.Result == Alone {
		s.m.log.Warn("somebody else changed it, left alone", "what", o.What, "now", o.Now)
	}
	return reply{Err: toWire(o.Err)}
}

// inherit handles the undoing of a knob that was changed again later: the file keeps the later value, and the
// later change learns the value before the earlier one as its old value.
func (m *machine) inherit(e journal.Entry) (bool, error) {
	for _, later := range m.j.Entries() {
		if later.ID <= e.ID || later.Kind != journal.Knob || later.Path != e.Path || !same(later.Old, e.New) {
			continue
		}
		later.Old = e.Old
		if _, err := m.j.Put(later); err != nil {
			return false, fmt.Errorf("worker: undo: %w", err)
		}
		m.forget(e)
		return true, nil
	}
	return false, nil
}

func (s *server) usage() reply {
	user, system, rss, err := sys.Rusage(sys.UsageSelf)
	return reply{CPU: user + system, MaxRSS: rss, Entries: len(s.m.j.Entries()), Err: toWire(err)}
}

func entryID(id string) (uint64, error) {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil || n == 0 {
		return 0, errkind.New(errkind.Invalid, "worker: undo: %q is no id of a change", id)
	}
	return n, nil
}
