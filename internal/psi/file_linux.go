package psi

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/probe"
)

// File is a held pressure file, for example /proc/pressure/memory or memory.pressure of a cgroup.
type File struct {
	fd   int
	path string
}

// Open opens a pressure file for reading. Errors: ErrOff, ErrCgroupOff, ErrGone, a *probe.Missing on a
// kernel before 4.20, or what the file system says.
func Open(path string) (*File, error) {
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return &File{fd: fd, path: path}, nil
}

// Read returns the totals now. Reads of one File may run at the same time.
func (f *File) Read() (Totals, error) {
	var buf [512]byte // two lines of about 70 bytes
	for {
		n, err := unix.Pread(f.fd, buf[:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Totals{}, explain("read", f.path, err)
		}
		return Parse(buf[:n])
	}
}

// Close closes the file. A second Close does nothing.
func (f *File) Close() error {
	if f.fd < 0 {
		return nil
	}
	err := unix.Close(f.fd)
	f.fd = -1
	if err != nil {
		return fmt.Errorf("psi: close %q: %w", f.path, err)
	}
	return nil
}

func open(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, explain("open", path, err)
		}
		return fd, nil
	}
}

// explain turns an errno into the error that names its cure.
func explain(verb, path string, err error) error {
	cause := err
	switch err {
	case unix.EOPNOTSUPP:
		cause = ErrOff
	case unix.ENODEV:
		cause = ErrGone
	case unix.ENOENT:
		cause = absent(path)
	}
	return fmt.Errorf("psi: %s %q: %w", verb, path, cause)
}

func absent(path string) error {
	dir := filepath.Dir(path)
	inCgroup := strings.HasSuffix(path, ".pressure")
	if _, err := os.Stat(dir); inCgroup && errors.Is(err, os.ErrNotExist) {
		return ErrGone
	}
	if b, err := os.ReadFile(filepath.Join(dir, "cgroup.pressure")); inCgroup && err == nil && string(bytes.TrimSpace(b)) == "0" {
		return ErrCgroupOff
	}
	if beforePSI() {
		return &probe.Missing{Feature: "PSI", Since: "4.20", Do: "use Linux 4.20 or newer"}
	}
	return ErrOff
}

// beforePSI asks the running kernel, because an absent file alone does not tell "too old" from "off".
func beforePSI() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	major, rest, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	ma, err1 := strconv.Atoi(major)
	mi, err2 := strconv.Atoi(minor)
	return err1 == nil && err2 == nil && (ma < 4 || ma == 4 && mi < 20)
}
