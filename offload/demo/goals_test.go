package demo

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spillway-io/spillway/internal/errkind"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// example is a result with everything in it; the tests change one thing each.
func example() *Result {
	server := func(name string, offloaded bool) ServerStats {
		s := ServerStats{Name: name, Offloaded: offloaded, Start: 412e6, End: 411e6, P50: 101, P99: 480,
			Throughput: 2500, Reads: 192_500, Saved: 1e6, Saving: 0.002, FaultsPer1000: 0.1}
		if offloaded {
			s.End, s.Saved, s.Pool, s.Saving, s.FaultsPer1000 = 201e6, 121e6, 88e6, 0.293, 6.4
			s.Decisions, s.Steps, s.StepTook = map[string]int{"steady": 60, "eased": 17, "refault-cost": 3, "hold": 2}, 77, 24
		}
		return s
	}
	res := &Result{Room: "offload", Machine: "Linux 6.1.0-30-amd64 x86_64, 2 CPUs, 8 GiB", Law: "composite", Period: 1, Goals: map[string]Goal{},
		Calibration: Calibration{Ratio: summary{18, 1.003, 0.96, 1.04}}, AARatio: 1.003, SidecarColdGone: 0.83,
		GiveBack: &GiveBack{Server: "redis-a", Keys: 180_000, Seconds: 3.2, Refaults: 52_000, PSI: true, PSISeconds: 0.031, PSIShare: 0.07, Before: 201e6, After: 408e6},
		Sidecar:  Side{Start: 108e6, End: 21e6, Decisions: map[string]int{"steady": 190}},
		Batch:    Side{Start: 30e6, End: 28e6, Decisions: map[string]int{"floor": 150, "steady": 44}},
	}
	for i, ratios := range [][]float64{{1.01, 0.99, 1.04, 1.02}, {0.98, 1.05, 1.00, 1.03}} {
		names := []string{"redis-a", "redis-b"}
		h := Half{Offloaded: names[i], ratios: ratios, Ratio: summarize(ratios)}
		for j, n := range names {
			h.Servers[j] = server(n, i == j)
		}
		res.Halves = append(res.Halves, h)
	}
	return res
}

func TestVerdict(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Result)
		left   []string
		want   string // part of the error, "" for none
		kind   errkind.Kind
	}{
		{"all met", func(*Result) {}, nil, "", 0},
		{"saving of one half too small", func(r *Result) { r.Halves[1].Servers[1].Saving = 0.249 }, nil, "redis_saving is 0.249, wanted >= 0.25", errkind.Internal},
		{"p99 too high", func(r *Result) { r.Halves[0].ratios = []float64{1.2, 1.3, 1.2, 1.4, 1.3, 1.2} }, nil, "redis_p99_ratio is 1.2, wanted <= 1.10", errkind.Internal},
		{"noise", func(r *Result) { r.AARatio = 1.3 }, nil, "too noisy to judge redis_p99_ratio", errkind.Unknown},
		{"noise below", func(r *Result) { r.AARatio = 0.7 }, nil, "gave a ratio of 0.70", errkind.Unknown},
		{"A/A unknown", func(r *Result) { r.AARatio = number(math.NaN()) }, nil, "too noisy", errkind.Unknown},
		{"noise and a miss", func(r *Result) { r.AARatio, r.SidecarColdGone = 1.3, 0.5 }, nil, "sidecar_cold_gone is 0.5", errkind.Internal},
		{"no seconds", func(r *Result) { r.Halves[0].ratios, r.Halves[1].ratios = nil, nil }, nil, "redis_p99_ratio is NaN", errkind.Internal},
		{"something left", func(*Result) {}, []string{"cgroup /x"}, "leftovers is 1, wanted 0", errkind.Internal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := example()
			tt.change(res)
			res.judge()
			res.addLeftovers(tt.left)
			err := res.verdict()
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || errkind.Of(err) != tt.kind {
				t.Errorf("error %v (kind %v), want %q (kind %v)", err, errkind.Of(err), tt.want, tt.kind)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Error("the verdict is more than one line")
			}
		})
	}
}

func TestReport(t *testing.T) {
	res := example()
	res.judge()
	var b bytes.Buffer
	printResult(&b, res)
	printLeftovers(&b, []string{"cgroup /sys/fs/cgroup/memory/x\x1b[31m"})
	golden := filepath.Join("testdata", "report", "full.golden")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestResultFile(t *testing.T) {
	res := example()
	res.judge()
	res.addLeftovers(nil)
	path := filepath.Join(t.TempDir(), "bench", "out", "demo.json")
	for range 2 { // the second replaces the first
		if err := res.write(path); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"room", "commit", "machine", "goals", "redis_saving", "redis_p99_ratio", "redis_faults_per_1000", "sidecar_cold_gone", "aa_ratio", "leftovers"} {
		if _, ok := got[key]; !ok {
			t.Errorf("no key %q", key)
		}
	}
	goal, ok := got["goals"].(map[string]any)["redis_p99_ratio"].(map[string]any)
	if !ok {
		t.Fatal("no goal redis_p99_ratio")
	}
	for _, key := range []string{"what", "value", "unit", "target", "baseline", "runs", "spread", "pass"} {
		if _, ok := goal[key]; !ok {
			t.Errorf("goal without %q", key)
		}
	}
	if err := (&Result{}).write(""); err != nil {
		t.Errorf("no path: %v", err)
	}
}
