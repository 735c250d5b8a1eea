package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
)

// Restore undoes what a daemon and its worker, both dead, left in stateDir's journal, and says what became of each
// change. With dryRun it changes nothing and tells what it would do. While a worker lives it refuses with
// errkind.Unavailable and its pid, after a second of patience; one that is undoing is waited for as long as ctx
// allows. The error is about the attempt as a whole; an Outcome carries its own.
func Restore(ctx context.Context, stateDir string, dryRun bool, log *slog.Logger) ([]Outcome, error) {
	return restoreAt(ctx, "/", stateDir, dryRun, log)
}

func restoreAt(ctx context.Context, root, stateDir string, dryRun bool, log *slog.Logger) ([]Outcome, error) {
	// Before the lock file is made there, in a dry run too: whoever owns the directory could choose what that touches.
	switch err := journal.CheckDir(stateDir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // nothing was ever changed from here
	case err != nil:
		return nil, fmt.Errorf("worker: restore: %w", err)
	}
	m, err := look(root, log)
	if err != nil {
		return nil, err
	}
	lock, err := acquire(ctx, stateDir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if dryRun {
		entries, report, err := journal.Read(stateDir)
		if err != nil {
			return nil, fmt.Errorf("worker: restore: %w", err)
		}
		m.tell(report)
		return append(unreadable(stateDir, report, "will be kept as"), m.undoAll(ctx, entries, true, nil)...), nil
	}
	j, report, err := journal.Open(stateDir, journal.Config{})
	if err != nil {
		return nil, fmt.Errorf("worker: restore: %w", err)
	}
	defer j.Close()
	m.j = j
	m.tell(report)
	out := unreadable(stateDir, report, "kept as")
	interruptible(ctx, func() { out = append(out, m.undoAll(ctx, j.Entries(), false, nil)...) })
	return out, nil
}

// unreadable reports damaged lines as a failure: a change that one of them named is not undone.
func unreadable(stateDir string, r journal.Report, kept string) []Outcome {
	if r.Damaged == 0 {
		return nil
	}
	damaged := filepath.Join(stateDir, journal.DamagedName)
	return []Outcome{{
		What: "journal " + stateDir, Result: Kept,
		Err: errkind.Hint(fmt.Errorf("worker: restore: %d damaged lines in the journal, %s %q: %s", r.Damaged, kept, damaged, r.FirstError),
			"undo by hand what the damaged lines in %q name", damaged),
	}}
}

func (m *machine) tell(r journal.Report) {
	for _, n := range notes(r) {
		m.log.Warn("journal", "note", n)
	}
}
