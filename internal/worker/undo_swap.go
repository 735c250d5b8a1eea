package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/swap"
	"github.com/spillway-io/spillway/internal/sys"
)

func (m *machine) undoSwapFile(ctx context.Context, e journal.Entry, dry bool, o *Outcome) error {
	inode, info, err := inodeAt(e.Path)
	if err != nil {
		return fmt.Errorf("worker: remove swap file: %w", err)
	}
	area, active, err := m.area(e.Path)
	if err != nil {
		return err
	}
	switch {
	case inode == 0 && !active:
		o.Result = Nothing
		return nil
	case inode != 0 && !ourFile(e, inode, info):
		o.Result = Alone
		return nil
	case active && e.Inode == 0:
		// It is switched on only once its inode is on record: this is somebody else's.
		o.Result = Alone
		o.Err = errkind.New(errkind.Denied, "worker: remove swap file %q: it is on, and no record says that we made it", e.Path)
		return nil
	case active && e.Boot != m.boot:
		// Somebody switched our file on again after the reboot; deleting it is impossible, switching it off not ours.
		return errkind.New(errkind.Unavailable, "worker: remove swap file %q: somebody else switched it on", e.Path)
	}
	if inode != 0 {
		if err := noLinks(filepath.Dir(e.Path)); err != nil {
			return fmt.Errorf("worker: remove swap file: %w", err)
		}
		if e.Inode == 0 {
			ours, err := halfMade(e.Path)
			if err != nil {
				return fmt.Errorf("worker: remove swap file: %w", err)
			}
			if !ours {
				o.Result = Alone
				o.Err = errkind.New(errkind.Denied, "worker: remove swap file %q: it holds something else than swap", e.Path)
				return nil
			}
		}
	}
	o.Now, o.Result = "off", Removed
	if active {
		o.Now = bytesize.Size(area.Used).String() + " in use"
		if dry {
			return m.roomFor(area)
		}
		if err := m.off(ctx, area); err != nil {
			return err
		}
	}
	if dry || inode == 0 {
		return nil
	}
	if err := os.Remove(e.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("worker: remove swap file: %w", err)
	}
	return nil
}

// ourFile says whether the file at e.Path is the one that entry speaks of. Before the making was completed the
// inode is not on record; then only a file that looks exactly like ours half made counts.
func ourFile(e journal.Entry, inode uint64, info os.FileInfo) bool {
	if !info.Mode().IsRegular() {
		return false
	}
	if e.Inode != 0 {
		return inode == e.Inode
	}
	uid, _, ok := sys.Owner(info)
	const clockStep = 2 * time.Second // file times are those of the last timer tick
	return ok && int(uid) == os.Geteuid() && info.Mode().Perm() == 0o600 && info.Size() <= e.Size &&
		info.ModTime().After(time.Unix(e.At, 0).Add(-clockStep))
}

// halfMade says whether the file at path holds what a making leaves at any instant: nothing, zeros, or zeros
// behind a swap header, which is written last.
func halfMade(path string) (bool, error) {
	f, err := sys.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	const signature = "SWAPSPACE2" // the last ten bytes of the first page
	head := make([]byte, os.Getpagesize())
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	if n == len(head) && string(head[n-len(signature):]) == signature {
		return true, nil
	}
	return len(bytes.Trim(head[:n], "\x00")) == 0, nil
}

// deleted is what the kernel puts behind the path of an area whose file was removed.
const deleted = " (deleted)"

// area finds an active swap area by its path.
func (m *machine) area(path string) (proc.SwapArea, bool, error) {
	areas, err := proc.ReadSwaps(m.root)
	if err != nil {
		return proc.SwapArea{}, false, fmt.Errorf("worker: %w", err)
	}
	for _, a := range areas {
		if filepath.Join(m.root, strings.TrimSuffix(a.Path, deleted)) == path {
			return a, true, nil
		}
	}
	return proc.SwapArea{}, false, nil
}

// roomFor refuses a swapoff that could drive the machine out of memory: what the area holds must fit in what is
// available, with a fiftieth of memory to spare.
func (m *machine) roomFor(a proc.SwapArea) error {
	mem, err := proc.ReadMeminfo(m.root)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if need := a.Used + mem.Total/50; mem.Available < need {
		return errkind.Hint(errkind.New(errkind.Exhausted, "worker: swap off %q: it holds %v and only %v of memory is available, %v wanted",
			a.Path, bytesize.Size(a.Used), bytesize.Size(mem.Available), bytesize.Size(need)),
			"free memory, then run: spillway restore")
	}
	return nil
}

func (m *machine) off(ctx context.Context, a proc.SwapArea) error {
	if err := m.roomFor(a); err != nil {
		return err
	}
	for {
		err := swap.Off(a.Path)
		switch {
		case err == nil:
			return nil
		case errkind.Of(err) == errkind.NotFound:
			return m.reallyOff(a, err)
		case errkind.Of(err) == errkind.Exhausted:
			return m.noRoom(err)
		case !swap.Interrupted(err):
			return fmt.Errorf("worker: %w", err)
		case ctx.Err() != nil:
			return errkind.New(errkind.Unavailable, "worker: swap off %q: %w", a.Path, ctx.Err())
		}
		// A signal that was not meant to end it, such as the runtime's own: go on where it stopped.
	}
}

// reallyOff tells an area that somebody else switched off from one that cannot be named any more, because its file
// was deleted while it was on.
func (m *machine) reallyOff(a proc.SwapArea, cause error) error {
	if _, on, err := m.area(filepath.Join(m.root, strings.TrimSuffix(a.Path, deleted))); err != nil || !on {
		return err
	}
	return errkind.Hint(errkind.New(errkind.Unavailable, "worker: %w", cause), "its file was deleted while it was on; only a reboot ends it")
}

// zramMaking is the path of a zram entry before the kernel has given the device its number.
const zramMaking = "sys/class/zram-control/hot_add"

func (m *machine) zramNumber(path string) (int, bool) {
	n, ok := strings.CutPrefix(path, filepath.Join(m.root, "dev")+"/zram")
	if !ok {
		return 0, false
	}
	dev, err := strconv.Atoi(n)
	return dev, err == nil
}

func (m *machine) undoZram(ctx context.Context, e journal.Entry, dry bool, o *Outcome) error {
	dev, ok := m.zramNumber(e.Path)
	if !ok {
		// The process died between asking for a device and learning its number. An empty device is the worst that
		// can be left; which one cannot be told from somebody else's.
		o.Result = Nothing
		return nil
	}
	size, err := swap.ZramSize(m.root, dev)
	if gone(err) {
		o.Result = Nothing
		return nil
	}
	if err != nil {
		return err
	}
	o.Now = bytesize.Size(size).String()
	if size != 0 && size != e.Size {
		o.Result = Alone
		return nil
	}
	if size == 0 && !e.Added {
		o.Result = Nothing
		return nil
	}
	o.Result = Removed
	area, active, err := m.area(e.Path)
	if err != nil {
		return err
	}
	if dry {
		if active {
			return m.roomFor(area)
		}
		return nil
	}
	if active {
		if err := m.off(ctx, area); err != nil {
			return err
		}
	}
	if size != 0 {
		if err := whileBusy(ctx, func() error { return swap.ZramReset(m.root, dev) }); err != nil {
			return err
		}
	}
	if e.Added {
		return whileBusy(ctx, func() error { return swap.ZramRemove(m.root, dev) })
	}
	return nil
}

// whileBusy repeats f for a while: udev and the like open a block device that has just changed.
func whileBusy(ctx context.Context, f func() error) error { return patiently(ctx, time.Second, f) }

// patiently repeats f while it answers EBUSY, for as long as patience.
func patiently(ctx context.Context, patience time.Duration, f func() error) error {
	return sys.WhileBusy(ctx, patience, 20*time.Millisecond, f)
}
