package swap

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/errkind"
)

// Bits of swapon's flags argument.
const (
	flagPrefer   = 0x8000
	priorityMask = 0x7fff
)

// MaxPriority is the highest priority a swap area can have.
const MaxPriority = priorityMask

// On switches the swap area at path on. Areas of higher priority fill first; priority < 0 leaves the choice to
// the kernel, which puts the area behind all others; the range is up to MaxPriority.
// Kinds: Unavailable when it is on already, Invalid when it is no swap area, Unsupported when the filesystem
// cannot, Denied without CAP_SYS_ADMIN or with all of the kernel's about 30 slots taken.
func On(path string, priority int) error {
	if priority > MaxPriority {
		return errkind.New(errkind.Invalid, "swap: on %q: priority %d above %d", path, priority, MaxPriority)
	}
	flags := 0
	if priority >= 0 {
		flags = flagPrefer | priority&priorityMask
	}
	err := swapon(path, flags)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EBUSY):
		return errkind.New(errkind.Unavailable, "swap: on %q: in use already: %w", path, err)
	case errors.Is(err, unix.EINVAL):
		return errkind.Hint(errkind.New(errkind.Unsupported, "swap: on %q: the kernel refuses it (no swap header, holes, or a filesystem that cannot): %w", path, err),
			"put the swap file on ext4, xfs or btrfs")
	case errors.Is(err, unix.EPERM):
		return errkind.Hint(errkind.New(errkind.Denied, "swap: on %q: %w", path, err),
			"run as root with CAP_SYS_ADMIN, and see /proc/swaps for too many areas")
	}
	return fmt.Errorf("swap: on %q: %w", path, err)
}

// Off switches the swap area at path off, which reads everything in it back into memory: it can take minutes, and
// needs that much memory free, which the caller checks first. A signal ends it early with EINTR in the error's
// chain and the area still on. Kinds: NotFound when it is not on, Exhausted when memory did not suffice.
func Off(path string) error {
	err := swapoff(path)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		return errkind.New(errkind.NotFound, "swap: off %q: not in use: %w", path, err)
	case errors.Is(err, unix.ENOMEM):
		return errkind.Hint(errkind.New(errkind.Exhausted, "swap: off %q: not enough memory to take its pages back: %w", path, err),
			"free memory and run: spillway restore")
	case errors.Is(err, unix.EPERM):
		return errkind.New(errkind.Denied, "swap: off %q: %w", path, fs.ErrPermission)
	}
	return fmt.Errorf("swap: off %q: %w", path, err)
}

// Interrupted says that a signal ended the call that returned err before its work was done.
func Interrupted(err error) bool { return errors.Is(err, unix.EINTR) }
