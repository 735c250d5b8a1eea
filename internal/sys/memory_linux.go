package sys

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MmapAnon maps n bytes of private zeroed memory outside the Go heap. n must be positive. No page is
// resident until touched. Free it with Munmap.
func MmapAnon(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("sys: map %d bytes: %w", n, err)
	}
	return b, nil
}

// MmapRead maps the first n bytes of f for reading, shared. n must be positive and at most the file's size: a read
// beyond the end is a SIGBUS. Free it with Munmap.
func MmapRead(f *os.File, n int) ([]byte, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("sys: map %d bytes of %q: %w", n, f.Name(), err)
	}
	return b, nil
}

// NoReadahead says that b, which maps a file, is read in no order: a fault brings one page.
func NoReadahead(b []byte) error {
	if err := unix.Madvise(b, unix.MADV_RANDOM); err != nil {
		return fmt.Errorf("sys: keep readahead off %d bytes: %w", len(b), err)
	}
	return nil
}

// Munmap unmaps exactly what MmapAnon or MmapRead returned.
func Munmap(b []byte) error {
	if err := unix.Munmap(b); err != nil {
		return fmt.Errorf("sys: unmap %d bytes: %w", len(b), err)
	}
	return nil
}

// PageOut asks the kernel to reclaim the pages of b now, which must start on a page boundary. Pages that
// cannot go stay; Mincore tells. Linux 5.4.
func PageOut(b []byte) error {
	if err := ignoringEINTR(func() error { return unix.Madvise(b, unix.MADV_PAGEOUT) }); err != nil {
		return fmt.Errorf("sys: page out %d bytes: %w", len(b), err)
	}
	return nil
}

// NoHugePages keeps b on base pages, so that one access is one page.
func NoHugePages(b []byte) error {
	if err := unix.Madvise(b, unix.MADV_NOHUGEPAGE); err != nil {
		return fmt.Errorf("sys: keep %d bytes on small pages: %w", len(b), err)
	}
	return nil
}

// DropFileCache asks the kernel to forget the clean cached pages of f; write it out first with f.Sync.
func DropFileCache(f *os.File) error {
	if err := ignoringEINTR(func() error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }); err != nil {
		return fmt.Errorf("sys: drop cache of %q: %w", f.Name(), err)
	}
	return nil
}
