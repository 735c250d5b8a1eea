package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
)

// Bounds on held cgroups. A handle holds three descriptors.
const (
	maxHandles = 2048
	idleHandle = 10 * time.Minute
)

// handle is an open cgroup with its journal entry.
type handle struct {
	g     *cgroup.Group
	entry uint64 // of the limit's journal entry; 0 before the first v1 step
	used  time.Time
	busy  bool // a step holds it; nobody else touches it meanwhile

	balance uint64 // of the journal entry of what a step holds; 0 before the first
}

// claim finds or opens the cgroup and marks it busy.
func (s *server) claim(req *request) (*handle, error) {
	path := string(req.Cgroup)
	if sw := cgroup.Swappiness(req.Mix); !sw.Valid() {
		return nil, errkind.New(errkind.Invalid, "worker: step %q: no swappiness %d", path, req.Mix)
	}
	if err := errors.Join(s.m.hErr, s.m.sErr); err != nil {
		return nil, fmt.Errorf("worker: step %q: %w", path, err)
	}
	if path == s.m.self || path == "/" {
		return nil, errkind.New(errkind.Denied, "worker: step %q: refusing the root and Spillway's own cgroup", path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errkind.New(errkind.Unavailable, "worker: step %q: shutting down", path)
	}
	h := s.handles[path]
	if h != nil && h.busy {
		return nil, errkind.New(errkind.Unavailable, "worker: step %q: %w", path, ErrInFlight)
	}
	if h != nil && req.Inode != 0 && h.g.Inode() != req.Inode {
		s.dropLocked(path, h)
		h = nil
	}
	if h == nil {
		g, err := s.m.h.OpenToAct(path)
		if err != nil {
			return nil, fmt.Errorf("worker: step: %w", notFound(err))
		}
		if req.Inode != 0 && g.Inode() != req.Inode {
			g.Close()
			return nil, errkind.New(errkind.NotFound, "worker: step %q: %w", path, cgroup.ErrGone)
		}
		s.makeRoomLocked()
		h = &handle{g: g}
		s.handles[path] = h
	}
	h.busy, h.used = true, time.Now()
	s.work.Add(1)
	return h, nil
}

// notFound gives a vanished cgroup its kind.
func notFound(err error) error {
	if errors.Is(err, cgroup.ErrGone) {
		return errkind.Wrap(errkind.NotFound, err)
	}
	return err
}

// release gives the cgroup back; one that is gone is forgotten.
func (s *server) release(path string, h *handle, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.busy = false
	if gone {
		s.dropLocked(path, h)
	}
}

// dropLocked closes an idle handle. Its journal entries go, unless something could not be restored.
//
// +checklocks:s.mu
func (s *server) dropLocked(path string, h *handle) {
	delete(s.handles, path)
	h.g.Close()
	for _, id := range [...]uint64{h.entry, h.balance} {
		if e, ok := s.m.j.Get(id); ok && !e.Pending {
			s.m.forget(e)
		}
	}
}

// +checklocks:s.mu
func (s *server) makeRoomLocked() {
	if len(s.handles) < maxHandles {
		return
	}
	var oldest string
	var at *handle
	for path, h := range s.handles {
		if !h.busy && (at == nil || h.used.Before(at.used)) {
			oldest, at = path, h
		}
	}
	if at != nil {
		s.dropLocked(oldest, at)
	}
}

// sweep closes handles that no step has used for long.
func (s *server) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, h := range s.handles {
		if !h.busy && now.Sub(h.used) > idleHandle {
			s.dropLocked(path, h)
		}
	}
}

// step runs on a pool thread; ctx's end calls the thread back.
func (s *server) step(ctx context.Context, req *request, h *handle) reply {
	path := string(req.Cgroup)
	var r reply
	err := ctx.Err()
	if err == nil {
		start := time.Now()
		if s.m.h.CanReclaim {
			err = s.reclaim(req, h, &r)
		} else {
			err = s.shrinkBy(req, h, &r)
		}
		r.Took = time.Since(start)
		if errors.Is(err, cgroup.ErrInterrupted) {
			// Without our asking it was a stray signal: the step took what it took.
			if err = ctx.Err(); err == nil {
				r.Busy = true
			}
		}
	}
	if err != nil {
		r.Err = toWire(fmt.Errorf("worker: step %q: %w", path, notFound(err)))
	}
	s.release(path, h, errors.Is(err, cgroup.ErrGone))
	return r
}

func (s *server) reclaim(req *request, h *handle, r *reply) error {
	before, err := h.g.Usage()
	if err != nil {
		return err
	}
	r.Before, r.After = before, before
	want := min(req.Bytes, before-req.Floor)
	if want <= 0 {
		return nil
	}
	reclaimed := s.reclaimBy(h, want, cgroup.Swappiness(req.Mix), r)
	after, err := h.g.Usage()
	if err == nil {
		r.After = after
		r.Busy = reclaimed == nil && before-after < want/2
	}
	return errors.Join(reclaimed, err)
}

func (s *server) shrink(req *request, h *handle, r *reply) error {
	if s.m.h.Mode == cgroup.V2 {
		return &probe.Missing{Feature: "memory.reclaim", Since: "5.19", Do: "use Linux 5.19 or newer"}
	}
	wrote := false
	res, err := h.g.Shrink(req.Bytes, req.Floor, func(old, target int64) error {
		if err := s.intend(h, old, target); err != nil {
			return err
		}
		wrote = true
		return nil
	})
	r.Before, r.After, r.FailCnt, r.Busy = res.Before, res.After, res.FailCnt, res.Busy
	// A limit that somebody else set meanwhile, or that vanished with its cgroup, is not ours to restore.
	if wrote && (res.Restored || errors.Is(err, cgroup.ErrForeign) || errors.Is(err, cgroup.ErrGone)) {
		if err := s.m.j.Done(h.entry); err != nil {
			s.m.log.Warn("journal could not record the end of a step", "cgroup", string(req.Cgroup), "err", err)
		}
	}
	return err
}

// intend journals a step about to begin: durably at the first one on a cgroup, in the page cache afterwards.
func (s *server) intend(h *handle, old, target int64) error {
	if h.entry == 0 {
		e := s.m.fresh("limit", h.g.Path())
		e.Inode, e.Old = h.g.Inode(), limitText(old)
		id, err := s.m.j.Put(e)
		if err != nil {
			return err
		}
		h.entry = id
	}
	return s.m.j.Intent(h.entry, old, target)
}
