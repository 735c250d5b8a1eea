package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/sys"
)

// machine is what a worker or a Restore acts on: the host below a root, and the journal of what was changed.
type machine struct {
	root string
	h    cgroup.Hierarchy
	hErr error  // why there is no hierarchy; steps and cgroup entries fail with it
	self string // own memory cgroup, which no step may touch
	sErr error  // why it is not known; steps, and only they, fail with it
	boot string
	log  *slog.Logger
	j    *journal.Journal // nil in a dry run

	write func(path, value string) error // tests: a made-up kernel that answers writes; nil is the real one

	steer steering
}

func look(root string, log *slog.Logger) (*machine, error) {
	if root == "" {
		root = "/"
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &machine{root: filepath.Clean(root), log: log}
	var err error
	if m.boot, err = sys.BootID(root); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	// Without a memory controller swap and knobs can still be changed, and undone.
	if m.h, m.hErr = cgroup.Discover(root); m.hErr == nil {
		m.self, m.sErr = m.h.Self()
	}
	return m, nil
}

// inCgroups says whether path lies below a cgroup mount.
func (m *machine) inCgroups(path string) bool {
	return inside(path, filepath.Join(m.root, "sys/fs/cgroup")) ||
		m.h.Memory != "" && inside(path, m.h.Memory) ||
		m.h.Unified != "" && inside(path, m.h.Unified)
}

// fresh starts the entry of a change that is about to be made.
func (m *machine) fresh(k journal.Kind, path string) journal.Entry {
	return journal.Entry{Kind: k, Boot: m.boot, At: time.Now().Unix(), Path: path}
}

// forget takes e out of the journal once it is undone. The undoing stands even when the record fails.
func (m *machine) forget(e journal.Entry) {
	if m.j == nil {
		return
	}
	if err := m.j.Remove(e.ID); err != nil {
		m.log.Warn("journal still names an undone change", "path", e.Path, "err", err)
	}
}

// inodeAt returns the inode at path without following a link; 0 when there is nothing.
func inodeAt(path string) (uint64, os.FileInfo, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	return sys.Inode(info), info, nil
}

// ensureDir makes the state directory when it is missing. Whether an existing one is safe is the journal's check.
func ensureDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("worker: make state directory: %w", err)
		}
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return fmt.Errorf("worker: make state directory: %w", err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("worker: make state directory: %w", err)
		}
	}
	return nil
}
