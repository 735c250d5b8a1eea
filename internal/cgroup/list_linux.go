package cgroup

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// maxDepth bounds how deep List goes. Whoever may make cgroups may nest them without end, and each level
// holds a descriptor; a cgroup at this depth is still listed, its children are not.
const maxDepth = 128

// List returns every cgroup below Memory, the mount itself included as "/", sorted by path. Cgroups that
// vanish while it walks are left out. Names are as the kernel has them, so any byte but NUL and '/'.
func (h Hierarchy) List() ([]Entry, error) {
	fd, err := openat(unix.AT_FDCWD, h.Memory, unix.O_DIRECTORY|unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("cgroup: list %q: %w", h.Memory, gone(err))
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("cgroup: list %q: %w", h.Memory, gone(err))
	}
	w := walker{buf: make([]byte, 32<<10), links: linksCountChildren(fd)}
	leaf, err := w.children(fd, "", 0)
	if err != nil {
		return nil, fmt.Errorf("cgroup: list %q: %w", h.Memory, err)
	}
	w.found = append(w.found, Entry{Path: "/", Inode: st.Ino, Leaf: leaf})
	slices.SortFunc(w.found, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return w.found, nil
}

// linksCountChildren says whether a directory's link count is two plus its subdirectories. On cgroup file
// systems it is, which saves opening the leaves: most cgroups are leaves.
func linksCountChildren(fd int) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil {
		return false
	}
	return isCgroup(&fs)
}

func isCgroup(fs *unix.Statfs_t) bool {
	return fs.Type == unix.CGROUP_SUPER_MAGIC || fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// OnFileSystem says whether path lies on a cgroup file system, so that a directory there is a cgroup.
func OnFileSystem(path string) (bool, error) {
	for {
		var fs unix.Statfs_t
		err := unix.Statfs(path, &fs)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("cgroup: statfs %q: %w", path, err)
		}
		return isCgroup(&fs), nil
	}
}

type walker struct {
	buf   []byte // for getdents; its contents do not survive a call to children
	links bool
	found []Entry
}

// children lists the directory fd, whose path is prefix ("" for the mount), and everything below it.
func (w *walker) children(fd int, prefix string, depth int) (leaf bool, err error) {
	names, err := w.directories(fd)
	if err != nil {
		return false, err
	}
	leaf = true
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue // vanished, or no cgroup
		}
		leaf = false
		entry := Entry{Path: prefix + "/" + name, Inode: st.Ino, Leaf: w.links && st.Nlink == 2}
		if !entry.Leaf && depth < maxDepth {
			child, err := openat(fd, name, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_NOFOLLOW)
			if isGone(err) {
				continue
			}
			if err != nil {
				return false, fmt.Errorf("%q: %w", entry.Path, err)
			}
			entry.Leaf, err = w.children(child, entry.Path, depth+1)
			unix.Close(child)
			if isGone(err) {
				continue
			}
			if err != nil {
				return false, err
			}
		}
		w.found = append(w.found, entry)
	}
	return leaf, nil
}

// directories reads the names of fd's subdirectories. Records of getdents64 are parsed here because the
// packaged parsers drop the file type, without which each of a cgroup's thirty files would cost a stat.
func (w *walker) directories(fd int) (names []string, err error) {
	for {
		n, err := unix.Getdents(fd, w.buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		case n == 0:
			return names, nil
		}
		for b := w.buf[:n]; len(b) >= direntName; {
			size := int(binary.NativeEndian.Uint16(b[direntSize:]))
			if size < direntName || size > len(b) {
				return nil, fmt.Errorf("directory record of %d bytes in %d", size, len(b))
			}
			record := b[direntName:size]
			if end := bytes.IndexByte(record, 0); end >= 0 {
				record = record[:end]
			}
			kind := b[direntType]
			if (kind == unix.DT_DIR || kind == unix.DT_UNKNOWN) && string(record) != "." && string(record) != ".." {
				names = append(names, string(record))
			}
			b = b[size:]
		}
	}
}

// Offsets in struct linux_dirent64: inode 0, offset 8, then these.
const (
	direntSize = 16
	direntType = 18
	direntName = 19
)
