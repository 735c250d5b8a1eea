// Package probe says whether this kernel and machine have what a part of Spillway needs.
//
// Promise: a missing feature is a *Missing, an error that names the feature, the first kernel that has it
// and what to do; errors.Is(err, errors.ErrUnsupported) holds. Tests turn it into a skip that states the
// reason (Need), the program into advice (its Hint). Probing reads files and looks up programs; it changes
// nothing and caches nothing. Non-goal: loading modules, installing packages.
package probe

import (
	"errors"
	"fmt"
)

// Missing is a feature that this machine lacks.
type Missing struct {
	Feature string // what is missing, for example "memory.reclaim"
	Since   string // first kernel that has it, "" when no kernel version decides
	Do      string // what the user can do about it, in the imperative; "" when nothing
}

// Error is one line for logs, without the advice.
func (m *Missing) Error() string {
	if m.Since == "" {
		return m.Feature + " is missing here"
	}
	return fmt.Sprintf("%s is missing here (Linux %s has it)", m.Feature, m.Since)
}

// Is makes every Missing an errors.ErrUnsupported.
func (m *Missing) Is(target error) bool { return target == errors.ErrUnsupported }

// Hint is what to do about it, for the command line.
func (m *Missing) Hint() string { return m.Do }

// Feature is something Check and Need can look for.
type Feature string

// The features.
const (
	Root          Feature = "root"           // user id 0
	MemoryV1      Feature = "memory v1"      // memory controller on a v1 mount
	MemoryV2      Feature = "memory v2"      // memory controller on the cgroup2 mount
	MemoryReclaim Feature = "memory.reclaim" // the file of cgroup2
	PSI           Feature = "PSI"            // /proc/pressure readable
	Zswap         Feature = "zswap"
	Zram          Feature = "zram"
	SwapOn        Feature = "swapon" // swap can be switched on: kernel support and root
	QEMU          Feature = "qemu"
	Chromium      Feature = "chromium"
	Redis         Feature = "redis-server"
)

// TB is the part of testing.TB that Need uses, so that the program does not link the testing package.
type TB interface {
	Helper()
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Need skips the test with the reason when this machine lacks f, and fails it when f is no feature.
func Need(t TB, f Feature) {
	t.Helper()
	err := Check("/", f)
	var m *Missing
	switch {
	case err == nil:
	case !errors.Is(err, errors.ErrUnsupported):
		t.Fatalf("probe: cannot tell whether %s is here: %v", f, err)
	case errors.As(err, &m) && m.Do != "":
		t.Skipf("needs %s: %v; %s", f, err, m.Do)
	default:
		t.Skipf("needs %s: %v", f, err)
	}
}
