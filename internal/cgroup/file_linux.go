package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/proc"
)

func openat(dirfd int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dirfd, name, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// isGone knows the errnos of a removed cgroup: ENODEV from an open file, ENOENT from its directory.
func isGone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, ErrGone)
}

func gone(err error) error {
	if isGone(err) {
		return ErrGone
	}
	return err
}

// alive tells a missing file from a missing cgroup: in a removed directory nothing can be looked up.
func (g *Group) alive() bool {
	var st unix.Stat_t
	return unix.Fstatat(g.dirfd, "cgroup.procs", &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// fail words an error once: package, verb, object, cause. file may be "".
func (g *Group) fail(verb, file string, err error) error {
	object := g.path
	if file != "" {
		object += ": " + file
	}
	switch {
	case isGone(err):
		return fmt.Errorf("cgroup: %s %q: %w", verb, object, ErrGone)
	case errors.Is(err, unix.EROFS):
		return errkind.Hint(errkind.New(errkind.Denied, "cgroup: %s %q: %w", verb, object, err),
			"the cgroup file system is mounted read-only here: remount it (mount -o remount,rw %s) or give the container a writable one", g.mount())
	case errors.Is(err, os.ErrPermission):
		return errkind.Hint(errkind.New(errkind.Denied, "cgroup: %s %q: %w", verb, object, err), "run as root")
	}
	return fmt.Errorf("cgroup: %s %q: %w", verb, object, err)
}

// mount is the directory of the hierarchy, dir without path.
func (g *Group) mount() string {
	if g.path == "/" {
		return g.dir
	}
	return g.dir[:len(g.dir)-len(g.path)]
}

// readFile reads a file that the kernel hands out in one piece into buf. A full buffer is an error: no file
// this package reads comes near its buffer's size, and half a file must not pass for a whole one.
func readFile(fd int, buf []byte) ([]byte, error) {
	for {
		n, err := unix.Pread(fd, buf, 0)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		case n == len(buf):
			return nil, fmt.Errorf("longer than %d bytes: %w", len(buf), proc.ErrFormat)
		}
		return buf[:n], nil
	}
}

// readNumber reads a file that holds one number or "max", which is Unlimited.
func readNumber(fd int) (int64, error) {
	var buf [64]byte
	b, err := readFile(fd, buf[:])
	if err != nil {
		return 0, err
	}
	return parseNumber(b)
}

func parseNumber(b []byte) (int64, error) {
	b = bytes.TrimSuffix(b, newline)
	if string(b) == "max" {
		return Unlimited, nil
	}
	n, ok := proc.Uint(b)
	if !ok || n > math.MaxInt64 {
		return 0, proc.ErrFormat
	}
	if int64(n) >= counterMax {
		return Unlimited, nil
	}
	return int64(n), nil
}

var newline = []byte("\n")

// cutLine cuts a line off b; whole is false when its end is not there yet.
func cutLine(b []byte) (line, rest []byte, whole bool) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:], true
	}
	return b, nil, false
}
