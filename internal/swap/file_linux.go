package swap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/errkind"
)

// Filesystems that can never hold a swap file, by the magic number statfs reports, and why.
var hopeless = map[int64]string{
	unix.TMPFS_MAGIC:           "tmpfs keeps its files in the memory that swap is meant to relieve",
	unix.RAMFS_MAGIC:           "ramfs keeps its files in the memory that swap is meant to relieve",
	unix.OVERLAYFS_SUPER_MAGIC: "overlayfs gives the kernel no disk blocks to swap to",
	unix.SQUASHFS_MAGIC:        "squashfs is read-only",
	unix.PROC_SUPER_MAGIC:      "proc is no disk",
	unix.SYSFS_MAGIC:           "sysfs is no disk",
	unix.NFS_SUPER_MAGIC:       "swapping over NFS can deadlock",
	unix.FUSE_SUPER_MAGIC:      "a FUSE server can itself be swapped out",
	0x2fc12fc1:                 "ZFS gives the kernel no disk blocks to swap to",
}

// noCOW is FS_NOCOW_FL: without it btrfs moves a file's blocks at every write and refuses it as swap.
const noCOW = 0x00800000

// MakeFile makes a swap file of size bytes (rounded down to pages; at least MinSize) at path, mode 0600, really
// allocated, with a swap header; it does not switch it on. On failure nothing is left behind. Kinds: Invalid for
// an existing file, a relative path or a bad size; Unsupported for a filesystem that cannot; Exhausted for a
// full disk, which is refused beforehand when less than a twentieth of the size would remain free.
func MakeFile(path string, size int64) error {
	if !filepath.IsAbs(path) {
		return errkind.New(errkind.Invalid, "swap: make %q: path is not absolute", path)
	}
	page := os.Getpagesize()
	size -= size % int64(page)
	head, err := header(size, page)
	if err != nil {
		return err
	}
	if err := suitable(filepath.Dir(path), size); err != nil {
		return fmt.Errorf("swap: make %q: %w", path, err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	switch {
	case errors.Is(err, unix.EEXIST):
		return errkind.Hint(errkind.New(errkind.Invalid, "swap: make %q: %w", path, fs.ErrExist),
			"choose another path, or remove the file if nothing uses it")
	case err != nil:
		return fmt.Errorf("swap: make %q: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	if err := fill(f, head, size); err != nil {
		f.Close()
		os.Remove(path)
		return fmt.Errorf("swap: make %q: %w", path, diskFull(err))
	}
	if err := f.Close(); err != nil {
		os.Remove(path)
		return fmt.Errorf("swap: make %q: %w", path, diskFull(err))
	}
	return syncDir(filepath.Dir(path))
}

func suitable(dir string, size int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if why, bad := hopeless[int64(st.Type)]; bad {
		return errkind.Hint(errkind.New(errkind.Unsupported, "no swap file here: %s", why),
			"put it on ext4, xfs or btrfs")
	}
	if free := int64(st.Bavail) * st.Bsize; free < size+size/20 {
		return errkind.Hint(errkind.New(errkind.Exhausted, "disk has %d bytes free, %d wanted: %w", free, size+size/20, unix.ENOSPC),
			"free disk space or ask for a smaller swap file")
	}
	return nil
}

// fill allocates every block of f and writes the header last, so that a file that looks like swap is whole.
func fill(f *os.File, head []byte, size int64) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return err
	}
	if int64(st.Type) == unix.BTRFS_SUPER_MAGIC {
		// Works only while the file is empty.
		if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, noCOW); err != nil {
			return errkind.Hint(errkind.New(errkind.Unsupported, "btrfs refuses to switch copy-on-write off: %w", err),
				"make a subvolume without compression for the swap file")
		}
	}
	err := ignoringEINTR(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = writeZeros(f, size)
	}
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(head, 0); err != nil {
		return err
	}
	return f.Sync()
}

func writeZeros(f *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for off := int64(0); off < size; {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-off)], off)
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// Format writes a swap header on the block device at path, whose capacity is size bytes. It refuses anything
// that is not a block device: files are MakeFile's.
func Format(path string, size int64) error {
	page := os.Getpagesize()
	head, err := header(size-size%int64(page), page)
	if err != nil {
		return err
	}
	// O_NONBLOCK: the opening of a pipe would wait for its other end.
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("swap: format %q: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("swap: format %q: %w", path, err)
	}
	if st.Mode().Type() != fs.ModeDevice {
		return errkind.New(errkind.Invalid, "swap: format %q: not a block device", path)
	}
	if _, err := f.WriteAt(head, 0); err != nil {
		return fmt.Errorf("swap: format %q: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("swap: format %q: %w", path, err)
	}
	return nil
}

func diskFull(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return errkind.Hint(errkind.Wrap(errkind.Exhausted, err), "free disk space or ask for a smaller swap file")
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("swap: sync directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("swap: sync directory: %w", err)
	}
	return nil
}

// ignoringEINTR repeats f: the runtime's own preemption signals would otherwise end a long fallocate.
func ignoringEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
