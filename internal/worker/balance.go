package worker

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
)

// steering is what the worker has found out about this kernel's ways to choose between file and anonymous memory.
type steering struct {
	mu sync.Mutex
	// +checklocks:mu
	accepts map[cgroup.Swappiness]bool // by example: whether memory.reclaim takes a weight, and "max"
	// +checklocks:mu
	claimed map[string]bool // files that a step holds at another value, or that a lasting change writes, right now
}

// takes asks the kernel once whether memory.reclaim takes s.
func (st *steering) takes(g *cgroup.Group, s cgroup.Swappiness) (bool, error) {
	if _, weight := s.Weight(); weight {
		s = cgroup.FileOnly
	}
	st.mu.Lock()
	ok, known := st.accepts[s]
	st.mu.Unlock()
	if known {
		return ok, nil
	}
	ok, err := g.Accepts(s)
	if err != nil {
		return false, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.accepts == nil {
		st.accepts = map[cgroup.Swappiness]bool{}
	}
	st.accepts[s] = ok
	return ok, nil
}

// claim keeps a file for one step or one lasting change until give. Whoever comes second is refused: a change would
// take a step's value for the old one, and a step a change's value for the one to go back to.
func (st *steering) claim(path string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.freeLocked(path); err != nil {
		return err
	}
	if st.claimed == nil {
		st.claimed = map[string]bool{}
	}
	st.claimed[path] = true
	return nil
}

func (st *steering) give(path string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.claimed, path)
}

// free refuses to look at a file whose present value will not stay.
func (st *steering) free(path string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.freeLocked(path)
}

// +checklocks:st.mu
func (st *steering) freeLocked(path string) error {
	if st.claimed[path] {
		return errkind.Hint(errkind.New(errkind.Unavailable, "worker: %q: %w", path, ErrInFlight), "try again once the step has ended")
	}
	return nil
}

// unmoved makes sure, with the file claimed, that what was read before is its lasting value: a step may have begun to
// hold it just before the look and have ended since. Files that no step holds are not read again.
func unmoved(e *journal.Entry) error {
	if base := filepath.Base(e.Path); base != cgroup.FileSwappiness && base != cgroup.FileSwapMax {
		return nil
	}
	now, _, err := readKnob(e.Path)
	if err != nil {
		return fmt.Errorf("worker: read knob: %w", err)
	}
	if now != e.Old {
		return errkind.Hint(errkind.New(errkind.Unavailable, "worker: %q: read %q, then %q: %w", e.Path, e.Old, now, ErrInFlight), "try again")
	}
	return nil
}

// reclaimBy takes want bytes of a v2 cgroup by the request's choice of memory and notes through which file it was made.
// What the kernel cannot do is a *probe.Missing and takes nothing; AnonOnly alone falls back to the largest weight,
// which r.By tells.
func (s *server) reclaimBy(h *handle, want int64, sw cgroup.Swappiness, r *reply) error {
	if sw == cgroup.KernelsChoice {
		return h.g.Reclaim(want)
	}
	ok, err := s.m.steer.takes(h.g, sw)
	if err == nil && !ok && sw == cgroup.AnonOnly {
		sw = cgroup.Weight(cgroup.MaxWeight)
		ok, err = s.m.steer.takes(h.g, sw)
	}
	switch {
	case err != nil:
		return err
	case ok:
		r.By, r.Mix = cgroup.FileReclaim, int64(sw)
		return h.g.ReclaimWith(want, sw)
	}
	return s.holding(h, sw, r, func() error { return h.g.Reclaim(want) })
}

// shrinkBy is shrink by the request's choice of memory. The knob is left alone where the step would take nothing
// anyway.
func (s *server) shrinkBy(req *request, h *handle, r *reply) error {
	sw := cgroup.Swappiness(req.Mix)
	if sw == cgroup.KernelsChoice || s.m.h.Mode == cgroup.V2 {
		return s.shrink(req, h, r)
	}
	usage, err := h.g.Usage()
	if err != nil {
		return err
	}
	if req.Bytes <= 0 || usage <= req.Floor {
		return s.shrink(req, h, r)
	}
	return s.holding(h, sw, r, func() error { return s.shrink(req, h, r) })
}

// holding runs take while the cgroup's own knob says sw. The knob is journalled before it is written and put back
// whatever take comes to.
func (s *server) holding(h *handle, sw cgroup.Swappiness, r *reply, take func() error) error {
	path := ""
	hold, err := h.g.Hold(sw, func(file string, old, set int64) error {
		at := filepath.Join(h.g.Dir(), file)
		if e, ok := s.m.j.Get(h.balance); ok && e.Pending { // recording another intent would lose the value to go back to
			return errkind.New(errkind.Unavailable, "worker: %q: an earlier step's value could not be put back yet", at)
		}
		if err := s.m.steer.claim(at); err != nil {
			return err
		}
		path = at
		return s.intendBalance(h, file, old, set)
	})
	if err == nil {
		r.By, r.Mix = hold.File(), int64(sw)
		err = take()
	}
	released := hold.Release()
	if path != "" {
		s.m.steer.give(path)
	}
	if path != "" && h.balance != 0 {
		// One that somebody else set meanwhile, or that vanished with its cgroup, is not ours to restore.
		if released == nil || errors.Is(released, cgroup.ErrForeign) || errors.Is(released, cgroup.ErrGone) {
			if err := s.m.j.Done(h.balance); err != nil {
				s.m.log.Warn("journal could not record the end of a step", "cgroup", h.g.Path(), "err", err)
			}
		}
	}
	return errors.Join(err, released)
}

// intendBalance journals a knob about to be held: durably at the first one on a cgroup, in the page cache afterwards.
func (s *server) intendBalance(h *handle, file string, old, set int64) error {
	if h.balance == 0 {
		e := s.m.fresh(journal.Balance, h.g.Path())
		e.Inode, e.Old, e.New = h.g.Inode(), limitText(old), file
		id, err := s.m.j.Put(e)
		if err != nil {
			return err
		}
		h.balance = id
	}
	return s.m.j.Intent(h.balance, old, set)
}

func (m *machine) undoBalance(e journal.Entry, dry bool, o *Outcome) error {
	o.What = fmt.Sprintf("%s of %s", e.New, e.Path)
	o.Old = limitText(e.From)
	g, err := m.same(e)
	if err != nil || g == nil {
		o.Result = Nothing
		return err
	}
	defer g.Close()
	look := g.RestoreHold
	if dry {
		look = g.SeeHold
	}
	changed, now, err := look(e.New, e.From, e.To)
	o.Now = limitText(now)
	switch {
	case gone(err):
		o.Result = Nothing
		return nil
	case errors.Is(err, cgroup.ErrForeign): // it changed between our two looks
		o.Result = Alone
		return nil
	case err != nil:
		return err
	case changed:
		o.Result = Restored
	case now == e.From:
		o.Result = Nothing
	default:
		o.Result = Alone
	}
	return nil
}
