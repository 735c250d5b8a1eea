package track

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/offload/heat"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseLRUGen(t *testing.T) {
	const hostile = "/pods/with a space and node 7"
	got, err := parseLRUGen(bytes.NewReader(read(t, "lru_gen.txt")), 4096, map[string]bool{hostile: true, "/pods/gone": true, "/not/there": true})
	if err != nil {
		t.Fatal(err)
	}
	gen := func(seq uint64, ms, pages int64) heat.Generation {
		return heat.Generation{Seq: seq, Age: time.Duration(ms) * time.Millisecond, Bytes: pages * 4096}
	}
	want := map[string]*memcg{
		hostile: {id: 57, nodes: []memcgNode{
			{0, []heat.Generation{gen(5, 482000, 1010), gen(6, 361000, 220), gen(7, 120000, 33), gen(8, 0, 4)}},
			{1, []heat.Generation{gen(0, 60000, 2), gen(1, 10, 0)}},
		}},
		// The first of the two is dying: its successor was made later.
		"/pods/gone": {id: 58, nodes: []memcgNode{{0, []heat.Generation{gen(0, 9000, 3), gen(1, 10, 0)}}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestParseLRUGenRefuses(t *testing.T) {
	for _, text := range []string{
		"memcg x /a\n", "memcg\n", "memcg 1 /a\n 1 2 3 4\n", "memcg 1 /a\n node x\n", "memcg 1 /a\n node 0\n 1 2 3\n",
		"memcg 1 /a\n node 0\n 2 1 0 0\n 2 0 0 0\n", "memcg 1 /a\n node 0\n 1 99999999999999 0 0\n", "memcg 1 /a\n node 99999\n",
		"memcg 1 /a\n node 0\n x x x x\n", "memcg 1 /a\n node 0\n -1 0 0 0\n",
	} {
		if got, err := parseLRUGen(strings.NewReader(text), 4096, map[string]bool{"/a": true}); err == nil {
			t.Errorf("%q is read as %+v", text, got["/a"])
		}
	}
	// What is wrong with a cgroup nobody asked for is nobody's trouble.
	if _, err := parseLRUGen(strings.NewReader("memcg 1 /b\n node x\n"), 4096, map[string]bool{"/a": true}); err != nil {
		t.Error(err)
	}
}

func TestParseSmaps(t *testing.T) {
	got, err := parseSmaps(bytes.NewReader(read(t, "smaps.txt")))
	if err != nil {
		t.Fatal(err)
	}
	// Shared text is never idle; the heap, of which half is private, has nothing that is surely idle.
	want := heat.Sight{Total: (128 + 65536 + 768) << 10, Idle: (65536 - 16384) << 10, Touched: (16384 + 512) << 10}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, err := parseSmaps(strings.NewReader("")); err != nil || got != (heat.Sight{}) {
		t.Errorf("a kernel thread: %+v, %v", got, err)
	}
}

func TestParseSmapsRefuses(t *testing.T) {
	for _, text := range []string{
		"Pss: x kB\n", "Pss: 1 MB\n", "Pss: 1\n", "Pss 1 kB\n", "Referenced: 99999999999999999999999 kB\n", "Pss: 1099511627776 kB\nPss: 1099511627776 kB\n",
		strings.Repeat("VmFlags: rd wr mr mw me ac sd ac sd ac sd ac sd ac sd ac sd ac sd ac sd\n", 1<<20),
	} {
		if got, err := parseSmaps(strings.NewReader(text)); err == nil {
			t.Errorf("%.60q is read as %+v", text, got)
		}
	}
}

func TestLongLinesAreCut(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	l := newLines(strings.NewReader("a\n" + long + "\nb\n" + long))
	var got []string
	for {
		line, err := l.next()
		if err != nil {
			break
		}
		got = append(got, string(line))
	}
	if len(got) != 4 || got[0] != "a" || got[2] != "b" || len(got[1]) != 32<<10 || got[1] != long[:len(got[1])] {
		t.Errorf("%d lines, the second has %d bytes", len(got), len(got[1]))
	}
}

func FuzzLRUGen(f *testing.F) {
	f.Add(read(f, "lru_gen.txt"))
	f.Add([]byte("memcg 1 /a\n node 0\n 1 2 3 4\n 2 0 1x 1\n"))
	f.Add([]byte("memcg 1 /a\n node 0\n18446744073709551615 1 1099511627776 1099511627776\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		found, err := parseLRUGen(bytes.NewReader(b), 4096, map[string]bool{"/a": true, "": true, "/pods/gone": true})
		if err != nil {
			return
		}
		for path, m := range found {
			for _, n := range m.nodes {
				for i, g := range n.gens {
					if g.Age < 0 || g.Bytes < 0 || i > 0 && g.Seq <= n.gens[i-1].Seq {
						t.Errorf("%q: generations %+v", path, n.gens)
					}
				}
			}
		}
	})
}

func FuzzSmaps(f *testing.F) {
	f.Add(read(f, "smaps.txt"))
	f.Add([]byte("Pss: 1 kB\nPrivate_Dirty: 5 kB\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseSmaps(bytes.NewReader(b))
		if err == nil && (s.Total < 0 || s.Idle < 0 || s.Idle > s.Total || s.Touched < 0 || s.Total > 2*mostResident) {
			t.Errorf("%+v", s)
		}
	})
}
