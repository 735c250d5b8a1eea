package track

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseVMAs(t *testing.T) {
	vmas, pss, err := parseVMAs(bytes.NewReader(read(t, "smaps.txt")))
	if err != nil || pss != (128+65536+768)<<10 || len(vmas) == 0 {
		t.Fatalf("%v, %d, %v", vmas, pss, err)
	}
	for i, v := range vmas {
		if v.start >= v.end || v.private <= 0 || v.private > int64(v.end-v.start) || i > 0 && v.start < vmas[i-1].end {
			t.Errorf("mapping %+v", v)
		}
	}
	for _, bad := range []string{"10-0 rw-p\n", "x-y rw-p\n", "0-ffffffffffffffff rw-p\n", "0-1000 r\nPss: x kB\n", "0-1000 r\nPrivate_Dirty: 4 kB\n800-2000 r\nPrivate_Dirty: 4 kB\n"} {
		if got, _, err := parseVMAs(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

func TestParseLife(t *testing.T) {
	l, ok := parseLife([]byte("7 (x) 1 2 (y) S 1 1 1 0 -1 0 0 0 0 0 30 45 0 0 20 0 1 0 12345 0 0\n"))
	if !ok || l != (life{12345, 750 * time.Millisecond}) {
		t.Errorf("%+v, %v", l, ok)
	}
	for _, bad := range []string{"", "7 (x", "7 (x) S 1 2", "7 (x) S 1 1 1 0 -1 0 0 0 0 0 x 45 0 0 20 0 1 0 12345 0"} {
		if l, ok := parseLife([]byte(bad)); ok {
			t.Errorf("%q is read as %+v", bad, l)
		}
	}
}

func FuzzVMAs(f *testing.F) {
	f.Add(read(f, "smaps.txt"))
	f.Add([]byte("0-1000 rw-p\nPrivate_Dirty: 8 kB\nPss: 1 kB\n1000-2000 rw-p\nPrivate_Clean: 4 kB\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		vmas, pss, err := parseVMAs(bytes.NewReader(b))
		if err != nil {
			return
		}
		for i, v := range vmas {
			if v.start >= v.end || v.private <= 0 || v.private > int64(v.end-v.start) || i > 0 && v.start < vmas[i-1].end {
				t.Errorf("mapping %+v", v)
			}
		}
		if pss < 0 {
			t.Errorf("share %d", pss)
		}
		var last uint64
		for _, e := range extents(vmas) {
			if e.start >= e.end || e.start < last {
				t.Errorf("extent %+v after %#x", e, last)
			}
			last = e.end
		}
	})
}

func FuzzLife(f *testing.F) {
	f.Add([]byte("7 (x) S 1 1 1 0 -1 0 0 0 0 0 30 45 0 0 20 0 1 0 12345 0 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, ok := parseLife(b); ok && l.cpu < 0 {
			t.Errorf("%+v", l)
		}
	})
}

func FuzzPagemap(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0, 0, 0, 0, 0, 0, 0, 0x81}, 20), uint64(4096), uint64(40960))
	f.Fuzz(func(t *testing.T, b []byte, start, end uint64) {
		if start >= end || end > 1<<62 {
			return
		}
		p := newPagemap()
		n, ok, err := p.resident(bytes.NewReader(b), extent{start, end})
		if err != nil || n < 0 || n > int64(len(b)/8)*int64(p.page) || !ok && n != 0 {
			t.Errorf("%d bytes, %v, %v", n, ok, err)
		}
	})
}

// Whatever DAMON's files hold, and whatever the mappings are, no quiet part lies outside what is watched and mapped.
func FuzzRegions(f *testing.F) {
	f.Add("4096", "40960", "0", "7")
	f.Add("0", "18446744073709551615", "0", "18446744073709551615")
	f.Fuzz(func(t *testing.T, start, end, accesses, age string) {
		dir := t.TempDir()
		err := os.Mkdir(filepath.Join(dir, "0"), 0o755)
		for name, text := range map[string]string{"start": start, "end": end, "nr_accesses": accesses, "age": age} {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, "0", name), []byte(text), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
		regions, err := readRegions(dir)
		if err != nil {
			return
		}
		at := begin.Add(time.Hour)
		spans := []span{{extent{4096, 8192}, begin}, {extent{16384, 1 << 40}, begin.Add(time.Minute)}}
		vmas := []vma{{extent{0, 6000}, 4096}, {extent{20480, 40960}, 20480}}
		for _, q := range quietParts(regions, spans, vmas, at, aggregations*damonSample) {
			if q.start >= q.end || q.idle <= 0 || q.idle > time.Hour || q.start < 4096 || q.end > 40960 {
				t.Errorf("%+v of %+v", q, regions)
			}
		}
		deal(regions, [][]extent{{{4096, 8192}}, {{16384, 1 << 40}}})
	})
}
