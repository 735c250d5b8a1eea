package swap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spillway-io/spillway/internal/probe"
)

// Zswap is what <root>/sys/module/zswap/parameters says. To change a parameter, give Knob's path to the worker.
type Zswap struct {
	Dir string // directory of the parameters

	Enabled            bool
	Compressor         string
	Zpool              string // "" since Linux 6.18, where zsmalloc is the only one
	MaxPoolPercent     int    // of the host's memory, 1 to 100
	AcceptThreshold    int    // percent of the pool limit below which a full pool takes pages again
	Shrinker           bool   // writes cold entries to the swap device under memory pressure
	HasShrinker        bool   // the kernel has the parameter (6.8)
	HasAcceptThreshold bool   // the kernel has the parameter (5.6)
}

// ReadZswap reads the parameters. A kernel without zswap gives *probe.Missing.
func ReadZswap(root string) (Zswap, error) {
	z := Zswap{Dir: filepath.Join(root, "sys/module/zswap/parameters")}
	if _, err := os.Stat(z.Dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return z, &probe.Missing{Feature: "zswap", Since: "3.11", Do: "boot a kernel built with CONFIG_ZSWAP, or use zram"}
		}
		return z, fmt.Errorf("swap: read zswap: %w", err)
	}
	text := func(name string) (string, bool, error) {
		b, err := os.ReadFile(z.Knob(name))
		if errors.Is(err, fs.ErrNotExist) {
			return "", false, nil
		}
		if err != nil {
			return "", false, fmt.Errorf("swap: read zswap: %w", err)
		}
		return strings.TrimSpace(string(b)), true, nil
	}
	var errs []error
	str := func(name string, dst *string) bool {
		s, ok, err := text(name)
		errs = append(errs, err)
		*dst = s
		return ok && err == nil
	}
	flag := func(name string, dst *bool) bool {
		var s string
		if !str(name, &s) {
			return false
		}
		if s != "Y" && s != "N" {
			errs = append(errs, fmt.Errorf("swap: read zswap: %s holds %q, not Y or N", name, s))
		}
		*dst = s == "Y"
		return true
	}
	num := func(name string, dst *int) bool {
		var s string
		if !str(name, &s) {
			return false
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("swap: read zswap: %s: %w", name, err))
		}
		*dst = n
		return true
	}
	flag("enabled", &z.Enabled)
	str("compressor", &z.Compressor)
	str("zpool", &z.Zpool)
	num("max_pool_percent", &z.MaxPoolPercent)
	z.HasAcceptThreshold = num("accept_threshold_percent", &z.AcceptThreshold)
	z.HasShrinker = flag("shrinker_enabled", &z.Shrinker)
	return z, errors.Join(errs...)
}

// Knob returns the path of the parameter name.
func (z Zswap) Knob(name string) string { return filepath.Join(z.Dir, name) }
