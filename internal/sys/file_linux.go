package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/errkind"
)

// ErrLocked says that another open file description holds the lock.
var ErrLocked = errors.New("locked by another")

// Flock takes the exclusive advisory lock on f. With block it waits, without it a held lock is ErrLocked.
// The lock goes with the last descriptor of f's open file description, so a crash frees it.
func Flock(f *os.File, block bool) error {
	how := unix.LOCK_EX
	if !block {
		how |= unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch err {
		case nil:
			return nil
		case unix.EINTR:
			continue
		case unix.EWOULDBLOCK:
			return fmt.Errorf("sys: lock %q: %w", f.Name(), ErrLocked)
		}
		return fmt.Errorf("sys: lock %q: %w", f.Name(), err)
	}
}

// ErrNotRegular says that something else than a regular file is where one is expected.
var ErrNotRegular = errors.New("not a regular file")

// OpenNoFollow opens a file of the kernel's (proc, sys, cgroups) and refuses a symbolic link as its last component
// (ELOOP). For a file on a disk use OpenRegular. The descriptor is close-on-exec. Flags and mode are those of
// os.OpenFile.
func OpenNoFollow(path string, flags int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW, mode)
	if err != nil {
		return nil, fmt.Errorf("sys: %w", err)
	}
	return f, nil
}

// OpenRegular is OpenNoFollow for a file on a disk, which others could have replaced: it also refuses everything that
// is not a regular file, since opening or reading a named pipe waits for as long as its other end pleases. The error is
// then ErrNotRegular, of kind Denied, and says what is there. It is not for the kernel's files, some of which do less
// when opened without waiting (memory.max and memory.high since Linux 6.16).
func OpenRegular(path string, flags int, mode fs.FileMode) (*os.File, error) {
	return openRegular(path, flags|unix.O_NOFOLLOW, mode)
}

// OpenRegularLinked is OpenRegular for a file that may be reached through a link, such as a configuration that a
// deployment tool links into place.
func OpenRegularLinked(path string, flags int, mode fs.FileMode) (*os.File, error) {
	return openRegular(path, flags, mode)
}

func openRegular(path string, flags int, mode fs.FileMode) (*os.File, error) {
	// Without O_NONBLOCK the open itself waits for a pipe's other end. O_NOCTTY: a terminal must not become ours.
	f, err := os.OpenFile(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY, mode)
	switch {
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR): // a pipe that nobody reads, a socket, a device without a driver
		if info, serr := os.Stat(path); serr == nil && !info.Mode().IsRegular() {
			return nil, notRegular(path, info.Mode())
		}
	case errors.Is(err, unix.ELOOP):
		if info, serr := os.Lstat(path); serr == nil && info.Mode()&fs.ModeSymlink != 0 && flags&unix.O_NOFOLLOW != 0 {
			return nil, fmt.Errorf("%w (%w)", notRegular(path, info.Mode()), unix.ELOOP)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("sys: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path, info.Mode())
	} else if err != nil {
		err = fmt.Errorf("sys: %w", err)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func notRegular(path string, mode fs.FileMode) error {
	what := "a special file"
	switch {
	case mode.IsDir():
		what = "a directory"
	case mode&fs.ModeSymlink != 0:
		what = "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		what = "a named pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return errkind.Hint(errkind.New(errkind.Denied, "sys: open %q: it is %s: %w", path, what, ErrNotRegular),
		"find out who put it there and move it away")
}

// OpenTemp makes a file in dir, mode 0600, that has no name and goes with its last descriptor, whatever ends the
// process. On a file system without such files (Linux before 3.11, some network ones) it has a name for the moment
// between two calls.
func OpenTemp(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, unix.O_TMPFILE|unix.O_EXCL|os.O_RDWR, 0o600)
	if err == nil || !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) {
		return f, wrapSys(err)
	}
	name := filepath.Join(dir, fmt.Sprintf(".spillway-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if f, err = os.OpenFile(name, unix.O_NOFOLLOW|os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
		return nil, wrapSys(err)
	}
	if err := os.Remove(name); err != nil {
		f.Close()
		return nil, wrapSys(err)
	}
	return f, nil
}

func wrapSys(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sys: %w", err)
}

// WriteRaw writes b to fd with one system call. It does not retry after EINTR, which is how a blocked write
// to a cgroup file is called back; the error is the bare errno. fd is a number and not an *os.File because
// os.File retries.
func WriteRaw(fd int, b []byte) (int, error) { return unix.Write(fd, b) }

// Inode is the inode number behind info, 0 when info does not come from a Linux file system.
func Inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

// Owner is the user and group id of the file behind info. ok is false when info does not know them.
func Owner(info fs.FileInfo) (uid, gid uint32, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return st.Uid, st.Gid, true
}

// DiskFree is the number of bytes an unprivileged process can still write to the file system that holds path.
func DiskFree(path string) (int64, error) {
	var st unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Statfs(path, &st) }); err != nil {
		return 0, fmt.Errorf("sys: statfs %q: %w", path, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// Umask sets the process's file mode creation mask and returns the old one. It is process-wide: use it only
// around a call that takes no mode of its own, such as binding a unix socket.
func Umask(mask int) int { return unix.Umask(mask) }

// BootID is the kernel's random id of this boot, below root ("/" in production). Journal entries carry it:
// what another boot changed in /sys is gone by itself.
func BootID(root string) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, "proc/sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("sys: read boot id: %w", err)
	}
	id := strings.TrimSpace(string(b))
	if id == "" {
		return "", errors.New("sys: read boot id: the file is empty")
	}
	return id, nil
}

// MonotonicNow is CLOCK_MONOTONIC: comparable between processes of one boot, unlike Go's own reading of it.
func MonotonicNow() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("sys: CLOCK_MONOTONIC is always there: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// Uname is one line naming system, release and machine, for example "Linux 6.1.0-30-amd64 x86_64".
func Uname() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "Linux (uname: " + err.Error() + ")"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}
