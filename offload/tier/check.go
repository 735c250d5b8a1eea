package tier

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/worker"
)

// checkZswap says whether this machine can do what setup asks of zswap.
func checkZswap(setup Setup, m machine) error {
	touches := setup.Zswap == On || setup.Compressor != "" || setup.MaxPoolPercent != 0
	enabled := setup.Zswap == On || setup.Zswap != Off && m.zswap.Enabled
	switch {
	case touches && m.zswapWhy != "":
		return &probe.Missing{Feature: "zswap", Since: "3.11",
			Do: "boot a kernel with CONFIG_ZSWAP, or use tiers.zram, and remove zswap, compressor and max_pool_percent"}
	case setup.Zswap == On && len(m.areas) == 0 && setup.SwapFile == nil:
		return errkind.New(errkind.Invalid, "tiers.zswap: on: zswap holds pages of a swap area, and there is none; add tiers.swap_file")
	case enabled && m.zswapWhy == "" && setup.Zram != nil:
		return errkind.New(errkind.Invalid, "tiers.zram: zswap is enabled, so every page would be compressed twice; add tiers.zswap: off, or use swap_file instead of zram")
	}
	return nil
}

func (s *Set) zramPart(z Zram, m machine) (part, error) {
	if !m.zramReady {
		return part{}, fmt.Errorf("tier: create zram: %w", &probe.Missing{Feature: "zram", Since: "3.14",
			Do: "load the module (modprobe zram), or remove tiers.zram"})
	}
	if most := bytesize.Size(m.mem.Total * zramMemoryTimes); z.Size > most {
		return part{}, errkind.New(errkind.Invalid, "tiers.zram.size: %v is more than %d times the memory (%v); zram lives in memory and rarely compresses better than 3:1, so write at most %v",
			z.Size, zramMemoryTimes, bytesize.Size(m.mem.Total), most)
	}
	if known := s.zramAlgorithms(); z.Algorithm != "" && known != nil && !slices.Contains(known, z.Algorithm) {
		return part{}, errkind.New(errkind.Invalid, "tiers.zram.algorithm: this kernel does not have %q; it has %s", z.Algorithm, strings.Join(known, ", "))
	}
	priority := z.priority()
	for _, a := range m.areas {
		if z.Priority == nil && a.kind != KindZram {
			priority = min(max(priority, a.Priority+1), maxPriority)
		}
	}
	return part{key: "zram", what: fmt.Sprintf("create a zram swap device of %v with priority %d", z.Size, priority),
		hint:   "remove tiers.zram, or run as root on a kernel with CONFIG_ZRAM",
		change: worker.Change{Zram: &worker.Zram{Size: int64(z.Size), Algorithm: z.Algorithm, Priority: priority}}}, nil
}

// zramAlgorithms lists what an existing device offers; nil when there is none to ask.
func (s *Set) zramAlgorithms() []string {
	files, err := filepath.Glob(filepath.Join(s.root, "sys/block/zram*/comp_algorithm"))
	if err != nil || len(files) == 0 {
		return nil
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return nil
	}
	return strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(string(text)))
}

// swapFilePart returns a part without a change when the file is a swap area already and not ours: it is used as
// it is.
func (s *Set) swapFilePart(f SwapFile, m machine, own []made) (part, error) {
	priority := kernelPriority
	if f.Priority != nil {
		priority = *f.Priority
	}
	p := part{key: "swap_file", what: fmt.Sprintf("create swap file %q of %v", f.Path, f.Size),
		hint:   "free space on the disk, or write a smaller tiers.swap_file.size or another path",
		change: worker.Change{SwapFile: &worker.SwapFile{Path: f.Path, Size: int64(f.Size), Priority: priority}}}
	if slices.ContainsFunc(own, func(m made) bool { return m.same(p) }) {
		return p, nil // already there and ours: its size must not be counted against the disk again
	}
	replaced := slices.ContainsFunc(own, func(m made) bool { return m.tier == "swap:"+f.Path })
	if !replaced && slices.ContainsFunc(m.areas, func(a area) bool { return a.Path == f.Path }) {
		s.log.Info("swap file is in use already, used as it is", "path", f.Path)
		return part{}, nil
	}
	return p, s.checkDisk(f, replaced)
}

// checkDisk says early what would otherwise fail half-way; whether the filesystem can hold swap is MakeFile's to say.
func (s *Set) checkDisk(f SwapFile, replaced bool) error {
	bad := func(format string, a ...any) error {
		return errkind.New(errkind.Invalid, "tiers.swap_file."+format, a...)
	}
	dir := filepath.Dir(f.Path)
	inRoot := filepath.Join(s.root, dir)
	real, err := realPath(s.root, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return bad("path: the folder %q does not exist; create it (mkdir -p) or write another path", dir)
	case err != nil:
		return fmt.Errorf("tier: look at %q: %w", dir, err)
	case real != dir:
		// /proc/swaps shows the real path, by which the area must be found again.
		return bad("path: %q goes through a symbolic link; write %q", f.Path, filepath.Join(real, filepath.Base(f.Path)))
	}
	if _, err := os.Lstat(filepath.Join(s.root, f.Path)); err == nil && !replaced {
		return bad("path: %q exists and is not in use as swap; Spillway never overwrites a file: remove it, or write another path", f.Path)
	}
	n, err := sys.DiskFree(inRoot)
	if err != nil {
		return fmt.Errorf("tier: ask for free space at %q: %w", dir, err)
	}
	free := bytesize.Size(n)
	most := free * diskShare / 100
	most -= most % bytesize.MiB
	switch {
	case f.Size > free:
		return bad("size: %v is more than the disk of %q has free (%v); check the unit, and write at most %v", f.Size, dir, free, most)
	case f.Size > most:
		return bad("size: %v is more than %d %% of the %v free on the disk of %q; write at most %v", f.Size, diskShare, free, dir, most)
	}
	return nil
}

// realPath resolves the links in path, which lies below root, and returns it as seen from root.
func realPath(root, path string) (string, error) {
	base, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(root, path))
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(base, real)
	return filepath.Join("/", rel), err
}

func readKnob(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}
