package workloads

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/bench/workloads/client"
	"github.com/spillway-io/spillway/offload/demo/load"
)

func second(n int, start time.Time, ms float64) load.Second {
	h := load.NewHistogram()
	for range 100 {
		h.RecordValue(int64(ms * 1e6))
	}
	return load.Second{Number: n, Start: start.Add(time.Duration(n) * time.Second), Latency: h}
}

// Only whole seconds that both twins finished count, and those right after the change do not.
func TestRatiosPairSeconds(t *testing.T) {
	start := time.Unix(5000, 0)
	s := &stage{cfg: Config{Quick: true}, seconds: [2]map[int]load.Second{{}, {}}}
	for n := range 12 {
		s.seconds[0][n] = second(n, start, 2*float64(n+1))
		if n != 6 { // the other twin never finished this one
			s.seconds[1][n] = second(n, start, float64(n+1))
		}
	}
	skip := int(s.cfg.times().skip / time.Second)
	got := s.ratios(span{start, start.Add(10 * time.Second)}, 0)
	if want := 10 - skip - 1; len(got) != want {
		t.Fatalf("%d ratios, want %d", len(got), want)
	}
	for _, r := range got {
		if math.Abs(r-2) > 0.01 {
			t.Errorf("ratio %v, want 2", r)
		}
	}
	if other := s.ratios(span{start, start.Add(10 * time.Second)}, 1); math.Abs(other[0]-0.5) > 0.01 {
		t.Errorf("the other way round %v, want 0.5", other[0])
	}
}

func TestSummaryAndMean(t *testing.T) {
	if s := summarize([]float64{4, 1, 3, 2, 5}); s != (Summary{5, 3, 2, 4}) {
		t.Errorf("summary %+v", s)
	}
	if s := summarize(nil); s.N != 0 || !math.IsNaN(s.Median) {
		t.Errorf("of nothing: %+v", s)
	}
	if !math.IsNaN(mean(nil)) || mean([]float64{1, 3}) != 2 {
		t.Error("mean")
	}
}

// What the other twin lost by itself is no saving of ours; what it gained is no loss.
func TestNet(t *testing.T) {
	for want, h := range map[float64]Half{
		0.2: {On: 0, Twins: [2]Twin{{Saving: 0.25}, {Saving: 0.05}}},
		0.3: {On: 1, Twins: [2]Twin{{Saving: -0.1}, {Saving: 0.3}}},
	} {
		if got := h.Net(); math.Abs(got-want) > 1e-9 {
			t.Errorf("net %v, want %v", got, want)
		}
	}
}

// Every workload names what it needs, has keys that are asked for, and a name that a goal can have.
func TestAllWorkloadsAreWhole(t *testing.T) {
	for _, quick := range []bool{true, false} {
		cfg := Config{Quick: quick, Out: io.Discard}
		var names []string
		for _, w := range append(All(cfg), Redis(cfg)) {
			names = append(names, w.Name)
			if w.Start == nil || w.What == "" || strings.ContainsAny(w.Name, ". ") {
				t.Errorf("%+v is not whole", w)
			}
			if (w.Kind == "") != (w.Adversary != nil) || w.Kind != "" && len(w.Needs) == 0 {
				t.Errorf("%s: kind %q, needs %v", w.Name, w.Kind, w.Needs)
			}
			if l := w.Load; l.Rate < 1 || l.Keys < 1 || l.Cold >= l.Keys || l.Conns < 1 {
				t.Errorf("%s: load %+v", w.Name, l)
			}
		}
		slices.Sort(names)
		if len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("two have one name: %q", names)
		}
	}
}

func TestWriteTree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tree")
	if err := writeTree([]string{dir, "258"}); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 257} {
		info, err := os.Stat(filepath.Join(dir, client.FilePath(i)))
		if err != nil || info.Size() != client.FileSize {
			t.Errorf("file %d: %v, %v", i, info, err)
		}
	}
	n := 0
	if err := eachFile(dir, func(*os.File) error { n++; return nil }); err != nil || n != 258 {
		t.Errorf("%d files, %v", n, err)
	}
	for _, args := range [][]string{nil, {dir}, {dir, "0"}, {dir, "x"}, {dir, "1000000"}} {
		if err := writeTree(args); err == nil {
			t.Errorf("%q: accepted", args)
		}
	}
}

// The configuration touches nothing outside the experiment's folder and listens on its socket only.
func TestNginxConf(t *testing.T) {
	conf := nginxConf("/x/tmp", "a", "/x/tmp/a.tree", "/x/tmp/a.sock")
	if strings.Count(conf, "listen ") != 1 || !strings.Contains(conf, "listen unix:/x/tmp/a.sock;") {
		t.Errorf("listens elsewhere:\n%s", conf)
	}
	for f := range strings.FieldsSeq(conf) {
		if strings.HasPrefix(f, "/") && !strings.HasPrefix(f, "/x/tmp/a.") {
			t.Errorf("touches %s", f)
		}
	}
}

func TestBuildRatio(t *testing.T) {
	b := BuildResult{Off: []BuildRun{{Wall: 10 * time.Second, Mean: 100}}, On: []BuildRun{{Wall: 11 * time.Second, Mean: 80}, {}}}
	ratio, saved := b.Ratio()
	if len(ratio) != 1 || math.Abs(ratio[0]-1.1) > 1e-9 || math.Abs(saved[0]-0.2) > 1e-9 {
		t.Errorf("ratio %v, saved %v", ratio, saved)
	}
}

func TestMissingSaysWhatToInstall(t *testing.T) {
	m := &Missing{Program{"/usr/sbin/x", "x-server"}}
	if !strings.Contains(m.Error(), "apt-get install") || !strings.Contains(m.Error(), "x-server") {
		t.Error(m)
	}
}
