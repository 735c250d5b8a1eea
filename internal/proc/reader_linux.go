package proc

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Reader reads /proc/meminfo and /proc/vmstat through held descriptors into one buffer and allocates nothing.
// Its methods, Close included, must not run at the same time.
type Reader struct {
	meminfo, vmstat int
	buf             []byte
}

// OpenReader opens <root>/proc/meminfo and <root>/proc/vmstat. The caller closes the Reader.
func OpenReader(root string) (*Reader, error) {
	r := &Reader{meminfo: -1, vmstat: -1, buf: make([]byte, 16<<10)}
	var err error
	if r.meminfo, err = open(filepath.Join(root, "proc/meminfo")); err != nil {
		return nil, err
	}
	if r.vmstat, err = open(filepath.Join(root, "proc/vmstat")); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Meminfo reads into m. On an error m says nothing.
func (r *Reader) Meminfo(m *Meminfo) error {
	b, err := r.read(r.meminfo)
	if err != nil {
		return fmt.Errorf("proc: read meminfo: %w", err)
	}
	return ParseMeminfo(b, m)
}

// Vmstat reads into v. On an error v says nothing.
func (r *Reader) Vmstat(v *Vmstat) error {
	b, err := r.read(r.vmstat)
	if err != nil {
		return fmt.Errorf("proc: read vmstat: %w", err)
	}
	return ParseVmstat(b, v)
}

// Close closes both files. A second Close does nothing.
func (r *Reader) Close() error {
	var errs []error
	for _, fd := range []*int{&r.meminfo, &r.vmstat} {
		if *fd >= 0 {
			errs = append(errs, unix.Close(*fd))
			*fd = -1
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("proc: close: %w", err)
	}
	return nil
}

// read fills the buffer until the end of the file. The kernel hands out at most a page a call, so one call
// is not enough. The buffer grows once if a future kernel has more to say.
func (r *Reader) read(fd int) ([]byte, error) {
	n := 0
	for {
		if n == len(r.buf) {
			r.buf = append(r.buf, make([]byte, len(r.buf))...)
		}
		m, err := unix.Pread(fd, r.buf[n:], int64(n))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		case m == 0:
			return r.buf[:n], nil
		}
		n += m
	}
}

func open(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, fmt.Errorf("proc: open %s: %w", path, err)
		}
		return fd, nil
	}
}
