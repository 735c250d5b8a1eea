package watch

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/psi"
	"github.com/spillway-io/spillway/internal/swap"
)

// Sample is what one look at everything saw.
type Sample struct {
	At      time.Time
	Pool    int64  // compressed pools of the host, zswap's and those of zram devices in use as swap, bytes
	Stored  int64  // what zswap's holds before compression, bytes
	SwapOut uint64 // pages that left for swap, host-wide, zswap's included
	Device  int64  // pages that were written to a swap device in spite of zswap, as far as the kernel says
	Poor    int64  // pages that zswap refused because they compress badly; -1 when unknown
	Cgroups int    // memory cgroups that the kernel keeps, dying ones included
	Of      []Reading
}

// Reading is one member in a sample.
type Reading struct {
	cgroup.Stat
	Stall  psi.Totals // memory
	HasPSI bool       // Stall could be read
}

// lookAtHost is a sample without its members.
func lookAtHost() (Sample, error) {
	mem, err := proc.ReadMeminfo("/")
	if err != nil {
		return Sample{}, err
	}
	vm, err := proc.ReadVmstat("/")
	if err != nil {
		return Sample{}, err
	}
	zram, err := zramPools()
	if err != nil {
		return Sample{}, err
	}
	return Sample{
		At: time.Now(), Pool: mem.Zswap + zram, Stored: mem.Zswapped, SwapOut: vm.PswpOut + vm.ZswpOut,
		Device: int64(vm.PswpOut + vm.ZswpWb), Poor: zswapPoor(), Cgroups: memoryCgroups(),
	}, nil
}

// zramPools is what the zram devices in use as swap occupy.
func zramPools() (pool int64, err error) {
	areas, err := proc.ReadSwaps("/")
	if err != nil {
		return 0, err
	}
	for _, a := range areas {
		var dev int
		if n, _ := fmt.Sscanf(a.Path, "/dev/zram%d", &dev); n != 1 {
			continue
		}
		_, _, used, err := swap.ZramStat("/", dev)
		if err != nil {
			return 0, err
		}
		pool += used
	}
	return pool, nil
}

// zswapPoor sums what zswap refused because it did not compress; the kernel says so in debugfs only.
func zswapPoor() int64 {
	sum, seen := int64(0), false
	for _, name := range []string{"reject_compress_poor", "reject_compress_fail"} {
		b, err := os.ReadFile("/sys/kernel/debug/zswap/" + name)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			sum, seen = sum+n, true
		}
	}
	if !seen {
		return -1
	}
	return sum
}

// memoryCgroups is the kernel's own count; it includes the removed ones that something still pins.
func memoryCgroups() int {
	b, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "memory" {
			n, _ := strconv.Atoi(f[2])
			return n
		}
	}
	return 0
}

// pageMeta is the kernel's bookkeeping for one page that is swapped out into zswap, in bytes.
const pageMeta = 67

// Footprint is how much memory member i occupies wherever it is, in bytes: what is resident, its part of the compressed
// pool, and the kernel's bookkeeping. On cgroup v2 the pool is charged to the cgroup and part of its usage. On v1 it is
// charged to nobody: then all growth of the host's pools since first is put on the members, in proportion to what each
// has stored. That is exact when nothing else swaps, and too much otherwise.
func (s Sample) Footprint(i int, first Sample, mode cgroup.Mode) int64 {
	return s.Of[i].Usage + s.Of[i].Swap/4096*pageMeta + s.PoolPart(i, first, mode)
}

// PoolPart is what member i has in the compressed pools and its usage does not contain. On v1 a page that came back is
// out of the Swap figure although its swap slot may remain: Swap is what is stored, and only that.
func (s Sample) PoolPart(i int, first Sample, mode cgroup.Mode) int64 {
	if mode == cgroup.V2 {
		return 0
	}
	var all int64
	for _, m := range s.Of {
		all += m.Swap
	}
	if all == 0 {
		return 0
	}
	return int64(float64(max(0, s.Pool-first.Pool)) * float64(s.Of[i].Swap) / float64(all))
}
