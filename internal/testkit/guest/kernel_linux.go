package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/sys"
)

// Kernel names the Debian metapackage whose kernel a guest boots.
type Kernel string

const (
	Debian61  Kernel = "linux-image-amd64"      // 6.1 generic: zswap, cgroup v2 memory.reclaim, MGLRU built but off
	Debian612 Kernel = "linux-image-6.12-amd64" // 6.12 generic: MGLRU on, swappiness= in memory.reclaim, DAMON, ublk
)

// fetchLimit bounds one run of apt-get or dpkg-deb: a mirror that hangs must not hang the tests.
const fetchLimit = 4 * time.Minute

// image is what a guest boots.
type image struct {
	vmlinuz string
	modules string // directory with the .ko and .ko.xz files somewhere below
	busybox string // "" for none
}

// cacheDir is where kernels and locks live: $XDG_CACHE_HOME/spillway/guest.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("guest: find cache directory: %w", err)
	}
	dir = filepath.Join(dir, "spillway", "guest")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("guest: make cache directory: %w", err)
	}
	return dir, nil
}

// lock waits for the exclusive lock called name in dir. A process that dies drops it.
func lock(dir, name string) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("guest: open lock: %w", err)
	}
	if err := sys.Flock(f, true); err != nil {
		f.Close()
		return nil, fmt.Errorf("guest: lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}

// busyboxPackage gives guests a shell and the usual small programs, which tests start as their children.
const busyboxPackage = "busybox-static"

// fetch returns the kernel from the cache or has it fetched. The cached one stays in use until its folder is
// removed: a test should not change its kernel by itself.
func fetch(ctx context.Context, dir string, k Kernel) (image, error) {
	home, err := unpacked(ctx, dir, string(k), func(ctx context.Context) (string, error) { return dependency(ctx, k) })
	if err != nil {
		return image{}, err
	}
	return open(home)
}

// fetchBusybox returns the path of a static busybox.
func fetchBusybox(ctx context.Context, dir string) (string, error) {
	home, err := unpacked(ctx, dir, busyboxPackage, func(context.Context) (string, error) { return busyboxPackage, nil })
	return filepath.Join(home, "bin", "busybox"), err
}

// unpacked returns the folder dir/name with the contents of a Debian package. If it is not there, apt-get downloads
// the package that resolve names, of the sources this machine is set up with. Nothing is installed.
func unpacked(ctx context.Context, dir, name string, resolve func(context.Context) (string, error)) (string, error) {
	release, err := lock(dir, "fetch.lock")
	if err != nil {
		return "", err
	}
	defer release()
	home := filepath.Join(dir, name)
	if _, err := os.Stat(home); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return home, err
	}
	work, err := os.MkdirTemp(dir, "fetch-*")
	if err != nil {
		return "", fmt.Errorf("guest: fetch %s: %w", name, err)
	}
	defer os.RemoveAll(work)
	deb, err := download(ctx, work, resolve)
	if err != nil && os.Geteuid() == 0 {
		// A machine whose package lists are missing or old: only root may fetch them.
		if _, updateErr := command(ctx, work, "apt-get", "-q", "update"); updateErr != nil {
			return "", errors.Join(err, updateErr)
		}
		deb, err = download(ctx, work, resolve)
	}
	if err != nil {
		return "", err
	}
	root := filepath.Join(work, "root")
	if _, err := command(ctx, work, "dpkg-deb", "-x", deb, root); err != nil {
		return "", err
	}
	if err := os.Rename(root, home); err != nil {
		return "", fmt.Errorf("guest: keep %s: %w", name, err)
	}
	return home, nil
}

// download leaves the package that resolve names in work.
func download(ctx context.Context, work string, resolve func(context.Context) (string, error)) (deb string, err error) {
	pkg, err := resolve(ctx)
	if err != nil {
		return "", err
	}
	// APT::Sandbox::User: apt's own user may not enter a private cache directory.
	if _, err := command(ctx, work, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", pkg); err != nil {
		return "", err
	}
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(debs) != 1 {
		return "", fmt.Errorf("guest: fetch %s: apt-get left %d packages (%v)", pkg, len(debs), err)
	}
	return debs[0], nil
}

// open finds the parts of an unpacked kernel package. errors.Is fs.ErrNotExist when dir is none.
func open(dir string) (image, error) {
	kernels, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil {
		return image{}, fmt.Errorf("guest: open kernel: %w", err)
	}
	if len(kernels) != 1 {
		return image{}, fmt.Errorf("guest: open kernel in %s: %d found: %w", dir, len(kernels), fs.ErrNotExist)
	}
	release := strings.TrimPrefix(filepath.Base(kernels[0]), "vmlinuz-")
	for _, lib := range []string{"lib", "usr/lib"} {
		mods := filepath.Join(dir, lib, "modules", release)
		if info, err := os.Stat(mods); err == nil && info.IsDir() {
			return image{vmlinuz: kernels[0], modules: mods}, nil
		}
	}
	return image{}, fmt.Errorf("guest: open modules of kernel %s in %s: %w", release, dir, fs.ErrNotExist)
}

var kernelPackage = regexp.MustCompile(`^linux-image-[0-9][0-9a-z.+~-]*-amd64$`)

// dependency asks apt which package holds the kernel that k stands for.
func dependency(ctx context.Context, k Kernel) (string, error) {
	out, err := command(ctx, "", "apt-cache", "show", "--no-all-versions", string(k))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		list, ok := strings.CutPrefix(line, "Depends: ")
		if !ok {
			continue
		}
		deps := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
		if i := slices.IndexFunc(deps, kernelPackage.MatchString); i >= 0 {
			return deps[i], nil
		}
	}
	return "", fmt.Errorf("guest: find kernel of %s: apt names no package it depends on", k)
}

// command runs a program in dir and returns its output; the error carries the last line it said.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		said := strings.TrimSpace(errs.String())
		if i := strings.LastIndexByte(said, '\n'); i >= 0 {
			said = said[i+1:]
		}
		return "", fmt.Errorf("guest: run %s %s: %w: %s", name, strings.Join(args, " "), err, said)
	}
	return out.String(), nil
}
