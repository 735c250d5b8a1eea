// Package guest runs test programs inside a small Linux guest, for what the host's kernel lacks: a Debian kernel
// in QEMU with a pure cgroup v2 tree, PSI, zswap, swap and throw-away disks.
//
//	guest.Need(t, guest.Debian61)
//	r := guest.Run(t, guest.Config{Swap: guest.SwapDisk, Zswap: true},
//		guest.Binary{GoTestPackage: "github.com/spillway-io/spillway/internal/cgroup"})
//
// Promise: each test of a Go test package appears as a subtest of t, with its output, and skipped with the guest's
// own reason. A guest ends at its timeout, and with this process even when that is killed. One guest runs at a
// time on a machine; others wait. Ownership: kernels are unpacked into the user's cache and never installed; all
// else lives in a run folder there that the next run removes if this one could not.
// Lock order: guest.lock, then fetch.lock.
// Failure: what this machine lacks (QEMU, a kernel and no way to fetch one) is a skip from Need; a guest that
// panics, hangs or fails its plan fails the test with the last lines of its console.
// Non-goals: latencies. Under emulation only counters and outcomes mean anything; networks; other architectures.
package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/testkit/guest/wire"
)

// Swap says where a guest swaps to.
type Swap string

const (
	NoSwap   Swap = ""
	SwapDisk Swap = "disk" // a virtio disk, so that zswap has a device behind it
	SwapZram Swap = "zram"
)

// Config describes a guest. The zero value boots Debian 6.1 with 2 CPUs and 1 GiB, no swap and no disks.
type Config struct {
	Kernel  Kernel        // "" is Debian61
	MemMiB  int           // 0 is 1024; programs and their files live in it, unevictable
	CPUs    int           // 0 is 2
	Swap    Swap          //
	SwapMiB int           // 0 is 512
	Zswap   bool          // on, or off even where the kernel's default is on
	MGLRU   bool          // on, or off even where the kernel's default is on
	Disks   []Disk        // besides the swap disk
	Modules []string      // kernel modules besides those that swap and disks need
	Files   []File        // added to the guest's root
	Cmdline string        // appended to the kernel's command line
	Timeout time.Duration // of the whole boot, 0 is 3 minutes
}

// Disk is an empty virtio disk.
type Disk struct {
	SizeMiB int
	Mount   string // directory in the guest for ext4 on it; "" leaves the disk raw
}

// Binary is one program to run. Exactly one of Path and GoTestPackage is set.
type Binary struct {
	Path          string   // a static executable here
	GoTestPackage string   // an import path or ./folder whose tests are compiled; its testdata comes along
	Args          []string // for a test package: further -test flags and its own
	Env           []string // added to PATH, HOME, TMPDIR and SPILLWAY_GUEST=1
	Bare          bool     // the guest's swap and zswap are off while it runs, for tests that bring their own
}

// Name is what the binary is called in results and subtests: the last element of its path.
func (b Binary) Name() string { return path.Base(cmp.Or(b.GoTestPackage, filepath.ToSlash(b.Path))) }

// Report is what one guest did.
type Report struct {
	Kernel  string        // release the guest booted
	Accel   string        // "kvm" or "tcg"
	Boot    time.Duration // wall time from starting QEMU to the first program
	Wall    time.Duration // wall time of the whole guest
	Results []Result      // one for each binary that started, in order
}

// Result is what one binary did.
type Result struct {
	Binary   Binary
	Output   []byte        // stdout and stderr together
	ExitCode int           // -1 when a signal ended it, it did not start, or the guest died first
	Took     time.Duration // guest time
	Message  string        // why ExitCode is -1
	Tests    []Test        // of a test package, in the order they started, subtests included
}

// Need skips t with the reason unless the given kernels (Debian61 when none is given) can be booted here. It
// fetches those that are not in the cache.
func Need(t testing.TB, kernels ...Kernel) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skipf("needs a guest: guests are built for amd64, this is %s", runtime.GOARCH)
	}
	probe.Need(t, probe.QEMU)
	dir, err := cacheDir()
	if err != nil {
		t.Skipf("needs a guest: %v", err)
	}
	if len(kernels) == 0 {
		kernels = []Kernel{Debian61}
	}
	for _, k := range kernels {
		if _, err := fetch(t.Context(), dir, k); err != nil {
			t.Skipf("needs a guest kernel, not in the cache %s and not to be had: %v", dir, err)
		}
	}
	if _, err := fetchBusybox(t.Context(), dir); err != nil {
		t.Skipf("needs busybox for the guest, not in the cache %s and not to be had: %v", dir, err)
	}
}

// Run boots one guest, runs the binaries in it one after the other and reports them as subtests of t. It fails t
// at once when the guest did not run to its end, and as a test would when a test package failed. The exit code of
// other binaries is for the caller to judge.
func Run(t *testing.T, c Config, binaries ...Binary) Report {
	t.Helper()
	c = c.withDefaults()
	Need(t, c.Kernel)
	r, err := run(t.Context(), c, binaries)
	if r.Kernel != "" {
		t.Logf("guest: Linux %s under %s, first program after %v, %v in all",
			r.Kernel, r.Accel, r.Boot.Round(100*time.Millisecond), r.Wall.Round(100*time.Millisecond))
	}
	for _, res := range r.Results {
		if res.Binary.GoTestPackage != "" {
			replay(t, res)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (c Config) withDefaults() Config {
	c.MemMiB = cmp.Or(c.MemMiB, 1024)
	c.CPUs = cmp.Or(c.CPUs, 2)
	c.SwapMiB = cmp.Or(c.SwapMiB, 512)
	c.Kernel = cmp.Or(c.Kernel, Debian61)
	c.Timeout = cmp.Or(c.Timeout, 3*time.Minute)
	return c
}

// run does everything but talk to testing.T.
func run(ctx context.Context, c Config, binaries []Binary) (Report, error) {
	for _, b := range binaries {
		if (b.Path == "") == (b.GoTestPackage == "") {
			return Report{}, errors.New("guest: run: a Binary needs either Path or GoTestPackage")
		}
	}
	dir, err := cacheDir()
	if err != nil {
		return Report{}, err
	}
	release, err := lock(dir, "guest.lock")
	if err != nil {
		return Report{}, err
	}
	defer release()
	im, err := fetch(ctx, dir, c.Kernel)
	if err != nil {
		return Report{}, err
	}
	work, clean, err := runDir(dir)
	if err != nil {
		return Report{}, err
	}
	defer clean()
	if im.busybox, err = fetchBusybox(ctx, dir); err != nil {
		return Report{}, err
	}
	accel, err := accelerator(ctx, dir, work, im)
	if err != nil {
		return Report{}, err
	}
	m, err := assemble(ctx, c, im, work, binaries)
	if err != nil {
		return Report{}, err
	}
	m.accel = accel
	r := Report{Accel: accel}
	err = m.boot(ctx, c.Timeout, func(f wire.Frame, at time.Duration) error { return r.add(f, at, binaries) })
	r.Wall = m.wall
	for i := range r.Results {
		if res := &r.Results[i]; res.Binary.GoTestPackage != "" {
			tests, convErr := parseTests(ctx, res.Output)
			res.Tests = tests
			err = errors.Join(err, convErr)
		}
	}
	return r, err
}

// add takes one frame of the guest, at wall time at after its start.
func (r *Report) add(f wire.Frame, at time.Duration, binaries []Binary) error {
	switch f.Kind {
	case wire.KindBoot:
		r.Kernel, r.Boot = f.Release, at
	case wire.KindFail:
		return errors.New(f.Message)
	case wire.KindStart:
		if f.Index != len(r.Results) || f.Index >= len(binaries) {
			return fmt.Errorf("guest: program %d starts after %d", f.Index, len(r.Results))
		}
		r.Results = append(r.Results, Result{Binary: binaries[f.Index], ExitCode: -1, Message: "the guest ended first"})
	case wire.KindOutput, wire.KindExit:
		if f.Index != len(r.Results)-1 {
			return fmt.Errorf("guest: %s of program %d, %d started", f.Kind, f.Index, len(r.Results))
		}
		res := &r.Results[f.Index]
		if f.Kind == wire.KindOutput {
			res.Output = append(res.Output, f.Data...)
			return nil
		}
		res.ExitCode, res.Took, res.Message = f.Code, f.Took, f.Message
	}
	return nil
}
