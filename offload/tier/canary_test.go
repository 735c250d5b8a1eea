package tier

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
)

func TestContent(t *testing.T) {
	const pages = 64
	mem := make([]byte, pages*4096)
	squeeze := func() float64 {
		seen, packed := map[string]bool{}, 0
		for p := 0; p < len(mem); p += 4096 {
			page := mem[p : p+4096]
			seen[string(page)] = true
			var b bytes.Buffer
			w, err := flate.NewWriter(&b, flate.BestSpeed)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(page); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			packed += b.Len()
		}
		if len(seen) != pages {
			t.Errorf("%d different pages of %d", len(seen), pages)
		}
		return float64(len(mem)) / float64(packed)
	}
	fillText(mem)
	if r := squeeze(); r < 2.5 || r > 5 {
		t.Errorf("text shrinks %.2f:1, want about 3:1", r)
	}
	fillRandom(mem)
	if r := squeeze(); r > 1.01 {
		t.Errorf("random bytes shrink %.2f:1", r)
	}
}

// orders runs CanaryMain on orders and returns its answers.
func orders(t *testing.T, lines ...string) ([]answer, error) {
	t.Helper()
	var out bytes.Buffer
	err := CanaryMain(t.Context(), strings.NewReader(strings.Join(lines, "\n")), &out)
	var list []answer
	for dec := json.NewDecoder(&out); ; {
		var a answer
		if derr := dec.Decode(&a); errors.Is(derr, io.EOF) {
			return list, err
		} else if derr != nil {
			t.Fatal(derr)
		}
		list = append(list, a)
	}
}

func TestCanaryMain(t *testing.T) {
	old, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // CanaryMain offers its own process to the OOM killer, here this test
		if err := os.WriteFile("/proc/self/oom_score_adj", old, 0); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cgroup.procs"), "")
	n := 16 * os.Getpagesize()
	list, err := orders(t, `{"do":"join","dirs":["`+dir+`"]}`, fmt.Sprintf(`{"do":"fill","bytes":%d,"content":"text"}`, n), `{"do":"out"}`, `{"do":"touch"}`, `{"do":"touch","for_ns":1}`)
	if err != nil || len(list) != 5 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, a := range list {
		if a.Error != "" {
			t.Errorf("answer %+v", a)
		}
	}
	// Without swap, and hardly with it, nothing of this is out: every touch is a hit, and told apart as one.
	if a := list[3]; a.Pages != 16 || a.Faults+a.Hits != 16 || a.Hits == 0 || a.HitP50 <= 0 {
		t.Errorf("touch %+v", a)
	}
	if a := list[4]; a.Faults+a.Hits >= 16 {
		t.Errorf("a touch of one nanosecond came to the end: %+v", a)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")); err != nil || string(b) != "0" {
		t.Errorf("joined with %q, %v", b, err)
	}
}

func TestCanaryMainRefuses(t *testing.T) {
	for line, want := range map[string]string{
		`{"do":"dance"}`: "unknown order",
		`{"do":"touch"}`: "nothing filled",
		`{"do":"fill","bytes":1,"content":"text"}`:           "not a number of pages",
		`{"do":"fill","bytes":2199023255552}`:                "up to",
		`{"do":"fill","bytes":65536,"content":"lies"}`:       "neither text nor random",
		`{"do":"join","dirs":["/proc/self/nosuchdir/here"]}`: "join cgroup",
	} {
		list, err := orders(t, line)
		if err != nil || len(list) != 1 || !strings.Contains(list[0].Error, want) {
			t.Errorf("%s: %+v, %v; want %q", line, list, err, want)
		}
	}
	if _, err := orders(t, `garbage`); err == nil {
		t.Error("garbage is no error")
	}
}

func TestQuantile(t *testing.T) {
	d := make([]time.Duration, 101)
	for i := range d {
		d[i] = time.Duration(100 - i)
	}
	if p50, p99, p100 := quantile(d, 0.5), quantile(d, 0.99), quantile(d, 1); p50 != 50 || p99 != 99 || p100 != 100 {
		t.Errorf("%d %d %d", p50, p99, p100)
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("no values")
	}
}

func TestJudge(t *testing.T) {
	const out = 8 << 20
	count := func(f func(*counters)) counters {
		c := counters{areas: []areaCount{{name: "swap:/f", used: 5 << 20}, {name: "zram0", used: 1 << 20, orig: 1 << 20, mem: 1 << 19}}}
		if f != nil {
			f(&c)
		}
		return c
	}
	for _, tc := range []struct {
		what        string
		after       func(*counters)
		tier        string
		compression float64
		note        string
	}{
		{"v1 zswap", func(c *counters) {
			c.vm.ZswpOut, c.mem.Zswapped, c.mem.Zswap, c.areas[0].used = 2048, out, out/4, 5<<20+out
		}, "zswap", 4, ""},
		{"v2 zswap knows its own", func(c *counters) {
			c.vm.ZswpOut, c.mem.Zswapped, c.mem.Zswap = 2048, 9*out, out
			c.group.Zswapped, c.group.Zswap = out, out/2
		}, "zswap", 2, ""},
		{"v1 zswap beside others", func(c *counters) {
			c.vm.ZswpOut, c.mem.Zswapped, c.mem.Zswap = 9999, 3*out, out
		}, "zswap", 3, "others swapped"},
		{"pool hardly moved", func(c *counters) { c.vm.ZswpOut, c.mem.Zswapped, c.mem.Zswap = 2048, out/4, 1 }, "zswap", 0, ""},
		{"zswap rejects", func(c *counters) { c.vm.ZswpOut, c.vm.PswpOut, c.areas[0].used = 10, 2000, 5<<20+out }, "swap:/f", 1, ""},
		{"zram", func(c *counters) {
			c.vm.PswpOut, c.areas[1] = 2048, areaCount{name: "zram0", used: 1<<20 + out, orig: 1<<20 + out, mem: 1<<19 + out/4}
		}, "zram0", 4, ""},
		{"nothing moved", nil, "", 0, ""},
	} {
		t.Run(tc.what, func(t *testing.T) {
			m := judge(count(nil), count(tc.after), out)
			if m.Tier != tc.tier || m.Compression != tc.compression || !strings.Contains(m.Note, tc.note) || (tc.note == "") != (m.Note == "") {
				t.Errorf("%+v, want tier %q compression %v note %q", m, tc.tier, tc.compression, tc.note)
			}
		})
	}
}

func TestCanaryNeedsRoom(t *testing.T) {
	for _, tc := range []struct {
		archive string
		size    bytesize.Size
		want    string
		noSwap  bool
	}{
		{"none", 0, "no swap: anonymous memory cannot be offloaded, file cache only", true},
		{"partition_btrfs", 256 * bytesize.MiB, "of swap free", false},
		{"zram_only", bytesize.GiB, "swap free", false},
	} {
		root, _ := unpack(t, "testdata/"+tc.archive+".txtar")
		w := newFake(t, root)
		ms, err := Canary(t.Context(), CanaryConfig{Root: root, Set: open(t, root), Worker: w, Size: tc.size,
			Hierarchy: cgroup.Hierarchy{Memory: filepath.Join(root, "cg")}})
		if ms != nil || err == nil || !strings.Contains(err.Error(), tc.want) || errkind.Of(err) != errkind.Unavailable {
			t.Errorf("%s: %v, %v", tc.archive, ms, err)
		}
		if errors.Is(err, ErrNoSwap) != tc.noSwap {
			t.Errorf("%s: is ErrNoSwap: %v", tc.archive, !tc.noSwap)
		}
		w.expect()
	}
	_, err := Canary(t.Context(), CanaryConfig{Size: 1})
	if err == nil || errkind.Of(err) != errkind.Invalid {
		t.Errorf("size of one byte: %v", err)
	}
}

// A canary program that fails must leave no cgroup behind.
func TestCanaryCleansUpAfterFailure(t *testing.T) {
	for exe, want := range map[string]string{"/bin/false": "unexpected EOF", "/no/such/program": "no such file"} {
		root, _ := unpack(t, "testdata/zswap_file.txtar")
		w := newFake(t, root)
		h := cgroup.Hierarchy{Mode: cgroup.Hybrid, Memory: filepath.Join(root, "cg/memory"), Unified: filepath.Join(root, "cg/unified")}
		_, err := Canary(t.Context(), CanaryConfig{Root: root, Exe: exe, Set: open(t, root), Worker: w, Hierarchy: h})
		if err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "broken pipe") {
			t.Errorf("%s: error %v, want %q", exe, err, want)
		}
		name := fmt.Sprintf("%s%d", CanaryPrefix, os.Getpid())
		w.expect("mkdir memory/"+name, "mkdir unified/"+name, "undo mkdir unified/"+name, "undo mkdir memory/"+name)
	}
}

func TestRecordKeepsNaN(t *testing.T) {
	root, _ := unpack(t, "testdata/zram_only.txtar")
	s := open(t, root)
	s.Record(Measurement{Tier: "zram0", PSICounted: math.Inf(1)})
	if p, _ := s.Primary(); !math.IsNaN(p.Measured.PSICounted) {
		t.Errorf("an infinite share is kept: %v", p.Measured.PSICounted)
	}
}
