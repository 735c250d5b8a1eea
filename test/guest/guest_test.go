//go:build linux

// Package guest_test runs the privileged tests of the tree in Debian guests, with what the host's kernel may lack:
// a pure cgroup v2 tree, memory.reclaim, zswap, the multi-generation LRU.
package guest_test

import (
	"flag"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/testkit/guest"
)

const (
	module = "github.com/spillway-io/spillway/"
	inside = module + "internal/testkit/guest/testdata/inside" // proves that the guest is what its Config says
)

var all = flag.Bool("guest.all", false, "also boot the kernels that an ordinary run leaves out")

// required packages have privileged tests; optional ones are taken along once they have tests.
var (
	required = []string{"internal/cgroup", "internal/psi", "internal/swap", "internal/worker"}
	optional = []string{"offload", "offload/tier", "offload/track"}
	// bare lists those whose tests make swap of their own and are skipped where some is on already.
	bare = []string{"internal/swap", "internal/worker", "offload/tier"}
)

func TestDebian61(t *testing.T) {
	c := config(guest.Debian61)
	c.Zswap = true
	r := guest.Run(t, c, binaries(t, "INSIDE_KERNEL=6.1.")...)
	reclaimRan(t, r)
	log(t, r)
}

func TestDebian61MGLRU(t *testing.T) {
	if !*all {
		t.Skip("a second boot, for the 6.1 kernel with MGLRU on, runs with: go test ./test/guest -guest.all")
	}
	c := config(guest.Debian61)
	c.Zswap, c.MGLRU = true, true
	r := guest.Run(t, c, binaries(t, "INSIDE_KERNEL=6.1.", "INSIDE_MGLRU=1")...)
	reclaimRan(t, r)
	log(t, r)
}

func TestDebian612(t *testing.T) {
	if !*all {
		t.Skip("a second boot, for the 6.12 kernel with MGLRU, runs with: go test ./test/guest -guest.all")
	}
	c := config(guest.Debian612)
	c.Zswap, c.MGLRU = true, true
	r := guest.Run(t, c, binaries(t, "INSIDE_KERNEL=6.12.", "INSIDE_MGLRU=1", "INSIDE_SWAPPINESS=1")...)
	reclaimRan(t, r)
	log(t, r)
}

// config: swap on a disk with zswap before it, and ext4 at /tmp and /var/tmp, since a swap file cannot lie in memory
// and page cache of the initramfs cannot be reclaimed.
func config(k guest.Kernel) guest.Config {
	return guest.Config{
		Kernel: k, Swap: guest.SwapDisk, MemMiB: 1024, Timeout: 6 * time.Minute,
		Disks:   []guest.Disk{{SizeMiB: 512, Mount: "/tmp"}, {SizeMiB: 1024, Mount: "/var/tmp"}},
		Modules: []string{"zram"}, // not used by the guest itself, but by tests of zram
	}
}

func binaries(t *testing.T, env ...string) []guest.Binary {
	t.Helper()
	list := []guest.Binary{{GoTestPackage: inside, Env: env}}
	var pkgs []string
	for _, p := range slices.Concat(required, optional) {
		pkgs = append(pkgs, module+p)
	}
	with := withTests(t, pkgs)
	for i, p := range pkgs {
		if slices.Contains(with, p) {
			list = append(list, guest.Binary{GoTestPackage: p, Bare: slices.Contains(bare, strings.TrimPrefix(p, module))})
		} else if i < len(required) {
			t.Errorf("%s has no tests to run in the guest", p)
		}
	}
	return list
}

// withTests returns those of pkgs that exist and whose tests ask what the kernel has: the others would only cost time.
func withTests(t *testing.T, pkgs []string) []string {
	t.Helper()
	const format = `{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}`
	out, err := exec.Command("go", append([]string{"list", "-e", "-f", format}, pkgs...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var with []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); slices.Contains(f[1:], module+"internal/probe") {
			with = append(with, f[0])
		}
	}
	return with
}

// reclaimRan fails t unless tests of the memory.reclaim path really ran: on the host they may all be skipped.
func reclaimRan(t *testing.T, r guest.Report) {
	t.Helper()
	for _, want := range []string{inside, module + "internal/cgroup", module + "internal/worker"} {
		i := slices.IndexFunc(r.Results, func(res guest.Result) bool { return res.Binary.GoTestPackage == want })
		if i < 0 {
			t.Errorf("%s did not run in the guest", want)
			continue
		}
		ran := slices.ContainsFunc(r.Results[i].Tests, func(tt guest.Test) bool {
			return strings.Contains(tt.Name, "Reclaim") && tt.Outcome == guest.Passed
		})
		if !ran {
			t.Errorf("no test of %s with Reclaim in its name passed in the guest", want)
		}
	}
}

func log(t *testing.T, r guest.Report) {
	t.Helper()
	for _, res := range r.Results {
		skipped := 0
		for _, tt := range res.Tests {
			if tt.Outcome == guest.Skipped {
				skipped++
			}
			if tt.Took > 3*time.Second {
				t.Logf("slow: %s %v", tt.Name, tt.Took)
			}
		}
		t.Logf("%-8s %4d tests, %2d skipped, %v of guest time",
			res.Binary.Name(), len(res.Tests), skipped, res.Took.Round(100*time.Millisecond))
	}
}
