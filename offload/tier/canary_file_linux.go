package tier

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spillway-io/spillway/internal/sys"
)

// file measures what a page of file cache costs to come back: it writes a file of n bytes in dir, drops it from the
// cache, and reads it through a mapping in no order, then once more in order. The file has no name, so that nothing is
// left whatever ends this process. Its bytes do not shrink, for file systems that compress.
func (c *canary) file(dir string, n int64, atMost time.Duration) (a answer, err error) {
	c.page = os.Getpagesize()
	if n < int64(c.page) || n > maxCanary || n%int64(c.page) != 0 {
		return a, fmt.Errorf("tier: file of %d bytes: not a number of pages up to %d bytes", n, maxCanary)
	}
	f, err := sys.OpenTemp(dir)
	if err != nil {
		return a, fmt.Errorf("tier: %w", err)
	}
	defer f.Close()
	part := make([]byte, min(n, 1<<20))
	fillRandom(part)
	for left := n; left > 0; left -= int64(len(part)) {
		part = part[:min(left, int64(len(part)))]
		if _, err := f.Write(part); err != nil {
			return a, fmt.Errorf("tier: write: %w", err)
		}
	}
	if err := f.Sync(); err != nil {
		return a, fmt.Errorf("tier: write: %w", err)
	}
	out, err := drop(f, int(n), c.page)
	if err != nil || out < minFaults {
		return answer{Pages: int(n) / c.page, Out: out}, err
	}
	if a, err = c.scattered(f, int(n), atMost); err != nil {
		return a, err
	}
	a.Out = out
	if out, err = drop(f, int(n), c.page); err != nil || out < minFaults {
		return a, err
	}
	a.InOrder, err = inOrder(f, out)
	return a, err
}

// drop puts the first n bytes of f out of the cache and says how many pages are.
func drop(f *os.File, n, page int) (out int, err error) {
	if err := sys.DropFileCache(f); err != nil {
		return 0, err
	}
	mem, err := sys.MmapRead(f, n)
	if err != nil {
		return 0, err
	}
	defer func() { _ = sys.Munmap(mem) }()
	return absent(mem, page)
}

// scattered times the faults of a mapping that is read in no order, where each brings one page.
func (c *canary) scattered(f *os.File, n int, atMost time.Duration) (answer, error) {
	mem, err := sys.MmapRead(f, n)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = sys.Munmap(mem) }()
	if err := sys.NoReadahead(mem); err != nil {
		return answer{}, err
	}
	return c.times(mem, atMost)
}

// inOrder is the time that read(2) from begin to end takes for each of the out pages that were not in the cache, by the
// kernel's usual readahead.
func inOrder(f *os.File, out int) (time.Duration, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	part := make([]byte, 16<<10) // as servers read
	start := time.Now()
	for {
		switch _, err := f.Read(part); err {
		case nil:
		case io.EOF:
			return time.Since(start) / time.Duration(out), nil
		default:
			return 0, err
		}
	}
}
