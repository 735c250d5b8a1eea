package tier

import (
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/testkit"
)

// What can be steered is what the kernel shows, and for an argument of a write what its version says.
func TestKnobs(t *testing.T) {
	const zswap = "sys/module/zswap/parameters/"
	for _, tc := range []struct {
		name, release string
		mode          testkit.CgroupMode
		group         []string          // files of a cgroup beyond the usual
		files         map[string]string // below the root
		have          string
		can, cannot   []string // parts of the sentences
	}{
		{
			name: "v1 with zswap", release: "6.18.44-fc", mode: testkit.CgroupHybrid,
			files: map[string]string{zswap + "enabled": "Y\n", zswap + "compressor": "lzo\n", zswap + "max_pool_percent": "20\n", zswap + "shrinker_enabled": "N\n"},
			have:  "memory.swappiness,zswap shrinker_enabled",
			can:   []string{"changing it around each step (cgroup v1)", "shrinker_enabled: off"}, cannot: []string{"memory.zswap.max, Linux 5.19 with cgroup v2"},
		},
		{
			name: "v2, Debian 12", release: "6.1.0-42-amd64", mode: testkit.CgroupV2, group: []string{"memory.zswap.max"},
			files: map[string]string{zswap + "enabled": "Y\n", zswap + "compressor": "lzo\n", zswap + "max_pool_percent": "20\n"},
			have:  "memory.swap.max,memory.zswap.max",
			can:   []string{"file cache alone"}, cannot: []string{"memory.reclaim swappiness=, Linux 6.11"},
		},
		{
			name: "v2, 6.12, no zswap", release: "6.12.111-cloud-amd64", mode: testkit.CgroupV2, group: []string{"memory.zswap.max", "memory.zswap.writeback"},
			have: "memory.reclaim swappiness=,memory.swap.max",
			can:  []string{"by the kernel's version"}, cannot: []string{"swappiness=max, Linux 6.16", "memory.zswap.max"},
		},
		{
			name: "v2, 6.18, two areas", release: "6.18.1", mode: testkit.CgroupV2, group: []string{"memory.zswap.max", "memory.zswap.writeback"},
			files: map[string]string{zswap + "enabled": "Y\n", zswap + "compressor": "lzo\n", zswap + "max_pool_percent": "20\n", zswap + "shrinker_enabled": "Y\n",
				"proc/swaps": "Filename\tType\tSize\tUsed\tPriority\n/a file 1024 0 -2\n/b file 1024 0 5\n"},
			have: "memory.reclaim swappiness=,memory.reclaim swappiness=max,memory.swap.max,memory.zswap.max,memory.zswap.writeback,zswap shrinker_enabled,swap priorities",
			can:  []string{"swap priorities: swap:/b 5, swap:/a -2"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tree := testkit.NewCgroupTree(t, tc.mode)
			tree.Put("/pod", testkit.MemGroup{})
			for _, f := range tc.group {
				tree.Set("/pod", f, "max\n")
			}
			write(t, tree.Root+"/proc/meminfo", "MemTotal: 1000000 kB\nMemFree: 500000 kB\nMemAvailable: 600000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n")
			write(t, tree.Root+"/proc/vmstat", "pswpin 0\npswpout 0\n")
			if tc.files["proc/swaps"] == "" {
				write(t, tree.Root+"/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")
			}
			for f, text := range tc.files {
				write(t, tree.Root+"/"+f, text)
			}
			h, err := cgroup.Discover(tree.Root)
			if err != nil {
				t.Fatal(err)
			}
			ks := open(t, tree.Root).Knobs(h, tc.release)
			var have []string
			for _, k := range ks {
				if k.Have {
					have = append(have, k.Name)
				}
			}
			if got := strings.Join(have, ","); got != tc.have {
				t.Errorf("have %s\nwant %s", got, tc.have)
			}
			can, cannot := Steering(ks)
			for _, w := range tc.can {
				if !strings.Contains(strings.Join(can, "\n"), w) {
					t.Errorf("no %q in what can be steered:\n%s", w, strings.Join(can, "\n"))
				}
			}
			for _, w := range tc.cannot {
				if !strings.Contains(strings.Join(cannot, "\n"), w) {
					t.Errorf("no %q in what cannot be steered:\n%s", w, strings.Join(cannot, "\n"))
				}
			}
		})
	}
}

func TestSince(t *testing.T) {
	for _, tc := range []struct {
		release string
		want    bool
	}{{"6.11.0", true}, {"6.12.111-cloud-amd64", true}, {"7.0-rc1", true}, {"6.11-rc1", true}, {"6.10.14", false}, {"5.19.0", false}, {"6", false}, {"", false}, {"x.y", false}} {
		if got := since(tc.release, 6, 11); got != tc.want {
			t.Errorf("since(%q, 6, 11) = %v", tc.release, got)
		}
	}
}

// A disk that is filled before compressed memory is reported with what to type; what we make ourselves comes above the
// disks.
func TestPriorities(t *testing.T) {
	for _, tc := range []struct{ name, areas, want, made string }{
		{"none", "", "", "prio 100"},
		{"disk first", "/dev/sda2 partition 1024 0 5\n/dev/zram0 partition 1024 0 -2\n", "swapoff /dev/zram0, then swapon -p 100 /dev/zram0", "prio 100"},
		{"side by side", "/dev/sda2 partition 1024 0 200\n/dev/zram0 partition 1024 0 200\n", "swapon -p 201", "prio 201"},
		{"the right order", "/dev/sda2 partition 1024 0 -2\n/dev/zram0 partition 1024 0 100\n", "", "prio 100"},
		{"nothing above it", "/dev/sda2 partition 1024 0 32767\n", "", "prio 32767"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := bare(t)
			write(t, root+"/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n"+tc.areas)
			s, w := open(t, root), newFake(t, root)
			if got := s.Misordered(); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("says %q, want %q", got, tc.want)
			}
			if err := s.Apply(t.Context(), Setup{Zram: &Zram{Size: bytesize.GiB}}, w); err != nil {
				t.Fatal(err)
			}
			w.expect("zram 1024 " + tc.made + " ")
		})
	}
}
