package swap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
)

// ZramDevice is the path of zram device dev below root.
func ZramDevice(root string, dev int) string {
	return filepath.Join(root, "dev", "zram"+strconv.Itoa(dev))
}

func zramFile(root string, dev int, name string) string {
	return filepath.Join(root, "sys/block", "zram"+strconv.Itoa(dev), name)
}

// ZramAdd makes a new zram device and returns its number; ZramRemove is its undoing. A kernel without the
// control file gives *probe.Missing: ZramUnused may still find a device made at boot.
func ZramAdd(root string) (dev int, err error) {
	b, err := os.ReadFile(filepath.Join(root, "sys/class/zram-control/hot_add"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, &probe.Missing{Feature: "zram device creation", Since: "4.2", Do: "load the zram module: modprobe zram"}
	}
	if err != nil {
		return 0, fmt.Errorf("swap: add zram: %w", err)
	}
	dev, err = strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || dev < 0 {
		return 0, fmt.Errorf("swap: add zram: kernel answered %q", b)
	}
	return dev, nil
}

// ZramRemove deletes zram device dev, which must not be in use.
func ZramRemove(root string, dev int) error {
	if err := writeFile(filepath.Join(root, "sys/class/zram-control/hot_remove"), strconv.Itoa(dev)); err != nil {
		return fmt.Errorf("swap: remove zram%d: %w", dev, err)
	}
	return nil
}

// ZramUnused finds a zram device with disksize 0. Any other belongs to somebody.
func ZramUnused(root string) (dev int, ok bool, err error) {
	list, err := os.ReadDir(filepath.Join(root, "sys/block"))
	if err != nil {
		return 0, false, fmt.Errorf("swap: look for zram: %w", err)
	}
	for _, e := range list {
		n, found := strings.CutPrefix(e.Name(), "zram")
		if !found {
			continue
		}
		dev, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if size, err := ZramSize(root, dev); err == nil && size == 0 {
			return dev, true, nil
		}
	}
	return 0, false, nil
}

// ZramSize returns the disksize of device dev in bytes; 0 means that it is not set up.
func ZramSize(root string, dev int) (int64, error) {
	b, err := os.ReadFile(zramFile(root, dev, "disksize"))
	if err != nil {
		return 0, fmt.Errorf("swap: read zram%d: %w", dev, err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("swap: read zram%d: %w", dev, err)
	}
	return n, nil
}

// ZramSetup gives device dev its compression algorithm ("" keeps the kernel's) and size in bytes before
// compression. It refuses (Unavailable) a device that is set up already and (Invalid) an algorithm the kernel
// does not offer.
func ZramSetup(root string, dev int, size int64, algo string) error {
	if size < MinSize {
		return errkind.New(errkind.Invalid, "swap: set up zram%d: size %d below %d", dev, size, MinSize)
	}
	now, err := ZramSize(root, dev)
	if err != nil {
		return err
	}
	if now != 0 {
		return errkind.New(errkind.Unavailable, "swap: set up zram%d: in use by somebody, %d bytes", dev, now)
	}
	if algo != "" {
		offered, err := os.ReadFile(zramFile(root, dev, "comp_algorithm"))
		if err != nil {
			return fmt.Errorf("swap: set up zram%d: %w", dev, err)
		}
		if !offers(string(offered), algo) {
			return errkind.New(errkind.Invalid, "swap: set up zram%d: algorithm %q is not among %q", dev, algo, strings.TrimSpace(string(offered)))
		}
		if err := writeFile(zramFile(root, dev, "comp_algorithm"), algo); err != nil {
			return fmt.Errorf("swap: set up zram%d: %w", dev, err)
		}
	}
	if err := writeFile(zramFile(root, dev, "disksize"), strconv.FormatInt(size, 10)); err != nil {
		return fmt.Errorf("swap: set up zram%d: %w", dev, err)
	}
	return nil
}

func offers(list, algo string) bool {
	for _, a := range strings.Fields(list) {
		if strings.Trim(a, "[]") == algo {
			return true
		}
	}
	return false
}

// ZramReset frees everything device dev holds. It must be switched off as swap first.
func ZramReset(root string, dev int) error {
	if err := writeFile(zramFile(root, dev, "reset"), "1"); err != nil {
		return fmt.Errorf("swap: reset zram%d: %w", dev, err)
	}
	return nil
}

// ZramStat returns what device dev holds, in bytes: before compression, after it, and the memory it takes
// with the allocator's waste.
func ZramStat(root string, dev int) (orig, compr, memUsed int64, err error) {
	b, err := os.ReadFile(zramFile(root, dev, "mm_stat"))
	if err != nil {
		return 0, 0, 0, fmt.Errorf("swap: read zram%d: %w", dev, err)
	}
	fields := strings.Fields(string(b))
	if len(fields) < 3 {
		return 0, 0, 0, fmt.Errorf("swap: read zram%d: mm_stat holds %q", dev, b)
	}
	for i, dst := range []*int64{&orig, &compr, &memUsed} {
		if *dst, err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return 0, 0, 0, fmt.Errorf("swap: read zram%d: mm_stat: %w", dev, err)
		}
	}
	return orig, compr, memUsed, nil
}

// writeFile writes value in one write and never makes the file.
func writeFile(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
