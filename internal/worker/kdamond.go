package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/probe"
)

// kdamonds is where DAMON is set up. It has room for one user: setting the number of kdamonds throws away what any
// other has set up there, unless one of them runs.
const kdamonds = "sys/kernel/mm/damon/admin/kdamonds"

// kdamondPatience is how long DAMON's files may say that they are busy. Its thread holds their lock for a moment at
// each sampling, and for an interval of applying schemes (offload/track sets a second) while it shows regions.
const kdamondPatience = 3 * time.Second

// Commands that a kdamond obeys, besides off, which is Undo.
const (
	KdamondOn      = "on"
	KdamondCommit  = "commit"                       // take over what was written to its files; waits for the end of an aggregation
	KdamondRegions = "update_schemes_tried_regions" // show the regions; waits until schemes are applied
)

var kdamondCommands = []string{KdamondOn, KdamondCommit, KdamondRegions}

func (m *machine) prepareKdamond(e *journal.Entry) (func(context.Context, *journal.Entry) error, error) {
	number := filepath.Join(m.root, kdamonds, "nr_kdamonds")
	free := func() error {
		n, _, err := readKnob(number)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			const do = "use a kernel built with CONFIG_DAMON_SYSFS"
			return &probe.Missing{Feature: "DAMON's sysfs interface", Since: "5.18", Do: do}
		case err != nil:
			return fmt.Errorf("worker: set up kdamond: %w", err)
		case n != "0":
			err := errkind.New(errkind.Unsupported, "worker: DAMON is in use: %q kdamonds are set up, and are not ours", n)
			return errkind.Hint(err, "use another source; heat.source: auto finds one")
		}
		return nil
	}
	if err := free(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, e *journal.Entry) error {
		if err := free(); err != nil { // recording took a while
			return untouched{err}
		}
		err := patiently(ctx, kdamondPatience, func() error { return m.poke(number, "1") })
		if err != nil {
			return untouched{fmt.Errorf("worker: set up kdamond: %w", err)}
		}
		return m.made(e)
	}, nil
}

// undoKdamond switches off and removes the kdamond whose directory has the inode on record. Inodes of sysfs are never
// used twice within a boot, and setting the number of kdamonds makes all directories anew.
func (m *machine) undoKdamond(ctx context.Context, e journal.Entry, dry bool, o *Outcome) error {
	dir := filepath.Join(m.root, kdamonds)
	if e.Path != filepath.Join(dir, "0") { // the journal could be forged
		return errkind.New(errkind.Denied, "worker: remove kdamond %q: not one of DAMON's", e.Path)
	}
	inode, _, err := inodeAt(e.Path)
	switch {
	case err != nil:
		return fmt.Errorf("worker: remove kdamond: %w", err)
	case inode == 0:
		o.Result = Nothing
		return nil
	case e.Inode != 0 && inode != e.Inode:
		o.Result = Alone
		return nil
	}
	number, state := filepath.Join(dir, "nr_kdamonds"), filepath.Join(e.Path, "state")
	read := func(path string) (v string, err error) {
		err = patiently(ctx, kdamondPatience, func() (err error) { v, _, err = readKnob(path); return err })
		return v, err
	}
	n, err := read(number)
	if err == nil {
		o.Now, err = read(state)
	}
	if err == nil && e.Inode == 0 {
		// Its making was not completed, so nobody was told of it and nothing is set up in it, or it is not ours.
		var contexts string
		if contexts, err = read(filepath.Join(e.Path, "contexts", "nr_contexts")); err == nil && (contexts != "0" || o.Now == "on") {
			n = "set up by somebody"
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("worker: remove kdamond: %w", err)
	case n != "1":
		o.Now, o.Result = n, Alone
		return nil
	}
	o.Result = Removed
	if dry {
		return nil
	}
	if o.Now == "on" {
		err := patiently(ctx, kdamondPatience, func() error { return m.poke(state, "off") })
		if err != nil { // it may have ended by itself
			if now, readErr := read(state); readErr != nil || now == "on" {
				return fmt.Errorf("worker: switch kdamond off: %w", err)
			}
		}
	}
	if err := patiently(ctx, kdamondPatience, func() error { return m.poke(number, "0") }); err != nil {
		return fmt.Errorf("worker: remove kdamond: %w", err)
	}
	return nil
}

// poke writes a value to a file of the kernel; tests put a made-up kernel in its place.
func (m *machine) poke(path, value string) error {
	if m.write != nil {
		return m.write(path, value)
	}
	return writeKnob(path, value)
}

// command tells the kdamond of an entry what to do. Some commands wait for its thread; a kill -9 of whoever
// waits takes effect when it comes round, which is why it is the worker who waits and not the daemon.
func (m *machine) command(ctx context.Context, id uint64, command string) error {
	e, ok := m.j.Get(id)
	if !ok || e.Kind != journal.Kdamond {
		return errkind.New(errkind.NotFound, "worker: kdamond: no kdamond %d outstanding", id)
	}
	if !slices.Contains(kdamondCommands, command) {
		return errkind.New(errkind.Invalid, "worker: kdamond: unknown command %q", command)
	}
	inode, _, err := inodeAt(e.Path)
	if err == nil && inode != e.Inode {
		err = fmt.Errorf("somebody else set DAMON up anew: %w", fs.ErrNotExist)
	}
	if err == nil {
		err = patiently(ctx, kdamondPatience, func() error { return m.poke(filepath.Join(e.Path, "state"), command) })
	}
	if err != nil {
		return fmt.Errorf("worker: kdamond: %s: %w", command, err)
	}
	return nil
}

// wake ends the wait of a command at the end of everything: a kdamond that is switched off keeps nobody waiting.
// Whether that worked shows when it is undone.
func (m *machine) wake(ctx context.Context, id uint64) {
	e, ok := m.j.Get(id)
	if !ok || e.Kind != journal.Kdamond {
		return
	}
	if inode, _, err := inodeAt(e.Path); err == nil && inode == e.Inode {
		_ = patiently(ctx, kdamondPatience, func() error { return m.poke(filepath.Join(e.Path, "state"), "off") })
	}
}

// kdamond answers a command. It counts as a change, so that nothing is undone while a command can still follow, but
// takes no turn: it may wait for seconds.
func (s *server) kdamond(ctx context.Context, req *request) {
	s.mu.Lock()
	closing := s.closing
	if !closing {
		s.changes.Add(1)
	}
	s.mu.Unlock()
	if closing {
		s.answer(req.ID, reply{Err: toWire(errkind.New(errkind.Unavailable, "worker: kdamond: shutting down"))})
		return
	}
	go func() {
		defer s.changes.Done()
		awake := make(chan struct{})
		stop := context.AfterFunc(s.ctx, func() {
			defer close(awake)
			s.m.wake(context.WithoutCancel(ctx), req.Entry)
		})
		err := s.m.command(ctx, req.Entry, req.Command)
		if !stop() {
			<-awake
		}
		s.answer(req.ID, reply{Err: toWire(err)})
	}()
}
