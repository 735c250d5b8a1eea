package tier

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/swap"
)

// machine is what one look at the kernel's files found.
type machine struct {
	mem       proc.Meminfo
	zswap     swap.Zswap
	zswapWhy  string // why zswap cannot be used, "" when the kernel has it
	zramReady bool   // the zram module is there, whether or not a device is in use
	areas     []area // highest priority first
}

// area is one swap area with what is known beyond its line in /proc/swaps.
type area struct {
	proc.SwapArea
	name   string
	kind   Kind
	device string
	orig   int64 // zram: bytes before compression
	mem    int64 // zram: memory occupied
}

// look reads the machine. devices caches the names of block devices by path; paths that are gone are dropped.
func look(root string, mem *proc.Reader, devices map[string]string) (machine, error) {
	var m machine
	if err := mem.Meminfo(&m.mem); err != nil {
		return m, fmt.Errorf("tier: read memory: %w", err)
	}
	var err error
	m.zswap, err = swap.ReadZswap(root)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		m.zswapWhy = "this kernel was built without CONFIG_ZSWAP (Debian's cloud kernels are, its generic ones are not)"
	case err != nil:
		return m, fmt.Errorf("tier: read zswap: %w", err)
	}
	_, err = os.Stat(filepath.Join(root, "sys/class/zram-control"))
	m.zramReady = err == nil

	lines, err := proc.ReadSwaps(root)
	if err != nil {
		return m, fmt.Errorf("tier: read swap areas: %w", err)
	}
	present := map[string]bool{}
	for _, line := range lines {
		a := area{SwapArea: line}
		if err := a.identify(root, devices); err != nil {
			return m, err
		}
		present[line.Path] = true
		m.areas = append(m.areas, a)
	}
	for path := range devices {
		if !present[path] {
			delete(devices, path)
		}
	}
	slices.SortStableFunc(m.areas, func(a, b area) int { return cmp.Compare(b.Priority, a.Priority) })
	return m, nil
}

// identify fills what /proc/swaps does not say.
func (a *area) identify(root string, devices map[string]string) error {
	if n, ok := zramNumber(a.Path); ok && !a.File {
		a.name, a.kind = filepath.Base(a.Path), KindZram
		var err error
		a.orig, _, a.mem, err = swap.ZramStat(root, n)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it may vanish between the two reads
			return fmt.Errorf("tier: read %s: %w", a.name, err)
		}
		return nil
	}
	a.name, a.kind = "swap:"+a.Path, KindPartition
	if a.File {
		a.kind = KindFile
	}
	name, known := devices[a.Path]
	if !known {
		name = deviceOf(root, a.Path, a.File)
		devices[a.Path] = name
	}
	a.device = name
	return nil
}

// zramNumber is 3 for /dev/zram3.
func zramNumber(path string) (int, bool) {
	digits, ok := strings.CutPrefix(path, "/dev/zram")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return int(n), err == nil
}

// assemble turns what was found into tiers, in the order in which the kernel fills them, those in use first.
func assemble(m machine) []Tier {
	z := zswapTier(m)
	var inUse, rest []Tier
	if z.State == Active {
		inUse = append(inUse, z)
	} else {
		rest = append(rest, z)
	}
	elsewhere := notInAreas(m)
	zram := false
	for i, a := range m.areas {
		t := Tier{Name: a.name, Kind: a.kind, State: Active, Path: a.Path, Device: a.device,
			Size: a.Size, Priority: a.Priority, slots: max(0, a.Used-elsewhere[i])}
		t.Detail = a.detail()
		if a.kind == KindZram {
			zram = true
			t.Used, t.Stored = a.mem, a.orig
		} else {
			t.Used, t.Stored = t.slots, t.slots
		}
		inUse = append(inUse, t)
	}
	if m.zramReady && !zram {
		rest = append(rest, Tier{Name: "zram", Kind: KindZram, State: Available,
			Detail: "the module is loaded, no device is in use as swap; tiers.zram makes one"})
	}
	return append(inUse, rest...)
}

func zswapTier(m machine) Tier {
	t := Tier{Name: "zswap", Kind: KindZswap, Priority: math.MaxInt, Used: m.mem.Zswap, Stored: m.mem.Zswapped}
	if m.zswapWhy != "" {
		t.State, t.Detail = Absent, m.zswapWhy
		return t
	}
	t.Size = mulDiv(m.mem.Total, int64(min(100, max(0, m.zswap.MaxPoolPercent))), 100)
	what := fmt.Sprintf("%s, at most %d%% of memory (%v)", m.zswap.Compressor, m.zswap.MaxPoolPercent, bytesize.Size(t.Size))
	switch {
	case m.zswap.Enabled && len(m.areas) > 0:
		t.State, t.Detail = Active, what
	case m.zswap.Enabled:
		t.State, t.Detail = Available, what+"; enabled, but there is no swap area behind it"
	default:
		t.State, t.Detail = Available, "switched off; tiers.zswap: on switches it on"
	}
	return t
}

// notInAreas divides the pages that have a slot and are not there over the areas: what zswap stores, and what is back
// in memory with its slot kept in case it leaves again unchanged. The kernel does not say whose slots they are. Before
// 6.5 a page could be in both; the areas' part is then too small by what zswap holds of the swap cache.
func notInAreas(m machine) []int64 {
	used := make([]int64, len(m.areas))
	for i, a := range m.areas {
		used[i] = max(0, a.Used)
	}
	return share(max(0, m.mem.Zswapped)+max(0, m.mem.SwapCached), used)
}

func (a area) detail() string {
	text := "priority " + strconv.Itoa(a.Priority)
	switch {
	case a.kind == KindZram:
		text = "compressed in memory, " + text
	case a.device == "":
		text += ", on an unknown device"
	default:
		text += ", on " + a.device
	}
	if a.Size > 0 && a.Used >= a.Size {
		text += ", full"
	}
	return text
}

// primary is the first tier that takes pages: zswap when it is active, else the first area with room, else the
// first area.
func primary(tiers []Tier) (Tier, bool) {
	var first *Tier
	for i := range tiers {
		t := &tiers[i]
		if t.State != Active {
			continue
		}
		if t.Kind == KindZswap || t.slots < t.Size {
			return *t, true
		}
		if first == nil {
			first = t
		}
	}
	if first == nil {
		return Tier{}, false
	}
	return *first, true
}

const noSwap = "no swap: anonymous memory cannot be offloaded, file cache only"

func advice(tiers []Tier) string {
	if _, ok := primary(tiers); ok {
		return ""
	}
	return noSwap + "; add tiers.swap_file or tiers.zram"
}
