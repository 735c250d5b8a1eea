package track

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/sys"
)

// Everything this package writes is in this file.

// ageGenerations has the kernel walk the page tables of one cgroup on one node, move what was touched into the
// youngest generation max and begin a new one. The two ones say: anonymous memory too, even where swap is off (it
// is looked at, not taken), and every page table, not only those where the last walk found something.
func ageGenerations(root string, id uint64, node int, max uint64) error {
	return write(filepath.Join(root, lruGen), fmt.Appendf(nil, "+ %d %d %d 1 1\n", id, node, max))
}

// markIdle sets bits of the idle bitmap, words of 64 pages from byte offset on. The kernel clears the accessed bits
// of these pages and remembers them for its own reclaim.
func markIdle(f io.WriterAt, words []byte, offset int64) error {
	_, err := f.WriteAt(words, offset)
	return err
}

// clearReferenced clears the referenced bits of every page of process pid, if it is a member of the cgroup path. The
// file is opened before the membership is read: a process that ended meanwhile, and one that took its number, are
// then told apart from it.
//
// 1 clears the bits. Since Linux 5.11 it does not flush the TLB, and a page whose translation the processor still holds
// is not marked again when it is touched: hot memory would look cold, on machines that shadow a guest's page tables
// all of it. 4 clears the soft-dirty bits, which nobody here reads, and always flushes.
func clearReferenced(root string, h cgroup.Hierarchy, pid int, path string) error {
	f, err := sys.OpenNoFollow(filepath.Join(root, "proc", strconv.Itoa(pid), "clear_refs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	of, err := h.Of(pid)
	if err != nil {
		return err
	}
	if of != path {
		return fmt.Errorf("process %d has left: %w", pid, os.ErrNotExist)
	}
	for _, what := range []string{"1", "4"} {
		if _, err := f.Write([]byte(what)); err != nil {
			return err
		}
	}
	return f.Close()
}

func write(path string, b []byte) error {
	f, err := sys.OpenNoFollow(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.Close()
}

// setKdamond writes a setting of the kdamond that the worker has set up for us; the directory goes with it. Switching
// it on, and what waits for its thread, is the worker's part.
func setKdamond(path, value string) error {
	f, err := sys.OpenNoFollow(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil {
		return err
	}
	return f.Close()
}
