package journal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

type state struct {
	entries map[uint64]*Entry
	next    uint64
	size    int64
	report  Report
}

// load replays the file from its beginning.
func load(f *os.File) (state, error) {
	info, err := f.Stat()
	if err != nil {
		return state{}, fmt.Errorf("journal: read: %w", err)
	}
	if info.Size() > maxFile { // by its size, since reading so much takes seconds
		return state{}, errkind.Hint(errkind.New(errkind.Exhausted, "journal: read %q: more than %d bytes", f.Name(), maxFile),
			"no spillway writes such a file: move it away, then undo by hand what its lines of op open name")
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxFile))
	if err != nil {
		return state{}, fmt.Errorf("journal: read: %w", err)
	}
	return replay(b), nil
}

func replay(b []byte) state {
	s := state{entries: map[uint64]*Entry{}, next: 1, size: int64(len(b))}
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		b = rest
		if !whole {
			s.report.Torn = true
			break
		}
		r, err := Decode(line)
		if err == nil {
			err = s.apply(r)
		}
		if err != nil {
			if s.report.Damaged == 0 {
				s.report.FirstError = err.Error()
			}
			s.report.Damaged++
		}
	}
	return s
}

func (s *state) apply(r Record) error {
	e := s.entries[r.Entry.ID]
	switch r.Op {
	case opOpen:
		if e == nil && len(s.entries) >= MaxEntries {
			return fmt.Errorf("more than %d entries", MaxEntries)
		}
		if r.Entry.ID == ^uint64(0) {
			return fmt.Errorf("id %d leaves none for the next entry", r.Entry.ID)
		}
		s.entries[r.Entry.ID] = &r.Entry
		s.next = max(s.next, r.Entry.ID+1)
		return nil
	case opClosed:
		delete(s.entries, r.Entry.ID)
		return nil
	}
	if e == nil {
		return fmt.Errorf("%s of entry %d, which is not open", r.Op, r.Entry.ID)
	}
	e.Pending = r.Op == opIntent
	if e.Pending {
		e.From, e.To = r.Entry.From, r.Entry.To
	}
	return nil
}

// CheckDir refuses a state directory that somebody else could write to: what it says is done as root.
func CheckDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return errkind.New(errkind.Invalid, "journal: open: state directory %q is not absolute", dir)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("journal: open: %w", err)
	}
	if !info.IsDir() {
		return errkind.New(errkind.Denied, "journal: open: %q is not a directory", dir)
	}
	return private(dir, info)
}

func checkFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("journal: open: %w", err)
	}
	if !info.Mode().IsRegular() {
		return errkind.New(errkind.Denied, "journal: open: %q is not a regular file", f.Name())
	}
	return private(f.Name(), info)
}

func private(name string, info os.FileInfo) error {
	if uid, _, ok := sys.Owner(info); !ok || int(uid) != os.Geteuid() {
		return errkind.Hint(errkind.New(errkind.Denied, "journal: open: %q belongs to uid %d, not to uid %d", name, uid, os.Geteuid()),
			"give the state directory to the user that runs Spillway")
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return errkind.Hint(errkind.New(errkind.Denied, "journal: open: %q has mode %v: others could write to it", name, perm),
			"chmod go-w %q", name)
	}
	return nil
}
