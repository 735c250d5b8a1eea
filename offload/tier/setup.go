package tier

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/errkind"
)

// Mode says what to do with zswap.
type Mode string

const (
	Auto Mode = "auto" // use zswap as it was found; also the meaning of ""
	On   Mode = "on"   // switch it on when it is off, and off again afterwards
	Off  Mode = "off"  // switch it off when it is on, and on again afterwards
)

// Setup is the `tiers:` part of the configuration: which places for evicted pages to make or change.
// The zero value makes nothing and uses what is there.
type Setup struct {
	Zswap Mode `yaml:"zswap"`
	// Compressor of zswap, a name the kernel knows ("lzo", "lz4", "zstd"); "" keeps the present one.
	Compressor string `yaml:"compressor"`
	// MaxPoolPercent is the share of memory that zswap's pool may take, 1 to 100; 0 keeps the present one.
	MaxPoolPercent int `yaml:"max_pool_percent"`
	// SwapFile is a swap file to create, and to delete at the end; nil creates none.
	SwapFile *SwapFile `yaml:"swap_file"`
	// Zram is a compressed disk in memory to create as swap, and to remove at the end; nil creates none.
	Zram *Zram `yaml:"zram"`
	// PageCluster is the logarithm of how many pages one swap fault reads, 0 to 6; nil keeps it. A compressed
	// tier has no seek to save, so 0 avoids decompressing eight pages for one (the kernel's default is 3).
	PageCluster *int `yaml:"page_cluster"`
	// WriteBack says whether what is long cold in zswap's pool may move to the disk behind it: auto does so on cgroup
	// v2 with Linux 6.8, a disk, a write budget, and most of the pool held by managed cgroups; on does so whoever's
	// pages they are; off leaves it to the kernel. "" is off: the shrinker works on the whole machine's pages, also
	// on those of cgroups that nobody gave to Spillway, and is not switched on unasked.
	WriteBack Mode `yaml:"write_back"`
}

// SwapFile describes a swap file to create. Nothing may exist at Path.
type SwapFile struct {
	Path     string        `yaml:"path"`     // absolute, on a disk that is not tmpfs or overlay
	Size     bytesize.Size `yaml:"size"`     // at least 1 MiB
	Priority *int          `yaml:"priority"` // 0 to 32767, higher is filled first; nil lets the kernel choose (below 0)
}

// Zram describes a zram device to create.
type Zram struct {
	Size      bytesize.Size `yaml:"size"`      // bytes before compression, at least 1 MiB, at most twice the memory
	Algorithm string        `yaml:"algorithm"` // "" keeps the kernel's
	Priority  *int          `yaml:"priority"`  // 0 to 32767; nil means 100, or one more than the highest disk's, so that it fills before disks
}

const (
	minArea         = bytesize.MiB // smaller areas cannot hold one reclaim batch per CPU
	maxPriority     = 32767        // SWAP_FLAG_PRIO_MASK
	zramPriority    = 100
	kernelPriority  = -1
	maxPageCluster  = 6
	maxNameLen      = 64 // CRYPTO_MAX_ALG_NAME is 128; real names are far shorter
	diskShare       = 80 // percent of a disk's free space a swap file may take
	zramMemoryTimes = 2
)

// Validate says whether the values make sense by themselves, without looking at the machine. Every problem
// is reported, each with what to write instead; the error's kind is Invalid.
func (s Setup) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf("tiers."+format, a...)) }

	checkMode(bad, "zswap", s.Zswap)
	checkMode(bad, "write_back", s.WriteBack)
	if s.Compressor != "" && !plainName(s.Compressor) {
		bad("compressor: %q is not the name of a compressor; write one like lzo, lz4 or zstd", s.Compressor)
	}
	if p := s.MaxPoolPercent; p < 0 || p > 100 {
		bad("max_pool_percent: %d is outside 1 to 100; leave it out to keep the present one", p)
	}
	if s.Zswap == Off && (s.Compressor != "" || s.MaxPoolPercent != 0) {
		bad("zswap: off makes compressor and max_pool_percent useless; remove them or write zswap: on")
	}
	if f := s.SwapFile; f != nil {
		f.validate(bad)
	}
	if z := s.Zram; z != nil {
		checkSize(bad, "zram.size", z.Size)
		checkPriority(bad, "zram.priority", z.Priority)
		if z.Algorithm != "" && !plainName(z.Algorithm) {
			bad("zram.algorithm: %q is not the name of a compressor; write one like lzo-rle, lz4 or zstd", z.Algorithm)
		}
		if s.Zswap == On {
			bad("zram: with zswap: on every page would be compressed twice; use zram with zswap: off, or zswap with a swap_file")
		}
	}
	if s.Zswap == Off && s.WriteBack == On {
		bad("write_back: on moves pages of zswap's pool, and zswap: off leaves none; remove one of the two")
	}
	if z, f := s.Zram, s.SwapFile; z != nil && f != nil && f.Priority != nil && *f.Priority >= z.priority() {
		bad("swap_file.priority: %d is not below zram's %d, so the disk would be filled first; write less, or more in zram.priority", *f.Priority, z.priority())
	}
	if c := s.PageCluster; c != nil && (*c < 0 || *c > maxPageCluster) {
		bad("page_cluster: %d is outside 0 to %d; it is a logarithm, 0 reads one page a fault", *c, maxPageCluster)
	}
	if len(errs) == 0 {
		return nil
	}
	return errkind.Wrap(errkind.Invalid, errors.Join(errs...))
}

func checkMode(bad func(string, ...any), key string, m Mode) {
	switch m {
	case "", Auto, On, Off:
	case "true", "yes", "enabled", "Y", "1":
		bad("%s: %q is not a mode; write on", key, m)
	case "false", "no", "disabled", "N", "0":
		bad("%s: %q is not a mode; write off", key, m)
	default:
		bad("%s: %q is not a mode; write auto, on or off", key, m)
	}
}

// priority is what the device gets without areas of others.
func (z Zram) priority() int {
	if z.Priority != nil {
		return *z.Priority
	}
	return zramPriority
}

func (f SwapFile) validate(bad func(string, ...any)) {
	switch clean := filepath.Clean(f.Path); {
	case f.Path == "":
		bad("swap_file.path: missing; write an absolute path such as /var/lib/spillway/swap")
	case strings.ContainsFunc(f.Path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		bad("swap_file.path: %q contains a control character", f.Path)
	case !filepath.IsAbs(f.Path):
		bad("swap_file.path: %q is relative; write an absolute path such as /var/lib/spillway/swap", f.Path)
	case clean != f.Path:
		bad("swap_file.path: %q is not in its shortest form; write %s", f.Path, clean)
	case f.Path == "/" || within(f.Path, "/proc") || within(f.Path, "/sys") || within(f.Path, "/dev") || within(f.Path, "/run"):
		bad("swap_file.path: %s is not on a disk; write a path such as /var/lib/spillway/swap", f.Path)
	}
	checkSize(bad, "swap_file.size", f.Size)
	checkPriority(bad, "swap_file.priority", f.Priority)
}

func checkSize(bad func(string, ...any), key string, size bytesize.Size) {
	switch {
	case size <= 0:
		bad("%s: missing; write one with a unit, such as 2 GiB", key)
	case size < minArea:
		bad("%s: %v is less than %v; check the unit (KiB, MiB, GiB)", key, size, minArea)
	}
}

func checkPriority(bad func(string, ...any), key string, p *int) {
	if p != nil && (*p < 0 || *p > maxPriority) {
		bad("%s: %d is outside 0 to %d; leave it out to let the kernel choose", key, *p, maxPriority)
	}
}

// plainName accepts what compressors are called and nothing that a sysfs file or a log could misread.
func plainName(s string) bool {
	if len(s) > maxNameLen {
		return false
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return false
		}
	}
	return true
}

// within reports whether path is dir or below it. Both are clean.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
