package tier

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"
)

// unpack writes a machine's files to a folder and returns it with the file "want". Archives, because kernel paths
// such as sys/dev/block/8:2 are no file names that a Go module may hold.
func unpack(t *testing.T, archive string) (root, want string) {
	t.Helper()
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	for _, f := range a.Files {
		if f.Name == "want" {
			want = string(f.Data)
			continue
		}
		write(t, filepath.Join(root, f.Name), string(f.Data))
	}
	return root, want
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, root string) *Set {
	t.Helper()
	s, err := Open(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func describe(s *Set) string {
	var b strings.Builder
	for _, t := range s.Tiers() {
		fmt.Fprintf(&b, "%s %s %s size=%dKiB used=%dKiB stored=%dKiB device=%s\n", t.Name, t.Kind, t.State,
			t.Size>>10, t.Used>>10, t.Stored>>10, t.Device)
	}
	name := "none"
	if p, ok := s.Primary(); ok {
		name = p.Name
	}
	used, stored := s.Pool()
	fmt.Fprintf(&b, "primary %s\npool used=%dKiB stored=%dKiB\n", name, used>>10, stored>>10)
	fmt.Fprintln(&b, strings.TrimSpace("devices "+strings.Join(s.Devices(), " ")))
	fmt.Fprintln(&b, strings.TrimSpace("advice "+s.Advice()))
	return b.String()
}

func TestDiscovery(t *testing.T) {
	machines, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(machines) < 6 {
		t.Fatalf("machines: %v, %v", machines, err)
	}
	for _, m := range machines {
		t.Run(strings.TrimSuffix(filepath.Base(m), ".txtar"), func(t *testing.T) {
			root, want := unpack(t, m)
			if got := describe(open(t, root)); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestDetailsSayWhy(t *testing.T) {
	for archive, want := range map[string]map[string]string{
		"zswap_file":      {"zswap": "lzo, at most 20% of memory", "swap:/var/swap/my file": "on sda2"},
		"zram_only":       {"zswap": "switched off; tiers.zswap: on", "zram0": "compressed in memory, priority 100"},
		"partition_btrfs": {"zswap": "without CONFIG_ZSWAP", "swap:/dev/dm-1": "full"},
		"none":            {"zswap": "no swap area behind it", "zram": "tiers.zram makes one"},
	} {
		root, _ := unpack(t, "testdata/"+archive+".txtar")
		tiers := open(t, root).Tiers()
		for name, text := range want {
			i := slices.IndexFunc(tiers, func(t Tier) bool { return t.Name == name })
			if i < 0 || !strings.Contains(tiers[i].Detail, text) {
				t.Errorf("%s: %s: no tier whose detail has %q in %+v", archive, name, text, tiers)
			}
		}
	}
}

// A refresh must follow areas that come and go, and resolve the device of a new file.
func TestRefreshFollowsTheMachine(t *testing.T) {
	root, _ := unpack(t, "testdata/none.txtar")
	s := open(t, root)
	write(t, filepath.Join(root, "proc/swaps"), "Filename Type Size Used Priority\n/swapfile file 1024000 64 -2\n")
	if err := s.Refresh(); err != nil {
		t.Fatal(err)
	}
	p, ok := s.Primary()
	if !ok || p.Name != "zswap" || s.Advice() != "" {
		t.Errorf("with an area behind it zswap must be primary: %+v %v, advice %q", p, ok, s.Advice())
	}
	if got := s.Devices(); !slices.Equal(got, []string{"sda1"}) {
		t.Errorf("devices %v, want sda1", got)
	}
	write(t, filepath.Join(root, "proc/swaps"), "Filename Type Size Used Priority\n")
	if err := s.Refresh(); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Primary(); ok || len(s.Devices()) != 0 {
		t.Errorf("after swapoff: primary %v, devices %v", ok, s.Devices())
	}
}

func TestRefreshKeepsTheLastStateOnError(t *testing.T) {
	root, want := unpack(t, "testdata/zswap_file.txtar")
	s := open(t, root)
	write(t, filepath.Join(root, "proc/swaps"), "nonsense")
	if err := s.Refresh(); err == nil {
		t.Error("nonsense in /proc/swaps gave no error")
	}
	if got := describe(s); got != want {
		t.Errorf("after a failed refresh:\n%s", got)
	}
}

func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, _ := unpack(t, "testdata/zram_only.txtar")
		s := open(t, root)
		m := Measurement{Tier: "zram0", Pages: 100, P50: 9 * time.Microsecond, Compression: 3, At: time.Now()}
		s.Record(m)
		s.Record(Measurement{Tier: "swap:/later", P50: time.Millisecond})
		if err := s.Refresh(); err != nil {
			t.Fatal(err)
		}
		p, _ := s.Primary()
		if p.Measured != m {
			t.Errorf("measured %+v, want %+v", p.Measured, m)
		}
		if c := p.Compression(); c < 3.8 || c > 4 { // 1020 MB in 262 MB: what it holds now beats the canary
			t.Errorf("compression %v", c)
		}
	})
}

func TestMountParsing(t *testing.T) {
	for line, want := range map[string]mount{
		`36 35 98:0 /in /mnt\040a rw master:1 - ext3 /dev/root rw`: {"/mnt a", "98:0", "ext3", "/dev/root"},
		`36 35 98:0 /in /a\134040 rw - ext3 /dev/root rw`:          {`/a\040`, "98:0", "ext3", "/dev/root"},
		`36 35 98:0 /in /mnt rw`:                                   {},
		`36 35 98:0 - ext3 /dev/root rw`:                           {},
		``:                                                         {},
	} {
		got, ok := parseMount(line)
		if ok != (want != mount{}) || ok && got != want {
			t.Errorf("%s\ngot  %+v %v\nwant %+v", line, got, ok, want)
		}
	}
}
