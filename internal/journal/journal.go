// Package journal is the durable list of what Spillway has changed on this machine and not yet undone.
//
// Promise: when Put or Intent returns nil, the record is in the file; a kill -9 of every Spillway process cannot
// lose it. Put also survives a crash of the machine (fsync); Intent, which runs at every step on a cgroup's limit,
// does not, and need not: after a crash the boot id differs and the limits are gone. When a record cannot be
// written the caller gets an error before it has changed anything.
// Ownership: one process holds the file open for writing (the worker, which holds the state directory's lock);
// Read looks without taking part.
// Lock order: Journal.mu is the only lock; fsync runs outside it, except in a compaction.
// Failure: a torn last line and damaged lines are skipped and reported, never guessed at; a damaged file is kept
// as journal.damaged. The format is docs/format/journal.md.
// Non-goals: undoing anything (worker does), history, several writers.
package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// Names of the journal's files in the state directory.
const (
	FileName    = "journal"
	DamagedName = "journal.damaged"
	tempName    = "journal.tmp"
)

// MaxEntries bounds how many changes can be outstanding at once.
const MaxEntries = 1 << 16

const (
	defaultCompactAt = 4 << 20
	maxFile          = 64 << 20 // a file that could not be compacted for so long refuses further records
)

// Config tunes a Journal; the zero value works.
type Config struct {
	// CompactAt is the file size in bytes at which the journal is rewritten with the live entries only.
	// Default 4 MiB: about three minutes of 200 steps a second.
	CompactAt int64
	// Write replaces (*os.File).Write in tests that inject faults.
	Write func(f *os.File, b []byte) (int, error)
}

// Journal is the open journal of one state directory. Its methods may be called concurrently.
type Journal struct {
	dir       string
	compactAt int64
	write     func(f *os.File, b []byte) (int, error)

	mu sync.Mutex
	// +checklocks:mu
	f *os.File
	// +checklocks:mu
	gen int // how often f was replaced
	// +checklocks:mu
	size int64
	// +checklocks:mu
	torn bool // the file ends inside a line that could not be cut off
	// +checklocks:mu
	keep bool // the file has damaged lines: the next compaction keeps it as journal.damaged
	// +checklocks:mu
	entries map[uint64]*Entry
	// +checklocks:mu
	next uint64
	// +checklocks:mu
	retryAt int64 // no compaction below this size, after one failed
	// +checklocks:mu
	buf []byte
}

// Open opens or makes the journal in dir, which must belong to this user and be writable by nobody else.
// The report says what could not be read; the file is rewritten without it when there is room.
func Open(dir string, c Config) (*Journal, Report, error) {
	if err := CheckDir(dir); err != nil {
		return nil, Report{}, err
	}
	if err := os.Remove(filepath.Join(dir, tempName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, Report{}, fmt.Errorf("journal: open: %w", err)
	}
	f, err := sys.OpenRegular(filepath.Join(dir, FileName), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, Report{}, fmt.Errorf("journal: open: %w", err)
	}
	if err := checkFile(f); err != nil {
		f.Close()
		return nil, Report{}, err
	}
	state, err := load(f)
	if err != nil {
		f.Close()
		return nil, Report{}, err
	}
	j := &Journal{
		dir: dir, f: f, size: state.size, entries: state.entries, next: state.next,
		compactAt: c.CompactAt, write: c.Write,
	}
	if j.compactAt <= 0 {
		j.compactAt = defaultCompactAt
	}
	if j.write == nil {
		j.write = (*os.File).Write
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !state.report.Clean() {
		j.keep = state.report.Damaged > 0
		// On a full disk undoing must still work: the damage stays where it is, and a torn line gets its end.
		if j.compactLocked() != nil {
			j.torn = state.report.Torn
		}
	}
	return j, state.report, nil
}

// Read returns the live entries of the journal in dir, oldest first, and changes nothing. No journal is an
// empty one.
func Read(dir string) ([]Entry, Report, error) {
	f, err := sys.OpenRegular(filepath.Join(dir, FileName), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Report{}, nil
	}
	if err != nil {
		return nil, Report{}, fmt.Errorf("journal: read: %w", err)
	}
	defer f.Close()
	if err := checkFile(f); err != nil {
		return nil, Report{}, err
	}
	state, err := load(f)
	if err != nil {
		return nil, Report{}, err
	}
	return sorted(state.entries), state.report, nil
}

// Put records e, or replaces the entry with e.ID when that is not 0, and waits for the disk. It returns the
// entry's id. On an error nothing is recorded. Kinds: Exhausted for a full disk or too many entries.
func (j *Journal) Put(e Entry) (uint64, error) {
	id, f, gen, before, err := j.put(e)
	if err != nil {
		return 0, fmt.Errorf("journal: record change of %q: %w", e.Path, err)
	}
	if err := f.Sync(); err != nil {
		if err := j.unsynced(id, before, gen, err); err != nil {
			return 0, fmt.Errorf("journal: record change of %q: %w", e.Path, err)
		}
	}
	return id, nil
}

// put writes the record and returns the file to sync, the file's number, and the entry that was replaced.
func (j *Journal) put(e Entry) (id uint64, f *os.File, gen int, before *Entry, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.ID == 0 {
		if len(j.entries) >= MaxEntries {
			return 0, nil, 0, nil, errkind.New(errkind.Exhausted, "%d changes outstanding already", MaxEntries)
		}
		e.ID = j.next
	}
	if j.buf, err = appendOpen(j.buf[:0], e); err != nil {
		return 0, nil, 0, nil, err
	}
	if err := j.appendLocked(j.buf); err != nil {
		return 0, nil, 0, nil, err
	}
	before = j.entries[e.ID]
	j.entries[e.ID] = &e
	j.next = max(j.next, e.ID+1)
	j.maybeCompactLocked()
	return e.ID, j.f, j.gen, before, nil
}

// unsynced takes a put back after a failed fsync of file number gen. What is then in the file is unknown, so it is
// replaced by a new one.
func (j *Journal) unsynced(id uint64, before *Entry, gen int, cause error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gen != gen {
		return nil // a compaction wrote and synced the record meanwhile
	}
	if before != nil {
		j.entries[id] = before
	} else {
		delete(j.entries, id)
	}
	return errors.Join(diskFull(cause), j.compactLocked())
}

// Intent records that the value of entry id, a limit or a balance, is about to go from old to target. It does not wait
// for the disk.
func (j *Journal) Intent(id uint64, old, target int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entries[id]
	if e == nil {
		return fmt.Errorf("journal: record intent: no entry %d", id)
	}
	j.buf = appendIntent(j.buf[:0], id, old, target)
	if err := j.appendLocked(j.buf); err != nil {
		return fmt.Errorf("journal: record intent: %w", err)
	}
	e.Pending, e.From, e.To = true, old, target
	j.maybeCompactLocked()
	return nil
}

// Done records that the value of entry id is back where the last Intent found it. A failure is harmless: an
// undoing finds a value that is not the one written and leaves it.
func (j *Journal) Done(id uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entries[id]
	if e == nil {
		return fmt.Errorf("journal: record end of step: no entry %d", id)
	}
	e.Pending = false
	j.buf = appendShort(j.buf[:0], opDone, id)
	if err := j.appendLocked(j.buf); err != nil {
		return fmt.Errorf("journal: record end of step: %w", err)
	}
	j.maybeCompactLocked()
	return nil
}

// Remove records that entry id is undone. The entry is gone from memory even when the record could not be
// written: undoing it once more finds nothing to do. Removing the last entry empties the file.
func (j *Journal) Remove(id uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.entries[id] == nil {
		return nil
	}
	delete(j.entries, id)
	if len(j.entries) == 0 {
		if err := j.f.Truncate(0); err != nil {
			return fmt.Errorf("journal: empty: %w", err)
		}
		j.size, j.torn, j.retryAt = 0, false, 0
		return nil
	}
	j.buf = appendShort(j.buf[:0], opClosed, id)
	if err := j.appendLocked(j.buf); err != nil {
		return fmt.Errorf("journal: record undoing: %w", err)
	}
	j.maybeCompactLocked()
	return nil
}

// Get returns a copy of entry id.
func (j *Journal) Get(id uint64) (Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entries[id]
	if e == nil {
		return Entry{}, false
	}
	return *e, true
}

// Entries returns copies of the live entries, oldest first.
func (j *Journal) Entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return sorted(j.entries)
}

// Size is the present length of the file in bytes.
func (j *Journal) Size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size
}

// Close closes the file; the entries stay in it. Idempotent.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("journal: close: %w", err)
	}
	return nil
}

func sorted(m map[uint64]*Entry) []Entry {
	list := make([]Entry, 0, len(m))
	for _, e := range m {
		list = append(list, *e)
	}
	slices.SortFunc(list, func(a, b Entry) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return list
}
