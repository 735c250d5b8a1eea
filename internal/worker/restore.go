package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

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
	if _, err := os.Stat(stateDir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was ever changed from here
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
		return m.undoAll(ctx, entries, true, nil), nil
	}
	j, report, err := journal.Open(stateDir, journal.Config{})
	if err != nil {
		return nil, fmt.Errorf("worker: restore: %w", err)
	}
	defer j.Close()
	m.j = j
	m.tell(report)
	var out []Outcome
	interruptible(ctx, func() { out = m.undoAll(ctx, j.Entries(), false, nil) })
	return out, nil
}

func (m *machine) tell(r journal.Report) {
	for _, n := range notes(r) {
		m.log.Warn("journal", "note", n)
	}
}
