package cgroup

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/proc"
)

var update = flag.Bool("update", false, "rewrite testdata/*/stat.golden")

// Each folder of testdata is one cgroup as a kernel of that version shows it.
func TestStatOfEveryKernel(t *testing.T) {
	dirs, err := filepath.Glob("testdata/v*")
	if err != nil || len(dirs) < 5 {
		t.Fatalf("%d folders, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			g := openFolder(t, dir)
			var s Stat
			if err := g.Stat(&s); err != nil {
				t.Fatal(err)
			}
			if usage, err := g.Usage(); err != nil || usage != s.Usage {
				t.Errorf("Usage() is %d, %v; Stat says %d", usage, err, s.Usage)
			}
			again := s
			again.Usage, again.Anon, again.File, again.RefaultFile = -1, -1, -1, 1<<60
			if err := g.Refresh(&again); err != nil || again != s {
				t.Errorf("Refresh gives %+v, %v; Stat %+v", again, err, s)
			}
			golden := filepath.Join(dir, "stat.golden")
			got := render(s)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

func openFolder(t testing.TB, dir string) *Group {
	t.Helper()
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(abs)
	h := Hierarchy{Mode: V1, Memory: filepath.Dir(abs)}
	if strings.HasPrefix(name, "v2") {
		h.Mode = V2
	}
	path := "/" + name
	if strings.HasSuffix(name, "root") {
		h.Memory, path = abs, "/"
	}
	g, err := h.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func render(s Stat) string {
	var b strings.Builder
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		fmt.Fprintf(&b, "%-13s%v\n", v.Type().Field(i).Name, v.Field(i))
	}
	return b.String()
}

func TestStatRefusesDamage(t *testing.T) {
	for name, text := range map[string]string{
		"empty":         "",
		"another file":  "some avg10=0.00 total=0\n",
		"local lines":   "rss 4096\ncache 0\n",
		"negative":      "total_rss -1\n",
		"no number":     "total_rss\n",
		"beyond int64":  "total_rss 9223372036854775808\n",
		"beyond uint64": "total_rss 1\ntotal_pgmajfault 18446744073709551616\n",
		"too long":      "total_rss 1\n" + strings.Repeat("x 1\n", statBuffer/4),
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "v1")
			copyFolder(t, dir, "testdata/v1-6.18")
			if err := os.WriteFile(filepath.Join(dir, "memory.stat"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			var s Stat
			err := openFolder(t, dir).Stat(&s)
			if !errors.Is(err, proc.ErrFormat) || !strings.Contains(err.Error(), "memory.stat") {
				t.Errorf("%v", err)
			}
		})
	}
}

func copyFolder(t *testing.T, dst, src string) {
	t.Helper()
	if err := os.CopyFS(dst, os.DirFS(src)); err != nil {
		t.Fatal(err)
	}
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v2")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h := Hierarchy{Mode: V2, Memory: filepath.Dir(dir)}
	_, err := h.Open("/v2")
	if errkind.Of(err) != errkind.Unsupported || !strings.Contains(errkind.HintOf(err), "subtree_control") {
		t.Errorf("without the controller: %v, hint %q", err, errkind.HintOf(err))
	}
	if _, err := h.Open("/other"); !errors.Is(err, ErrGone) {
		t.Errorf("without the directory: %v", err)
	}
	if err := os.Symlink("v2", filepath.Join(h.Memory, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Open("/link"); err == nil {
		t.Error("followed a link")
	}
	for _, path := range []string{"", "v2", "/v2/", "/v2/../v2", "//v2", "/.", "/v2\x00"} {
		if _, err := h.Open(path); errkind.Of(err) != errkind.Invalid {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestRestoreTouchesOnlyItsOwnLimit(t *testing.T) {
	for _, c := range []struct {
		now, want string
		err       error
	}{
		{"8192\n", "16384\n", nil},         // ours: back to the old one
		{"16384\n", "16384\n", nil},        // the write never took
		{"12288\n", "12288\n", ErrForeign}, // somebody else's
	} {
		f, err := os.CreateTemp(t.TempDir(), "limit")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(c.now); err != nil {
			t.Fatal(err)
		}
		if err := restore(int(f.Fd()), 16384, 8192); !errors.Is(err, c.err) {
			t.Errorf("limit %q: %v", c.now, err)
		}
		if b, err := os.ReadFile(f.Name()); err != nil || string(b) != c.want {
			t.Errorf("limit %q became %q, %v", c.now, b, err)
		}
	}
}

func FuzzMemoryStat(f *testing.F) {
	files, err := filepath.Glob("testdata/v*/memory.stat")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("total_rss 1\nhierarchical_memory_limit 18446744073709551615\n"))
	f.Add([]byte("anon 1\n\n \nanon"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte, *Stat) error{parseStatV1, parseStatV2, parseEvents} {
			s := Stat{Limit: Unlimited}
			if err := parse(b, &s); err != nil {
				if !errors.Is(err, proc.ErrFormat) {
					t.Errorf("%v", err)
				}
				continue
			}
			if s.Anon < 0 || s.File < 0 || s.Swap < 0 || s.Zswapped < 0 || s.Limit < Unlimited {
				t.Errorf("negative size: %+v", s)
			}
		}
		if n, err := parseNumber(b); err == nil && n < Unlimited {
			t.Errorf("number %d", n)
		}
	})
}

func BenchmarkStat(b *testing.B) {
	for _, name := range []string{"v1-6.18", "v2-6.1"} {
		b.Run(name, func(b *testing.B) {
			g := openFolder(b, filepath.Join("testdata", name))
			b.ReportAllocs()
			var s Stat
			for b.Loop() {
				if err := g.Stat(&s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("host", func(b *testing.B) { // the real kernel: the cgroup this process sits in
		h, err := Discover("/")
		if err != nil {
			b.Skip(err)
		}
		self, err := h.Self()
		if err != nil {
			b.Skip(err)
		}
		g, err := h.Open(self)
		if err != nil {
			b.Skip(err)
		}
		defer g.Close()
		b.ReportAllocs()
		var s Stat
		for b.Loop() {
			if err := g.Stat(&s); err != nil {
				b.Fatal(err)
			}
		}
	})
}
