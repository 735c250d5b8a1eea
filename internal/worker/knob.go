package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// maxValue is the longest value of a knob: what one page of a kernel file holds.
const maxValue = 4096

// readKnob returns the value in path without the newline at its end, and the file's inode.
func readKnob(path string) (string, uint64, error) {
	f, err := sys.OpenNoFollow(path, os.O_RDONLY, 0)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxValue+1))
	if err != nil {
		return "", 0, err
	}
	if len(b) > maxValue {
		return "", 0, fmt.Errorf("%q holds more than %d bytes: not one value", path, maxValue)
	}
	return strings.TrimRight(string(b), "\n"), sys.Inode(info), nil
}

// writeKnob writes value with one system call, which a signal can end with EINTR.
func writeKnob(path, value string) error {
	f, err := sys.OpenNoFollow(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if value == "" {
		value = "\n" // a write of nothing never reaches the kernel's handler
	}
	n, err := sys.WriteRaw(int(f.Fd()), []byte(value))
	if err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	if n != len(value) {
		return fmt.Errorf("write %q: %w", path, io.ErrShortWrite)
	}
	return f.Close()
}

// selected returns what to write to get value back: of "lzo [lz4] zstd", lz4.
func selected(value string) string {
	if open := strings.IndexByte(value, '['); open >= 0 {
		if n := strings.IndexByte(value[open:], ']'); n > 0 {
			return value[open+1 : open+n]
		}
	}
	return value
}

// same says whether two texts are one value to the kernel: it reads back Y for 1, a choice in brackets among the
// others, bytes for a size with a suffix, sizes rounded to pages, and a huge number for -1.
func same(a, b string) bool {
	a, b = strings.TrimSpace(selected(a)), strings.TrimSpace(selected(b))
	if a == b {
		return true
	}
	if x, ok := truth(a); ok {
		if y, ok := truth(b); ok {
			return x == y
		}
	}
	x, ok := amount(a)
	if !ok {
		return false
	}
	y, ok := amount(b)
	if !ok || x == y {
		return ok
	}
	// Only sizes are rounded: a swappiness of 60 is not one of 61.
	page := int64(os.Getpagesize())
	return x >= page && y >= page && x/page == y/page && (x%page == 0 || y%page == 0)
}

func truth(s string) (value, ok bool) {
	switch s {
	case "Y", "y", "1":
		return true, true
	case "N", "n", "0":
		return false, true
	}
	return false, false
}

// hugeLimit is where the kernel's page counter ends; a v1 limit at or above it is no limit.
const hugeLimit = 1<<63 - 1<<16

func amount(s string) (int64, bool) {
	if s == "max" || s == "-1" {
		return cgroup.Unlimited, true
	}
	shift := 0
	if s != "" {
		switch s[len(s)-1] {
		case 'k', 'K':
			shift = 10
		case 'm', 'M':
			shift = 20
		case 'g', 'G':
			shift = 30
		}
		if shift > 0 {
			s = s[:len(s)-1]
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > (1<<63-1)>>shift {
		return 0, false
	}
	if n <<= shift; n >= hugeLimit {
		return cgroup.Unlimited, true
	}
	return n, true
}

// knobAllowed refuses files outside the places where the kernel keeps its knobs.
func (m *machine) knobAllowed(path string) error {
	if inside(path, filepath.Join(m.root, "sys")) || inside(path, filepath.Join(m.root, "proc/sys")) || m.inCgroups(path) {
		return nil
	}
	return errkind.New(errkind.Denied, "worker: knob %q: not below /sys, /proc/sys or a cgroup mount", path)
}

// inside says whether path lies strictly below dir; both are clean.
func inside(path, dir string) bool {
	if dir == "/" {
		return path != "/"
	}
	return len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

// gone says that a path, or what a descriptor stood for, does not exist any more.
func gone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, sys.ENODEV) || errors.Is(err, cgroup.ErrGone)
}
