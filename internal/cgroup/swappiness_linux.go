package cgroup

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
)

// ReclaimWith is Reclaim with a choice of memory. A kernel that does not know the argument gives a *probe.Missing,
// having taken nothing.
func (g *Group) ReclaimWith(bytes int64, s Swappiness) error {
	if s == KernelsChoice {
		return g.Reclaim(bytes)
	}
	if bytes <= 0 || !s.Valid() {
		return errkind.New(errkind.Invalid, "cgroup: reclaim %d bytes of %q with swappiness %d: not a positive amount, or no swappiness", bytes, g.path, int(s))
	}
	if !g.v2 || !g.canReclaim {
		return fmt.Errorf("cgroup: reclaim %q: %w", g.path, MissingSwappiness(s))
	}
	err := g.reclaim(bytes, s)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("cgroup: reclaim %q: %w", g.path, MissingSwappiness(s))
	}
	return err
}

// MissingSwappiness is the error of a kernel that cannot take memory by s in one step.
func MissingSwappiness(s Swappiness) *probe.Missing {
	if s == AnonOnly {
		return &probe.Missing{Feature: "memory.reclaim swappiness=max", Since: "6.16",
			Do: "nothing: steps lean on anonymous memory by weight instead, or leave the choice to the kernel"}
	}
	return &probe.Missing{Feature: "memory.reclaim swappiness=", Since: "6.11",
		Do: "nothing: steps leave the choice between file cache and anonymous memory to the kernel; Linux 6.11 lets Spillway weigh them"}
}

// Accepts asks a v2 kernel whether memory.reclaim takes s as an argument. It asks for nothing to be reclaimed, and
// nothing is.
func (g *Group) Accepts(s Swappiness) (bool, error) {
	if !g.v2 || !g.canReclaim || s == KernelsChoice {
		return false, nil
	}
	err := g.reclaim(0, s)
	if errors.Is(err, unix.EINVAL) {
		return false, nil
	}
	return err == nil, err
}

// reclaim writes one request to memory.reclaim.
func (g *Group) reclaim(bytes int64, s Swappiness) error {
	fd, err := openat(g.dirfd, FileReclaim, unix.O_WRONLY)
	if err != nil {
		return g.fail("open", FileReclaim, err)
	}
	defer unix.Close(fd)
	text := strconv.AppendInt(nil, bytes, 10)
	if s != KernelsChoice {
		text = append(append(text, " swappiness="...), s.String()...)
	}
	_, err = sys.WriteRaw(fd, text)
	switch {
	case err == nil, err == unix.EAGAIN:
		return nil
	case err == unix.EINTR:
		return g.fail("write", FileReclaim, interrupted(err))
	}
	return g.fail("write", FileReclaim, err)
}

// Hold is a cgroup's own knob that stays at another value for the length of one step.
type Hold struct {
	g        *Group
	file     string
	fd       int // -1: nothing is held
	old, set int64
}

// Hold makes the cgroup's next step take memory by s: on v1 it writes memory.swappiness, on v2 and for FileOnly alone
// it makes what is swapped now the most that may be (memory.swap.max). Descendants keep their own memory.swappiness.
// Other reclaim of the cgroup meanwhile goes the same way. intent(file, old, set) runs before the write, so that a
// journal can undo it; its error aborts. The caller releases what it gets, also with an error: Release does nothing
// where nothing was written. A kernel or request without such a knob gives a
// *probe.Missing. If somebody set the knob while the intent was recorded, theirs stays and the error is ErrForeign.
func (g *Group) Hold(s Swappiness, intent func(file string, old, set int64) error) (*Hold, error) {
	h := &Hold{g: g, fd: -1}
	if s == KernelsChoice || !s.Valid() || g.path == "/" { // on v1 the root's memory.swappiness is vm.swappiness
		return h, errkind.New(errkind.Invalid, "cgroup: hold the swappiness of %q at %d: needs a choice and a cgroup that is not the root", g.path, int(s))
	}
	if err := h.choose(s); err != nil {
		return h, err
	}
	fd, err := openat(g.dirfd, h.file, unix.O_RDWR)
	if err == unix.ENOENT && g.alive() {
		return h, fmt.Errorf("cgroup: hold %q: %w", g.path, &probe.Missing{Feature: h.file, Do: "boot with swapaccount=1 on a kernel built with CONFIG_SWAP"})
	}
	if err != nil {
		return h, g.fail("open", h.file, err)
	}
	if h.old, err = readNumber(fd); err != nil {
		unix.Close(fd)
		return h, g.fail("read", h.file, err)
	}
	if h.old == h.set || h.file == FileSwapMax && h.old != Unlimited && h.old < h.set {
		unix.Close(fd) // it is so already
		return h, nil
	}
	if err := intent(h.file, h.old, h.set); err != nil {
		unix.Close(fd)
		return h, fmt.Errorf("cgroup: hold %q: record the intent: %w", g.path, err)
	}
	now, err := readNumber(fd)
	if err == nil && now != h.old {
		err = fmt.Errorf("it reads %d: %w", now, ErrForeign)
	}
	if err != nil {
		unix.Close(fd)
		return h, g.fail("hold", h.file, err)
	}
	h.fd = fd // from here on Release looks at it, whatever the write came to
	if err := writeNumber(fd, h.set, g.v2); err != nil {
		return h, g.fail("hold", h.file, err)
	}
	return h, nil
}

// choose finds the file and the value for s.
func (h *Hold) choose(s Swappiness) error {
	n, weight := s.Weight()
	switch {
	case !h.g.v2:
		h.file, h.set = FileSwappiness, int64(n)
		if !weight {
			h.set = MaxWeight
		}
		return nil
	case s != FileOnly:
		return fmt.Errorf("cgroup: hold %q: %w", h.g.path, MissingSwappiness(s))
	}
	h.file = FileSwapMax
	if h.g.fds[fileSwap] < 0 {
		return fmt.Errorf("cgroup: hold %q: %w", h.g.path, &probe.Missing{Feature: FileSwapMax, Do: "boot with swapaccount=1 on a kernel built with CONFIG_SWAP"})
	}
	var err error
	if h.set, err = readNumber(h.g.fds[fileSwap]); err != nil {
		return h.g.fail("read", namesV2[fileSwap], err)
	}
	return nil
}

// File names the knob that decides, whether or not it had to be written.
func (h *Hold) File() string { return h.file }

// Release puts the old value back if the knob still reads what Hold wrote, and makes sure by reading it again. A value
// that somebody else wrote stays, and the error is ErrForeign; one that equals ours cannot be told from it. Idempotent.
func (h *Hold) Release() error {
	if h.fd < 0 {
		return nil
	}
	defer func() { unix.Close(h.fd); h.fd = -1 }()
	if err := putBack(h.fd, h.old, h.set, h.g.v2); err != nil {
		return h.g.fail("restore", h.file, err)
	}
	return nil
}

// RestoreHold undoes a Hold whose process died: it sets file back to old, but only if it still reads wrote. changed
// says whether it did, now what was found.
func (g *Group) RestoreHold(file string, old, wrote int64) (changed bool, now int64, err error) {
	return g.restoreHold(file, old, wrote, unix.O_RDWR)
}

// SeeHold says what RestoreHold would do and does nothing.
func (g *Group) SeeHold(file string, old, wrote int64) (would bool, now int64, err error) {
	return g.restoreHold(file, old, wrote, unix.O_RDONLY)
}

func (g *Group) restoreHold(file string, old, wrote int64, mode int) (changed bool, now int64, err error) {
	if file != FileSwappiness && file != FileSwapMax || (file == FileSwapMax) != g.v2 || g.path == "/" || old < Unlimited || wrote < 0 {
		return false, 0, errkind.New(errkind.Invalid, "cgroup: restore %q of %q from %d to %d: not what a step changes", file, g.path, wrote, old)
	}
	fd, err := openat(g.dirfd, file, mode)
	if err != nil {
		return false, 0, g.fail("open", file, err)
	}
	defer unix.Close(fd)
	if now, err = readNumber(fd); err != nil {
		return false, 0, g.fail("read", file, err)
	}
	if now != wrote || now == old {
		return false, now, nil
	}
	if mode == unix.O_RDONLY {
		return true, now, nil
	}
	if err := putBack(fd, old, wrote, g.v2); err != nil {
		return false, now, g.fail("restore", file, err)
	}
	return true, now, nil
}

func putBack(fd int, old, wrote int64, v2 bool) error {
	now, err := readNumber(fd)
	switch {
	case err != nil:
		return err
	case now == old:
		return nil
	case now != wrote:
		return fmt.Errorf("it reads %d: %w", now, ErrForeign)
	}
	if err := writeNumber(fd, old, v2); err != nil {
		return err
	}
	if now, err = readNumber(fd); err == nil && now != old {
		err = fmt.Errorf("it reads %d, not %d", now, old)
	}
	return err
}

// writeNumber writes once, again after a signal: neither knob reclaims anything, so it ends at once.
func writeNumber(fd int, n int64, v2 bool) error {
	text := strconv.AppendInt(nil, n, 10)
	if n == Unlimited && v2 {
		text = []byte("max")
	}
	for {
		if err := unix.Ftruncate(fd, 0); err != nil { // as in writeLimit
			return err
		}
		_, err := unix.Pwrite(fd, append(text, '\n'), 0)
		if err != unix.EINTR {
			return err
		}
	}
}
