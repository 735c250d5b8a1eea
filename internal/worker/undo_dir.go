package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
)

const (
	killPatience = 2 * time.Second        // how long the processes of a cgroup get to die once killed
	exitPatience = 200 * time.Millisecond // for those that are ending by themselves
)

func (m *machine) undoMkdir(ctx context.Context, e journal.Entry, dry bool, o *Outcome) error {
	inode, info, err := inodeAt(e.Path)
	switch {
	case err != nil:
		return fmt.Errorf("worker: remove cgroup: %w", err)
	case inode == 0:
		o.Result = Nothing
		return nil
	case !info.IsDir() || e.Inode != 0 && inode != e.Inode:
		o.Result = Alone
		return nil
	}
	// The journal could be forged: only what Do could have made is removed, and killed in.
	if !m.inCgroups(e.Path) {
		return errkind.New(errkind.Denied, "worker: remove cgroup %q: not below a cgroup mount", e.Path)
	}
	if err := noLinks(filepath.Dir(e.Path)); err != nil {
		return fmt.Errorf("worker: remove cgroup: %w", err)
	}
	is, err := cgroup.OnFileSystem(e.Path)
	if err != nil {
		return fmt.Errorf("worker: remove cgroup: %w", err)
	}
	if !is {
		return errkind.New(errkind.Denied, "worker: remove cgroup %q: not on a cgroup file system", e.Path)
	}
	o.Result = Removed
	if dry {
		return nil
	}
	// Without the inode on record the making was not completed: nobody was told of the cgroup, so nothing in it
	// is ours to kill.
	kill := e.Kill && e.Inode != 0
	return emptyAndRemove(ctx, e.Path, kill)
}

// emptyAndRemove removes the cgroup at dir, with kill also its descendants and everything that runs there.
func emptyAndRemove(ctx context.Context, dir string, kill bool) error {
	patience := exitPatience
	if kill {
		patience = killPatience
	}
	give, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if kill {
			if err := killAll(dir); err != nil {
				return err
			}
		}
		err := removeCgroup(dir, kill)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, sys.EBUSY) {
			return fmt.Errorf("worker: remove cgroup: %w", err)
		}
		select {
		case <-give.Done():
			return errkind.Hint(errkind.New(errkind.Unavailable, "worker: remove cgroup: still in use after %v: %w", patience, err),
				"end what runs in %q", dir)
		case <-tick.C:
		}
	}
}

func removeCgroup(dir string, children bool) error {
	if children {
		dirs, err := subdirs(dir)
		if err != nil {
			return err
		}
		for _, d := range slices.Backward(dirs) {
			if err := os.Remove(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return os.Remove(dir)
}

// subdirs lists the cgroups below dir, parents first.
func subdirs(dir string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // vanished while we looked
			return nil
		case err != nil:
			return err
		case d.IsDir() && p != dir:
			dirs = append(dirs, p)
		}
		return nil
	})
	return dirs, err
}

// killAll sends SIGKILL to everything in and below dir, by cgroup.kill where the kernel has it (v2, 5.14).
func killAll(dir string) error {
	if f, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0); err == nil {
		_, err = f.WriteString("1")
		return errors.Join(err, f.Close())
	}
	dirs, err := subdirs(dir)
	if err != nil {
		return err
	}
	for _, d := range append(dirs, dir) {
		b, err := os.ReadFile(filepath.Join(d, "cgroup.procs"))
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		for word := range strings.FieldsSeq(string(b)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return fmt.Errorf("cgroup.procs of %q holds %q", d, word)
			}
			if pid == 0 || pid == os.Getpid() || pid == os.Getppid() {
				return errkind.New(errkind.Denied, "worker: kill cgroup %q: process %d in it must live", d, pid)
			}
			if err := sys.Kill(pid, sys.SIGKILL); err != nil && !errors.Is(err, sys.ESRCH) {
				return err
			}
		}
	}
	return nil
}

func (m *machine) undoTempDir(e journal.Entry, dry bool, o *Outcome) error {
	inode, info, err := inodeAt(e.Path)
	switch {
	case err != nil:
		return fmt.Errorf("worker: remove directory: %w", err)
	case inode == 0:
		o.Result = Nothing
		return nil
	case !info.IsDir() || e.Inode != 0 && inode != e.Inode:
		o.Result = Alone
		return nil
	}
	if err := noLinks(filepath.Dir(e.Path)); err != nil {
		return fmt.Errorf("worker: remove directory: %w", err)
	}
	if err := m.nothingMounted(e.Path); err != nil {
		return err
	}
	if m.j != nil {
		for _, other := range m.j.Entries() {
			if other.ID != e.ID && inside(other.Path, e.Path) {
				return errkind.New(errkind.Unavailable, "worker: remove directory %q: %s %q in it is still there", e.Path, other.Kind, other.Path)
			}
		}
	}
	o.Result = Removed
	if dry {
		return nil
	}
	if e.Inode == 0 {
		// Its making was not completed, so nobody was told of it and it is empty, or it is not ours.
		if err := os.Remove(e.Path); err != nil {
			o.Result = Alone
		}
		return nil
	}
	if err := os.RemoveAll(e.Path); err != nil {
		return fmt.Errorf("worker: remove directory: %w", err)
	}
	return nil
}

// noLinks refuses a path one of whose parts is a symbolic link: whoever may change it decides what we touch.
func noLinks(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if real != path {
		return errkind.New(errkind.Invalid, "path %q leads through a symbolic link, to %q", path, real)
	}
	return nil
}

// nothingMounted refuses to delete through a mount point.
func (m *machine) nothingMounted(dir string) error {
	mounts, err := proc.ReadMounts(m.root)
	if err != nil {
		return fmt.Errorf("worker: look for mounts: %w", err)
	}
	for _, mount := range mounts {
		if at := filepath.Join(m.root, mount.Dir); at == dir || inside(at, dir) {
			return errkind.Hint(errkind.New(errkind.Unavailable, "worker: remove directory %q: %q is a mount point", dir, at), "unmount it first")
		}
	}
	return nil
}
