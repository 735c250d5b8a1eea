package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
)

const limitFile = "memory.limit_in_bytes"

// Reclaim asks a v2 kernel to take bytes from the cgroup and blocks until it has, or has given up: taking
// less is no error (the kernel's EAGAIN), so read Usage before and after. A signal to the thread ends it with
// ErrInterrupted. A thread only about to block misses the signal; whoever interrupts repeats it.
func (g *Group) Reclaim(bytes int64) error {
	if bytes <= 0 {
		return errkind.New(errkind.Invalid, "cgroup: reclaim %d bytes of %q: not a positive amount", bytes, g.path)
	}
	if !g.v2 || !g.canReclaim {
		return fmt.Errorf("cgroup: reclaim %q: %w", g.path, &probe.Missing{Feature: FileReclaim, Since: "5.19",
			Do: "use cgroup v2 on Linux 5.19 or newer"})
	}
	return g.reclaim(bytes, KernelsChoice)
}

func interrupted(err error) error { return fmt.Errorf("%w: %w", ErrInterrupted, err) }

// ShrinkResult is what a Shrink did. Sizes are bytes.
type ShrinkResult struct {
	Before, After int64  // usage
	FailCnt       uint64 // charges the limit refused meanwhile
	Busy          bool   // the kernel gave up before the target: less was taken
	Restored      bool   // the limit is what it was before, read back
}

// Shrink takes up to step bytes from a v1 cgroup, never below floor, by lowering its limit and putting the
// limit back. The target is page aligned. intent(old, target) runs before the first write, so that a journal
// can undo it; its error aborts. old is the limit to restore, Unlimited when there is none.
//
// Nothing is written when usage is at the floor or the limit is already at or below the target. The write
// blocks while the kernel reclaims and ends early when the kernel finds no more (Busy) or a signal comes
// (ErrInterrupted; see Reclaim about repeating it). In every case the old limit is restored and read back
// before Shrink returns; Restored is false only with an error. If somebody else set the limit before the write
// or after it, theirs stays and the error is ErrForeign. One gap remains: a limit set while the write blocks is
// overwritten by target when the write succeeds, unseen, and then by old, since the kernel has no compare and
// set. Steps in smaller writes would hold the limit down between them, which is worse.
//
// The limit is down only from the moment usage fits until the write that restores it, microseconds later.
// memory.memsw.limit_in_bytes is never touched.
func (g *Group) Shrink(step, floor int64, intent func(old, target int64) error) (ShrinkResult, error) {
	var r ShrinkResult
	if step <= 0 || floor < 0 || g.v2 || g.path == "/" {
		return r, errkind.New(errkind.Invalid, "cgroup: shrink %q by %d to floor %d: needs a v1 cgroup that is not the root, a positive step and a floor that is not negative", g.path, step, floor)
	}
	before, err := g.counters()
	if err != nil {
		return r, err
	}
	r = ShrinkResult{Before: before.usage, After: before.usage, Restored: true}
	target := pageUp(max(before.usage-step, floor))
	if target >= before.usage || before.limit != Unlimited && before.limit <= target {
		return r, nil
	}
	// For reading, too: the same file tells what the write came to.
	fd, err := openat(g.dirfd, limitFile, unix.O_RDWR)
	if err != nil {
		return r, g.fail("open", limitFile, err)
	}
	defer unix.Close(fd)
	if err := intent(before.limit, target); err != nil {
		return r, fmt.Errorf("cgroup: shrink %q: record the intent: %w", g.path, err)
	}
	// Recording the intent takes time, in which somebody else may have set a limit: old would overwrite it.
	now, err := readNumber(fd)
	if err != nil {
		return r, g.fail("read", limitFile, err)
	}
	if now != before.limit {
		r.Restored = false
		return r, g.fail("shrink", limitFile, fmt.Errorf("it reads %d: %w", now, ErrForeign))
	}
	wrote := writeLimit(fd, target)
	r.Busy = wrote == unix.EBUSY
	restored := restore(fd, before.limit, target)
	r.Restored = restored == nil
	var errs []error
	if wrote != nil && !r.Busy {
		if wrote == unix.EINTR {
			wrote = interrupted(wrote)
		}
		errs = append(errs, g.fail("write", limitFile, wrote))
	}
	if restored != nil {
		errs = append(errs, g.fail("restore", limitFile, restored))
	}
	after, err := g.counters()
	if err != nil && len(errs) == 0 {
		errs = append(errs, err)
	}
	if err == nil {
		r.After, r.FailCnt = after.usage, after.failcnt-before.failcnt
	}
	return r, errors.Join(errs...)
}

// RestoreLimit undoes a Shrink whose process died: it sets the v1 limit back to old (Unlimited allowed), but
// only if the limit still is wrote, what that Shrink had written. changed says whether it did.
func (g *Group) RestoreLimit(old, wrote int64) (changed bool, err error) {
	if g.v2 || g.path == "/" || old < Unlimited || wrote < 0 {
		return false, errkind.New(errkind.Invalid, "cgroup: restore limit of %q from %d to %d: needs a v1 cgroup that is not the root and a limit to restore", g.path, wrote, old)
	}
	fd, err := openat(g.dirfd, limitFile, unix.O_RDWR)
	if err != nil {
		return false, g.fail("open", limitFile, err)
	}
	defer unix.Close(fd)
	now, err := readNumber(fd)
	if err != nil {
		return false, g.fail("read", limitFile, err)
	}
	if now != wrote || now == old {
		return false, nil
	}
	if err := restore(fd, old, wrote); err != nil {
		return false, g.fail("restore", limitFile, err)
	}
	return true, nil
}

// restore puts old back if the limit reads wrote, and makes sure by reading it again. A limit that reads old
// needs nothing: the write never took. Anything else is somebody else's.
func restore(fd int, old, wrote int64) error {
	for range 1000 { // each round was ended by a signal; its sender stops when we return
		now, err := readNumber(fd)
		switch {
		case err != nil:
			return err
		case now == old:
			return nil
		case now != wrote:
			return fmt.Errorf("it reads %d: %w", now, ErrForeign)
		}
		if err := writeLimit(fd, old); err != nil && err != unix.EINTR {
			return err
		}
	}
	return fmt.Errorf("the limit still reads %d, not %d", wrote, old)
}

// writeLimit writes once and does not retry. Unlimited is written as the number the kernel prints for it.
// Truncating first changes nothing in a cgroup file system; it is for the folders that stand in for one.
func writeLimit(fd int, n int64) error {
	if n == Unlimited {
		n = counterMax
	}
	if err := unix.Ftruncate(fd, 0); err != nil {
		return err
	}
	_, err := unix.Pwrite(fd, append(strconv.AppendInt(nil, n, 10), '\n'), 0)
	return err
}

type counters struct {
	usage, limit int64
	failcnt      uint64
}

func (g *Group) counters() (c counters, err error) {
	if c.usage, err = g.Usage(); err != nil {
		return c, err
	}
	fd, err := openat(g.dirfd, limitFile, unix.O_RDONLY)
	if err != nil {
		return c, g.fail("open", limitFile, err)
	}
	defer unix.Close(fd)
	if c.limit, err = readNumber(fd); err != nil {
		return c, g.fail("read", limitFile, err)
	}
	failcnt, err := readNumber(g.fds[fileEvents])
	if err != nil {
		return c, g.fail("read", namesV1[fileEvents], err)
	}
	c.failcnt = uint64(failcnt)
	return c, nil
}

func pageUp(n int64) int64 {
	page := int64(os.Getpagesize())
	return (n + page - 1) / page * page
}
