package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
)

// Phases of undoing everything. What hurts running programs goes first and takes no time.
const (
	limits = iota
	knobs
	rest // newest first: a swap file before the directory that holds it
	phases
)

func phase(k journal.Kind) int {
	switch k {
	case journal.Limit, journal.Balance:
		return limits
	case journal.Knob:
		return knobs
	}
	return rest
}

// undoAll undoes what is in entries, given oldest first, and skips what skip names. It goes on after a failure.
func (m *machine) undoAll(ctx context.Context, entries []journal.Entry, dry bool, skip func(journal.Entry) bool) []Outcome {
	var out []Outcome
	for p := range phases {
		for i := len(entries) - 1; i >= 0; i-- {
			e := entries[i]
			if phase(e.Kind) != p || skip != nil && skip(e) {
				continue
			}
			o := m.undo(ctx, e, dry)
			if o.Result == "" { // an idle limit: nothing happened, nothing to tell
				continue
			}
			out = append(out, o)
		}
	}
	return out
}

// undo undoes one entry and, unless it must be kept, forgets it. An empty Result says that the entry was a
// limit or a balance without a step under way.
func (m *machine) undo(ctx context.Context, e journal.Entry, dry bool) Outcome {
	o := Outcome{What: string(e.Kind) + " " + e.Path, Old: e.Old}
	var err error
	switch {
	case phase(e.Kind) == limits && !e.Pending: // no step was under way
	case e.Boot != m.boot && !e.Kind.Durable():
		o.Result = OtherBoot
	case e.Path != filepath.Clean(e.Path): // every rule about where a path leads looks at a clean one
		err = errkind.New(errkind.Denied, "worker: undo %s %q: path is not clean", e.Kind, e.Path)
	default:
		switch e.Kind {
		case journal.Limit:
			err = m.undoLimit(e, dry, &o)
		case journal.Balance:
			err = m.undoBalance(e, dry, &o)
		case journal.Knob:
			err = m.undoKnob(e, dry, &o)
		case journal.SwapFile:
			err = m.undoSwapFile(ctx, e, dry, &o)
		case journal.Zram:
			err = m.undoZram(ctx, e, dry, &o)
		case journal.Mkdir:
			err = m.undoMkdir(ctx, e, dry, &o)
		case journal.TempDir:
			err = m.undoTempDir(e, dry, &o)
		case journal.Kdamond:
			err = m.undoKdamond(ctx, e, dry, &o)
		default:
			err = fmt.Errorf("worker: undo: unknown kind %q", e.Kind)
		}
	}
	if err != nil {
		o.Result, o.Err = Kept, err
	}
	if o.Result == Kept || dry {
		return o
	}
	m.forget(e)
	return o
}

// same opens the cgroup of an entry; nil when it is gone, or another now has its path.
func (m *machine) same(e journal.Entry) (*cgroup.Group, error) {
	if m.hErr != nil {
		return nil, m.hErr
	}
	g, err := m.h.Open(e.Path)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if e.Inode != 0 && g.Inode() != e.Inode {
		return nil, g.Close()
	}
	return g, nil
}

func (m *machine) undoLimit(e journal.Entry, dry bool, o *Outcome) error {
	o.Old = limitText(e.From)
	g, err := m.same(e)
	if err != nil || g == nil {
		o.Result = Nothing
		return err
	}
	defer g.Close()
	var st cgroup.Stat
	if err := g.Stat(&st); err != nil {
		if gone(err) {
			o.Result = Nothing
			return nil
		}
		return err
	}
	o.Now = limitText(st.Limit)
	switch {
	case st.Limit == e.From:
		o.Result = Nothing
		return nil
	case st.Limit != e.To:
		o.Result = Alone
		return nil
	case dry:
		o.Result = Restored
		return nil
	}
	changed, err := g.RestoreLimit(e.From, e.To)
	switch {
	case gone(err):
		o.Result = Nothing
		return nil
	case err != nil:
		return err
	case changed:
		o.Result = Restored
	default:
		o.Result = Alone // it changed between our two looks
	}
	return nil
}

func limitText(n int64) string {
	if n == cgroup.Unlimited {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

func (m *machine) undoKnob(e journal.Entry, dry bool, o *Outcome) error {
	// The journal could be forged: it gets no more than Do allows.
	if err := m.knobAllowed(e.Path); err != nil {
		return err
	}
	// The links below /sys are the kernel's own (/sys/block, /sys/class); one that leads out is not.
	parent, err := filepath.EvalSymlinks(filepath.Dir(e.Path))
	if gone(err) {
		o.Result = Nothing
		return nil
	}
	if err != nil {
		return fmt.Errorf("worker: restore knob: %w", err)
	}
	if err := m.knobAllowed(filepath.Join(parent, filepath.Base(e.Path))); err != nil {
		return err
	}
	if err := m.steer.claim(e.Path); err != nil {
		return err
	}
	defer m.steer.give(e.Path)
	now, inode, err := readKnob(e.Path)
	if gone(err) {
		o.Result = Nothing
		return nil
	}
	if err != nil {
		return fmt.Errorf("worker: restore knob: %w", err)
	}
	o.Now = now
	switch {
	case e.Inode != 0 && inode != e.Inode: // another cgroup at the same path
		o.Result = Nothing
		return nil
	case same(now, e.Old):
		o.Result = Nothing
		return nil
	case !same(now, e.New):
		o.Result = Alone
		return nil
	}
	o.Result = Restored
	if dry {
		return nil
	}
	err = writeKnob(e.Path, selected(e.Old))
	if gone(err) {
		o.Result = Nothing
		return nil
	}
	if err != nil {
		return fmt.Errorf("worker: restore knob: %w", err)
	}
	now, _, err = readKnob(e.Path)
	switch {
	case gone(err):
		return nil
	case err != nil:
		return fmt.Errorf("worker: restore knob: %w", err)
	case !same(now, e.Old):
		return fmt.Errorf("worker: restore knob %q: wrote %q and read back %q", e.Path, selected(e.Old), now)
	}
	return nil
}

// failures joins what could not be undone.
func failures(out []Outcome) error {
	var errs []error
	for _, o := range out {
		if o.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", o.What, o.Result, o.Err))
		}
	}
	return errors.Join(errs...)
}
