package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/swap"
)

// do journals and makes one change. On an error nothing is left changed, or what is left stays journalled and the
// error says so.
func (m *machine) do(ctx context.Context, ch Change) (journal.Entry, error) {
	kind, path, err := ch.kind()
	if err != nil {
		return journal.Entry{}, err
	}
	e := m.fresh(kind, path)
	var build func(context.Context, *journal.Entry) error
	switch kind {
	case journal.Knob:
		build, err = m.prepareKnob(ch.Knob, &e)
	case journal.SwapFile:
		build, err = m.prepareSwapFile(ch.SwapFile, &e)
	case journal.Zram:
		build, err = m.prepareZram(ch.Zram, &e)
	case journal.Mkdir:
		build, err = m.prepareMkdir(ch.Mkdir, &e)
	case journal.TempDir:
		build, err = m.prepareTempDir(&e)
	case journal.Kdamond:
		e.Path = filepath.Join(m.root, kdamonds, "0")
		build, err = m.prepareKdamond(&e)
	}
	if err != nil {
		return journal.Entry{}, err
	}
	if err := ctx.Err(); err != nil {
		return journal.Entry{}, fmt.Errorf("worker: %s %q: %w", kind, path, err)
	}
	if e.ID, err = m.j.Put(e); err != nil {
		return journal.Entry{}, fmt.Errorf("worker: %w", err)
	}
	err = build(ctx, &e)
	if err == nil {
		err = ctx.Err() // cancelled meanwhile: nobody waits for the id that could undo it
	}
	if err == nil {
		return e, nil
	}
	if errors.As(err, new(untouched)) {
		m.forget(e)
		return journal.Entry{}, err
	}
	// Undo on a context of its own: the caller's may be what failed.
	if o := m.undo(context.WithoutCancel(ctx), e, false); o.Err != nil {
		err = errors.Join(err, fmt.Errorf("worker: take %s %q back: %w", kind, e.Path, o.Err))
	}
	return journal.Entry{}, err
}

// untouched marks the error of a making that changed nothing at all. Undoing would then look at somebody else's
// file, directory or device.
type untouched struct{ error }

func (u untouched) Unwrap() error { return u.error }

func (m *machine) prepareKnob(k *Knob, e *journal.Entry) (func(context.Context, *journal.Entry) error, error) {
	if err := m.knobAllowed(k.Path); err != nil {
		return nil, err
	}
	if err := m.steer.free(k.Path); err != nil {
		return nil, err
	}
	old, inode, err := readKnob(k.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errkind.New(errkind.NotFound, "worker: read knob: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("worker: read knob: %w", err)
	}
	e.Old, e.New = old, k.Value
	if m.inCgroups(k.Path) {
		e.Inode = inode // elsewhere an inode lives only as long as the cache
	}
	return func(_ context.Context, e *journal.Entry) error {
		if err := m.steer.claim(e.Path); err != nil {
			return untouched{err}
		}
		defer m.steer.give(e.Path)
		if err := unmoved(e); err != nil {
			return untouched{err}
		}
		if err := writeKnob(e.Path, k.Value); err != nil {
			return fmt.Errorf("worker: set knob: %w", err)
		}
		now, _, err := readKnob(e.Path)
		if err != nil {
			return fmt.Errorf("worker: set knob: %w", err)
		}
		if !same(now, k.Value) {
			// The kernel took it and made something else of it; that is then what undoing must find.
			e.New = now
		}
		e.Made = true
		if e.New != k.Value {
			_, err = m.j.Put(*e)
		}
		return err
	}, nil
}

func (m *machine) prepareSwapFile(s *SwapFile, e *journal.Entry) (func(context.Context, *journal.Entry) error, error) {
	e.Size, e.Priority = s.Size, s.Priority
	if err := absent(s.Path); err != nil {
		return nil, fmt.Errorf("worker: swap file: %w", err)
	}
	// The kernel names the file by its real path, and undoing refuses links.
	if err := noLinks(filepath.Dir(s.Path)); err != nil {
		return nil, fmt.Errorf("worker: swap file: %w", errkind.Hint(err, "name it by its real path"))
	}
	return func(ctx context.Context, e *journal.Entry) error {
		if err := swap.MakeFile(e.Path, s.Size); err != nil {
			return untouched{fmt.Errorf("worker: %w", err)}
		}
		if err := m.made(e); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("worker: swap file %q: %w", e.Path, err)
		}
		if err := swap.On(e.Path, s.Priority); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		return nil
	}, nil
}

// made puts the inode of what now is at e.Path on record: from here on only that very object is ours to remove.
func (m *machine) made(e *journal.Entry) error {
	inode, _, err := inodeAt(e.Path)
	if err == nil && inode == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return fmt.Errorf("worker: %s %q: %w", e.Kind, e.Path, err)
	}
	e.Inode, e.Made = inode, true
	if _, err := m.j.Put(*e); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

func (m *machine) prepareZram(z *Zram, e *journal.Entry) (func(context.Context, *journal.Entry) error, error) {
	page := int64(os.Getpagesize())
	e.Size, e.Priority = z.Size-z.Size%page, z.Priority
	if e.Size < swap.MinSize {
		return nil, errkind.New(errkind.Invalid, "worker: zram: size %d below %d", z.Size, swap.MinSize)
	}
	// A device of our own is better than one that boot made: somebody may be about to set that one up.
	_, err := os.Stat(filepath.Join(m.root, zramMaking))
	e.Added = err == nil
	if e.Added {
		e.Path = filepath.Join(m.root, zramMaking)
	} else {
		dev, ok, err := swap.ZramUnused(m.root)
		if err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		if !ok {
			return nil, errkind.Hint(errkind.New(errkind.Unsupported, "worker: zram: no unused device and no way to make one"), "modprobe zram")
		}
		e.Path = swap.ZramDevice(m.root, dev)
	}
	return func(ctx context.Context, e *journal.Entry) error {
		if e.Added {
			dev, err := swap.ZramAdd(m.root)
			if err != nil {
				return untouched{fmt.Errorf("worker: %w", err)}
			}
			e.Path = swap.ZramDevice(m.root, dev)
			if _, err := m.j.Put(*e); err != nil {
				return fmt.Errorf("worker: %w", err)
			}
		}
		dev, _ := m.zramNumber(e.Path)
		if err := swap.ZramSetup(m.root, dev, e.Size, z.Algorithm); err != nil {
			err = fmt.Errorf("worker: %w", err)
			if !e.Added {
				return untouched{err}
			}
			return err
		}
		if err := whileBusy(ctx, func() error { return swap.Format(e.Path, e.Size) }); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		if err := whileBusy(ctx, func() error { return swap.On(e.Path, z.Priority) }); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		return nil
	}, nil
}

func (m *machine) prepareMkdir(d *Mkdir, e *journal.Entry) (func(context.Context, *journal.Entry) error, error) {
	if !m.inCgroups(d.Path) {
		return nil, errkind.New(errkind.Denied, "worker: make cgroup %q: not below a cgroup mount", d.Path)
	}
	if err := parentReady(d.Path); err != nil {
		return nil, fmt.Errorf("worker: make cgroup: %w", err)
	}
	e.Kill = d.KillOnUndo
	return func(_ context.Context, e *journal.Entry) error {
		if err := os.Mkdir(e.Path, 0o755); err != nil {
			return untouched{fmt.Errorf("worker: make cgroup: %w", err)}
		}
		return m.made(e)
	}, nil
}

func (m *machine) prepareTempDir(e *journal.Entry) (func(context.Context, *journal.Entry) error, error) {
	if err := parentReady(e.Path); err != nil {
		return nil, fmt.Errorf("worker: make directory: %w", err)
	}
	return func(_ context.Context, e *journal.Entry) error {
		if err := os.Mkdir(e.Path, 0o700); err != nil {
			return untouched{fmt.Errorf("worker: make directory: %w", err)}
		}
		return m.made(e)
	}, nil
}

func parentReady(path string) error {
	if err := noLinks(filepath.Dir(path)); err != nil {
		return err
	}
	return absent(path)
}

// absent refuses a path at which something is, be it a dangling link.
func absent(path string) error {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return errkind.Hint(errkind.New(errkind.Invalid, "%q: %w", path, fs.ErrExist), "remove it or choose another path")
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return errkind.Wrap(errkind.NotFound, err)
		}
		return nil
	}
	return err
}
