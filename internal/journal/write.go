package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// appendLocked adds one line. After a short write the rest is cut off, so that the next line starts clean; where
// even that fails the next line is preceded by a newline and the fragment becomes one damaged line.
//
// +checklocks:j.mu
func (j *Journal) appendLocked(line []byte) error {
	if j.size+int64(len(line)) > maxFile {
		return errkind.New(errkind.Exhausted, "file has %d bytes and could not be compacted", j.size)
	}
	if j.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := j.write(j.f, line)
	if err == nil {
		j.size += int64(n)
		j.torn = false
		return nil
	}
	if n > 0 {
		if cut := j.f.Truncate(j.size); cut != nil {
			j.size += int64(n)
			j.torn = true
			err = errors.Join(err, cut)
		}
	}
	return diskFull(err)
}

// maybeCompactLocked compacts a large file. A failure postpones the next try: the old file still serves.
//
// +checklocks:j.mu
func (j *Journal) maybeCompactLocked() {
	if j.size < max(j.compactAt, j.retryAt) {
		return
	}
	if j.compactLocked() != nil {
		j.retryAt = j.size + j.compactAt/4
		return
	}
	// Many live entries must not make every append a compaction.
	j.retryAt = 2 * j.size
}

// compactLocked replaces the file with one that holds the live entries only, and has it on disk before the
// old one goes. A file with damaged lines stays beside it as journal.damaged.
//
// +checklocks:j.mu
func (j *Journal) compactLocked() error {
	var b []byte
	var err error
	for _, e := range sorted(j.entries) {
		if b, err = appendOpen(b, e); err != nil {
			return fmt.Errorf("journal: compact: %w", err)
		}
		if e.Pending {
			b = appendIntent(b, e.ID, e.From, e.To)
		}
	}
	f, err := j.replace(b, j.keep)
	if err != nil {
		return fmt.Errorf("journal: compact: %w", diskFull(err))
	}
	j.f.Close()
	j.f, j.size, j.torn, j.keep = f, int64(len(b)), false, false
	j.gen++
	if err := syncDir(j.dir); err != nil {
		return fmt.Errorf("journal: compact: %w", err)
	}
	return nil
}

// replace puts a new file with the contents b in the journal's place. When it fails the old file is still there.
func (j *Journal) replace(b []byte, keep bool) (*os.File, error) {
	temp, name := filepath.Join(j.dir, tempName), filepath.Join(j.dir, FileName)
	f, err := sys.OpenRegular(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = j.write(f, b)
	if err == nil {
		err = f.Sync()
	}
	if err == nil && keep {
		err = keepDamaged(j.dir)
	}
	if err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		f.Close()
		os.Remove(temp)
		return nil, err
	}
	return f, nil
}

func keepDamaged(dir string) error {
	damaged := filepath.Join(dir, DamagedName)
	if err := os.Remove(damaged); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Link(filepath.Join(dir, FileName), damaged)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func diskFull(err error) error {
	if errors.Is(err, sys.ENOSPC) {
		return errkind.Hint(errkind.Wrap(errkind.Exhausted, err),
			"free disk space for Spillway's state directory; nothing was changed")
	}
	return err
}
