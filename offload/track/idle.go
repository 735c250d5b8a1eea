package track

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/offload/heat"
)

const (
	idleBitmap = "sys/kernel/mm/page_idle/bitmap"
	pageCgroup = "proc/kpagecgroup"
	pageFlags  = "proc/kpageflags"
)

func checkIdle(root string) error {
	for _, f := range []struct {
		name    string
		mode    int
		missing *probe.Missing
	}{
		{idleBitmap, os.O_RDWR, &probe.Missing{Feature: "idle page tracking", Since: "4.3", Do: "use a kernel built with CONFIG_IDLE_PAGE_TRACKING"}},
		{pageCgroup, os.O_RDONLY, &probe.Missing{Feature: "/proc/kpagecgroup", Since: "4.3", Do: "use a kernel built with CONFIG_MEMCG and CONFIG_PROC_PAGE_MONITOR"}},
		{pageFlags, os.O_RDONLY, &probe.Missing{Feature: "/proc/kpageflags", Since: "2.6.25", Do: "use a kernel built with CONFIG_PROC_PAGE_MONITOR"}},
	} {
		file, err := sys.OpenNoFollow(filepath.Join(root, f.name), f.mode, 0)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return f.missing
		case errors.Is(err, fs.ErrPermission):
			return errkind.Hint(errkind.New(errkind.Denied, "track: %w", err), "run as root")
		case err != nil:
			return fmt.Errorf("track: %w", err)
		}
		file.Close()
	}
	return nil
}

// chunk is how many pages are read at once. It is also the unit in which ages are kept: a byte a page of every
// chunk in which a wanted page was seen, so a quarter of a thousandth of the memory at most.
const chunk = 32 << 10

// Bits of /proc/kpageflags (the kernel's admin-guide/mm/pagemap).
const (
	flagLRU  = 1 << 5
	flagTail = 1 << 16
)

// idleBits reads one bit a page: whether it was touched since its bit was set. A page that was freed and used again
// by the same cgroup counts as touched, and as come back.
type idleBits struct {
	root   string
	ages   map[int64]*[chunk]uint8
	scans  map[Group][]time.Time // newest first
	cgroup []byte                // 8 bytes a page: inode of its cgroup
	flags  []byte                // 8 bytes a page
	bits   []byte
	mark   []byte
}

func newIdleBitmap(root string) *idleBits {
	return &idleBits{root: root, ages: map[int64]*[chunk]uint8{}, scans: map[Group][]time.Time{},
		cgroup: make([]byte, 8*chunk), flags: make([]byte, 8*chunk), bits: make([]byte, chunk/8), mark: make([]byte, chunk/8)}
}

func (*idleBits) name() string { return "idle-bitmap" }

func (*idleBits) Close() error { return nil }

func (s *idleBits) scan(ctx context.Context, at time.Time, groups []Group, r *Result) error {
	keep(s.scans, groups)
	if len(groups) == 0 {
		clear(s.ages)
		return nil
	}
	tallies := make(map[uint64]*heat.Tally, len(groups))
	for _, g := range groups {
		tallies[g.Inode] = new(heat.Tally)
	}
	var files [3]*os.File
	for i, name := range []string{pageCgroup, pageFlags, idleBitmap} {
		mode := os.O_RDONLY
		if name == idleBitmap {
			mode = os.O_RDWR
		}
		f, err := sys.OpenNoFollow(filepath.Join(s.root, name), mode, 0)
		if err != nil {
			return fmt.Errorf("track: %w", err)
		}
		defer f.Close()
		files[i] = f
	}
	for n := int64(0); ; n++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		more, err := s.chunk(n, files[0], files[1], files[2], tallies)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	for _, g := range groups {
		r.Readings[g] = tallies[g.Inode].Reading(at, s.scans[g], s.name())
		scans := slices.Insert(s.scans[g], 0, at)
		s.scans[g] = scans[:min(len(scans), heat.MaxPageAge)]
	}
	return nil
}

// readWriterAt is the bitmap.
type readWriterAt interface {
	io.ReaderAt
	io.WriterAt
}

// chunk scans the n-th chunk; more is false at the end of memory.
func (s *idleBits) chunk(n int64, cgroups, flags io.ReaderAt, bitmap readWriterAt, tallies map[uint64]*heat.Tally) (more bool, err error) {
	got, err := readFull(cgroups, s.cgroup, n*chunk*8)
	if err != nil {
		return false, fmt.Errorf("track: read %s: %w", pageCgroup, err)
	}
	pages := got / 8
	if !s.anyWanted(pages, tallies) {
		delete(s.ages, n)
		return pages == chunk, nil
	}
	if got, err = readFull(flags, s.flags, n*chunk*8); err != nil {
		return false, fmt.Errorf("track: read %s: %w", pageFlags, err)
	}
	pages = min(pages, got/8)
	if got, err = readFull(bitmap, s.bits, n*chunk/8); err != nil {
		return false, fmt.Errorf("track: read %s: %w", idleBitmap, err)
	}
	pages = min(pages, got*8)
	ages := s.ages[n]
	if ages == nil {
		ages = new([chunk]uint8)
		s.ages[n] = ages
	}
	s.pages(pages, ages, tallies)
	// Whole words only, and only those with a page of ours.
	for i := 0; i+8 <= len(s.mark); i += 8 {
		if binary.NativeEndian.Uint64(s.mark[i:]) != 0 {
			if err := markIdle(bitmap, s.mark[i:i+8], n*chunk/8+int64(i)); err != nil {
				return false, fmt.Errorf("track: mark pages idle: %w", err)
			}
		}
	}
	return pages == chunk, nil
}

// anyWanted remembers the last inode: neighbouring pages mostly belong to one cgroup.
func (s *idleBits) anyWanted(pages int, tallies map[uint64]*heat.Tally) bool {
	last := uint64(0)
	for i := range pages {
		inode := binary.NativeEndian.Uint64(s.cgroup[8*i:])
		if inode == last {
			continue
		}
		if tallies[inode] != nil {
			return true
		}
		last = inode
	}
	return false
}

// pages counts the pages of one chunk and fills mark. The kernel keeps the bit of a huge page at its head; a tail
// shares its head's. A huge page never crosses a chunk: chunks are 128 MiB and aligned.
func (s *idleBits) pages(n int, ages *[chunk]uint8, tallies map[uint64]*heat.Tally) {
	clear(s.mark)
	page := int64(os.Getpagesize())
	var touched, counts bool // of the page, or of the head of the huge page that it is in
	var inode uint64
	var t *heat.Tally
	for i := range n {
		flags := binary.NativeEndian.Uint64(s.flags[8*i:])
		if next := binary.NativeEndian.Uint64(s.cgroup[8*i:]); next != inode || i == 0 {
			inode, t = next, tallies[next]
		}
		if flags&flagTail == 0 {
			counts = flags&flagLRU != 0 // page tables and stacks are charged, too, and have no bit
			touched = s.bits[bit(i)]&(1<<(i%8)) == 0
			if counts && t != nil {
				s.mark[bit(i)] |= 1 << (i % 8)
			}
		}
		if t == nil || !counts {
			ages[i] = 0
			continue
		}
		ages[i] = t.See(ages[i], touched, page)
	}
	clear(ages[n:])
}

// bit is the byte in which page i of a chunk has its bit: the bitmap is words of 64 pages in the machine's order.
func bit(i int) int {
	if littleEndian {
		return i / 8
	}
	return i/64*8 + 7 - i%64/8
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// readFull reads until b is full or the file ends, and returns how much.
func readFull(f io.ReaderAt, b []byte, at int64) (n int, err error) {
	for n < len(b) {
		m, err := f.ReadAt(b[n:], at+int64(n))
		n += m
		if errors.Is(err, io.EOF) || m == 0 && err == nil {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
