package workloads

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// points a second apart, one a value, the first one second after start.
func points(start time.Time, counts ...uint64) (out []point) {
	for i, n := range counts {
		at := start.Add(time.Duration(i+1) * time.Second)
		out = append(out, point{at, at.Add(-time.Second), n})
	}
	return out
}

func TestSettleFindsTheReturn(t *testing.T) {
	step := time.Unix(9000, 0)
	for _, tt := range []struct {
		why        string
		counts     []uint64
		back, peak float64
	}{
		{"a burst that is over: the mean of five seconds lags behind", []uint64{100, 80, 60, 40, 20, 10, 10, 10, 10, 10, 10}, 9, 60},
		{"nothing happened", []uint64{9, 10, 9, 10, 9, 10}, 5, 9.6},
		{"it never ends", []uint64{50, 50, 50, 50, 50, 50, 50}, -1, 50},
		{"too short to tell", []uint64{1, 1, 1}, -1, 0},
		{"it comes back later, which is the base's own business", []uint64{5, 5, 5, 5, 5, 90, 90, 90}, 5, 56},
	} {
		back, peak := settle(points(step, tt.counts...), step, 12)
		if back != tt.back || math.Abs(peak-tt.peak) > 1e-9 {
			t.Errorf("%s: back %v, peak %v", tt.why, back, peak)
		}
	}
	if !math.IsNaN(rate(nil)) {
		t.Error("the rate of nothing is known")
	}
}

func TestParseSchedstat(t *testing.T) {
	if d, err := parseSchedstat("1500000000 20 3\n"); err != nil || d != 1500*time.Millisecond {
		t.Error(d, err)
	}
	for _, bad := range []string{"", "1 2", "x 2 3", "-1 2 3", "1 2 3 4"} {
		if _, err := parseSchedstat(bad); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

// The limit is written in the words of whichever file there is.
func TestSetLimit(t *testing.T) {
	for name, want := range map[string]string{"memory.max": "max", "memory.limit_in_bytes": "-1"} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := setLimit(dir, "max", "-1"); err != nil {
			t.Error(err)
		}
		if b, _ := os.ReadFile(file); string(b) != want {
			t.Errorf("%s holds %q", name, b)
		}
	}
	if err := setLimit(t.TempDir(), "max", "-1"); err == nil {
		t.Error("a cgroup without a limit was limited")
	}
}

func TestCapacityCountsTheWorker(t *testing.T) {
	own, all := LimitBlock{On: 1, CPU: [2]float64{50, 40}, Worker: 10}.Capacity()
	if own != 1.25 || all != 1 {
		t.Errorf("%v, %v", own, all)
	}
}

func TestAccuracy(t *testing.T) {
	d := Descent{Taken: 1000, Back: 30, RestTaken: 10, RestBack: 5}
	if d.Accuracy() != 0.97 || d.RestAccuracy() != 0.5 {
		t.Error(d.Accuracy(), d.RestAccuracy())
	}
	d.Back, d.Late = 40, 20 // ten of the late ones may have been taken meanwhile
	if d.Accuracy() != 0.97 {
		t.Error(d.Accuracy())
	}
}

// Members lie in the parents that are made before them, and every one has something to do.
func TestNodeMixIsWhole(t *testing.T) {
	names, tax := map[string]bool{}, 0
	for _, p := range nodeMix() {
		base := p.Name[strings.LastIndex(p.Name, "/")+1:]
		if names[base] || !strings.HasPrefix(p.Name, burstable+"/") && !strings.HasPrefix(p.Name, bestEffort+"/") {
			t.Errorf("member %q", p.Name)
		}
		names[base] = true
		if p.keys == 0 && p.sidecar == nil || p.Cold <= 0 || p.Cold >= 1 {
			t.Errorf("%q: %+v", p.Name, p)
		}
		if s := p.sidecar; s != nil && s.Hot > s.Cold {
			t.Errorf("%q: its program refuses %+v", p.Name, *s)
		}
		if p.Class == "tax" {
			tax++
		}
	}
	if len(names) != 6 || tax != 3 {
		t.Errorf("%d members, %d of them tax", len(names), tax)
	}
}
