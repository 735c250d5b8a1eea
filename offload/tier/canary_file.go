package tier

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/proc"
)

// FileCost is what it costs to bring a page of file cache back, as the canary measured it on one file system.
type FileCost struct {
	Dir, Type      string        // where, and the file system's type: "ext4"
	Pages          int           // that were out and came back one by one
	P50, P99, Mean time.Duration // of a fault that brings one page, in no order
	InOrder        time.Duration // of a page when the file is read from begin to end, so that readahead brings many for one wait
	At             time.Time
	Note           string // what makes it weaker than it looks, "" for nothing
}

// maxFile bounds what the canary writes to a disk each time: 2,048 pages are enough for a p99.
const maxFile = 8 * bytesize.MiB

// File systems that keep files in memory: there is nothing to read back.
var inMemory = []string{"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}

// CanaryFile measures in the first of dirs that lies on a disk; "" and folders that do not exist are skipped. Like
// Canary, it works in a cgroup and a process of its own and leaves neither, nor the file. What was just written may
// still be in the drive's own cache: the true cost of a page that has been cold for long is at least what is returned.
func CanaryFile(ctx context.Context, c CanaryConfig, dirs ...string) (m FileCost, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return m, err
	}
	c.Size = min(c.Size, maxFile)
	if m, err = c.onDisk(dirs); err != nil {
		return m, err
	}
	mem, err := proc.ReadMeminfo(c.Root)
	if err != nil {
		return m, fmt.Errorf("tier: measure files: %w", err)
	}
	if have, need := bytesize.Size(mem.Available), c.Size*roomForCanary; have < need {
		return m, errkind.New(errkind.Unavailable, "tier: measure files: %v of memory available, %v wanted so that nobody is disturbed", have, need)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Limit, errkind.New(errkind.Unavailable, "tier: measuring files took longer than %v: %w", c.Limit, context.DeadlineExceeded))
	defer cancel()
	r, err := c.start(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, r.clean(context.WithoutCancel(ctx))) }()
	a, err := r.child.ask(order{Do: "file", Dir: filepath.Join(c.Root, m.Dir), Bytes: int64(c.Size), For: c.Limit / 3})
	if err != nil {
		return m, err
	}
	if a.Faults < minFaults {
		return m, errkind.New(errkind.Unavailable, "tier: measure files: only %d of %d pages in %q (%s) would leave memory and come back", a.Faults, a.Pages, m.Dir, m.Type)
	}
	m.Pages, m.P50, m.P99, m.Mean, m.InOrder, m.At = a.Faults, a.P50, a.P99, a.Mean, a.InOrder, time.Now()
	c.Log.Info("file cache measured", "dir", m.Dir, "fs", m.Type, "pages", m.Pages, "p50", m.P50, "p99", m.P99, "in_order", m.InOrder, "note", m.Note)
	return m, nil
}

// onDisk picks the folder.
func (c CanaryConfig) onDisk(dirs []string) (m FileCost, err error) {
	why := "no folder to measure in"
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		real, err := realPath(c.Root, dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return m, fmt.Errorf("tier: measure files: %w", err)
		}
		at, err := mountOf(c.Root, real)
		if err != nil {
			return m, err
		}
		if slices.Contains(inMemory, at.fstype) {
			why = fmt.Sprintf("%q is a %s, which lies in memory", dir, at.fstype)
			continue
		}
		m = FileCost{Dir: real, Type: at.fstype}
		if at.fstype == "overlay" {
			m.Note = "overlay: measured in its upper layer, where new files lie"
		}
		return m, nil
	}
	return m, errkind.New(errkind.Unavailable, "tier: measure files: %s", why)
}

// RecordFile keeps the newest measurement of file cache.
func (s *Set) RecordFile(m FileCost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file = m
}

// FileCost is the newest measurement of file cache, zero when there is none.
func (s *Set) FileCost() FileCost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file
}
