package tier

import (
	"maps"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	const k = 1 << 10
	for _, tc := range []struct {
		what, archive  string
		swap, zswapped int64
		known          bool
		want           map[string]int64
	}{
		{"v2: the kernel says what zswap holds", "zswap_file", 100 * k, 70 * k, true,
			map[string]int64{"zswap": 70 * k, "swap:/var/swap/my file": 30 * k}},
		{"v2: all of it in zswap", "zswap_file", 100 * k, 100 * k, true, map[string]int64{"zswap": 100 * k}},
		{"v2: the two counters disagree for a moment", "zswap_file", 100 * k, 120 * k, true, map[string]int64{"zswap": 100 * k}},
		{"v1: by the host's 600:200", "zswap_file", 100 * k, 0, false,
			map[string]int64{"zswap": 75 * k, "swap:/var/swap/my file": 25 * k}},
		{"nothing swapped", "zswap_file", 0, 0, true, map[string]int64{}},
		{"zram alone", "zram_only", 100 * k, 0, false, map[string]int64{"zram0": 100 * k}},
		{"areas by use, an empty one gets nothing", "partition_btrfs", 140 * k, 0, true,
			map[string]int64{"swap:/dev/dm-1": 100 * k, "swap:/dev/sda5": 40 * k}},
		{"the host's counters lag: the first tier has it", "no_zswap_kernel", 100 * k, 0, false,
			map[string]int64{"swap:/swapfile": 100 * k}},
		{"v2, areas empty by the host's counters", "zswap_two_areas", 100 * k, 60 * k, true,
			map[string]int64{"zswap": 60 * k, "swap:/dev/sdb1": 40 * k}},
		{"no tier at all", "none", 100 * k, 0, false, map[string]int64{}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			root, _ := unpack(t, "testdata/"+tc.archive+".txtar")
			if got := open(t, root).Split(tc.swap, tc.zswapped, tc.known); !maps.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// Whatever the host looks like, no byte is lost, made up or negative.
func TestSplitAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, math.MaxInt64/8)
		m := machine{}
		m.mem.Zswapped = size.Draw(t, "stored in zswap")
		m.zswap.Enabled = rapid.Bool().Draw(t, "zswap")
		if rapid.Bool().Draw(t, "no zswap in the kernel") {
			m.zswapWhy = "none"
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "areas") {
			a := area{name: string(rune('a' + i)), kind: KindFile}
			a.Used = size.Draw(t, "used")
			m.areas = append(m.areas, a)
		}
		swap := rapid.Int64Range(-10, math.MaxInt64/2).Draw(t, "swap")
		got := split(assemble(m), swap, rapid.Int64Range(-10, math.MaxInt64/2).Draw(t, "zswapped"), rapid.Bool().Draw(t, "known"))
		var sum int64
		for name, n := range got {
			if n <= 0 {
				t.Fatalf("%s has %d of %d", name, n, swap)
			}
			sum += n
		}
		if sum != max(0, swap) {
			t.Fatalf("%v adds up to %d, not %d", got, sum, swap)
		}
	})
}
