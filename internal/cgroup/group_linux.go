package cgroup

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/proc"
)

// The files a Group holds open, by index into Group.fds; -1 stands for a file the kernel does not have.
const (
	fileStat = iota
	fileUsage
	fileEvents // v1: memory.failcnt
	fileOOM    // v1 only
	fileMax    // v2 only, and all below
	fileMin
	fileLow
	fileSwap
	fileSwapMax
	numFiles
)

var (
	namesV1 = [numFiles]string{fileStat: "memory.stat", fileUsage: "memory.usage_in_bytes", fileEvents: "memory.failcnt",
		fileOOM: "memory.oom_control"}
	namesV2 = [numFiles]string{fileStat: "memory.stat", fileUsage: "memory.current", fileEvents: "memory.events",
		fileMax: "memory.max", fileMin: "memory.min", fileLow: "memory.low",
		fileSwap: "memory.swap.current", fileSwapMax: "memory.swap.max"}
)

// Group is one open cgroup: a directory and up to eight files of it.
type Group struct {
	path, dir  string
	inode      uint64
	v2         bool
	canReclaim bool
	dirfd      int
	fds        [numFiles]int
}

// Open opens the cgroup at path, a clean absolute path below Memory as Entry.Path has it. The caller closes
// the Group. A cgroup that does not exist is ErrGone; one without the memory controller is an error of kind
// Unsupported with the cure as its hint; a path such as "/a/../b" is Invalid.
func (h Hierarchy) Open(path string) (*Group, error) {
	return h.openFiles(path, func(int) bool { return true })
}

// OpenToAct is Open for who only takes memory: Reclaim, ReclaimWith, Accepts, Shrink, Hold, what restores, and Usage
// work, Stat and Refresh fail. It holds three descriptors where Open holds up to nine (v2) or five (v1).
func (h Hierarchy) OpenToAct(path string) (*Group, error) {
	return h.openFiles(path, func(file int) bool {
		return file == fileUsage || file == fileEvents && h.Mode != V2 || file == fileSwap
	})
}

func (h Hierarchy) openFiles(path string, wanted func(file int) bool) (*Group, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	g := &Group{path: path, dir: filepath.Join(h.Memory, path), v2: h.Mode == V2, canReclaim: h.CanReclaim, dirfd: -1}
	for i := range g.fds {
		g.fds[i] = -1
	}
	if err := g.open(h.Memory, wanted); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func checkPath(p string) error {
	if !strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return errkind.New(errkind.Invalid, "cgroup: open %q: not a clean absolute cgroup path", p)
	}
	return nil
}

// open goes down one component at a time: a cgroup path may be longer than the kernel takes in one call, and
// no component may be a link.
func (g *Group) open(memory string, wanted func(file int) bool) error {
	fd, err := openat(unix.AT_FDCWD, memory, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return g.fail("open", "", err)
	}
	g.dirfd = fd
	for name := range strings.SplitSeq(g.path[1:], "/") {
		if name == "" {
			break // the mount itself
		}
		next, err := openat(g.dirfd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			return g.fail("open", "", err)
		}
		unix.Close(g.dirfd)
		g.dirfd = next
	}
	var st unix.Stat_t
	if err := unix.Fstat(g.dirfd, &st); err != nil {
		return g.fail("open", "", err)
	}
	g.inode = st.Ino
	names := g.names()
	for i, name := range names {
		if name == "" || !wanted(i) {
			continue
		}
		fd, err := openat(g.dirfd, name, unix.O_RDONLY)
		if err == unix.ENOENT && (i > fileUsage || g.path == "/") {
			continue
		}
		if err == unix.ENOENT && g.alive() {
			return errkind.Hint(errkind.New(errkind.Unsupported, "cgroup: open %q: it has no %s, the memory controller is not enabled for it", g.path, name),
				"enable it in the parent: echo +memory > cgroup.subtree_control")
		}
		if err != nil {
			return g.fail("open", name, err)
		}
		g.fds[i] = fd
	}
	return nil
}

func (g *Group) names() *[numFiles]string {
	if g.v2 {
		return &namesV2
	}
	return &namesV1
}

// Path is the cgroup's path as given to Open.
func (g *Group) Path() string { return g.path }

// Inode tells this cgroup from a later one at the same path.
func (g *Group) Inode() uint64 { return g.inode }

// Dir is the absolute directory. It names whatever is there now, which after a removal may be a successor.
func (g *Group) Dir() string { return g.dir }

// Close closes all files. No other method may run at the same time or later, except a second Close, which
// does nothing.
func (g *Group) Close() error {
	var errs []error
	for i, fd := range g.fds {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
			g.fds[i] = -1
		}
	}
	if g.dirfd >= 0 {
		errs = append(errs, unix.Close(g.dirfd))
		g.dirfd = -1
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cgroup: close %q: %w", g.path, err)
	}
	return nil
}

// Procs returns the ids of at most max of the cgroup's own processes, not its descendants'. Processes
// outside the reader's pid namespace have no id here and are left out.
func (g *Group) Procs(max int) ([]int, error) {
	const name = "cgroup.procs"
	fd, err := openat(g.dirfd, name, unix.O_RDONLY)
	if err != nil {
		return nil, g.fail("read", name, err)
	}
	defer unix.Close(fd)
	var pids []int
	buf := make([]byte, 4096)
	kept := 0 // bytes of an unfinished line at the start of buf
	for len(pids) < max {
		n, err := unix.Read(fd, buf[kept:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, g.fail("read", name, err)
		}
		if n == 0 {
			break
		}
		b := buf[:kept+n]
		for len(pids) < max {
			line, rest, whole := cutLine(b)
			if !whole {
				break
			}
			b = rest
			pid, ok := proc.Uint(line)
			if !ok || pid > 1<<22 {
				return nil, g.fail("read", name, fmt.Errorf("line %q: %w", line, proc.ErrFormat))
			}
			if pid != 0 {
				pids = append(pids, int(pid))
			}
		}
		if kept = copy(buf, b); kept == len(buf) {
			return nil, g.fail("read", name, proc.ErrFormat)
		}
	}
	return pids, nil
}
