package workloads

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/offload"
	"github.com/spillway-io/spillway/offload/slo"
)

// What a run writes into the configuration is what the daemon reads, and asks for the twin that is offloaded.
func TestSLOLinesAreWhatTheDaemonReads(t *testing.T) {
	for _, set := range sloSettings {
		file := filepath.Join(t.TempDir(), "c.yaml")
		text := "offload:\n" + set.lines("/spillway-bench/a", "127.0.0.1:9100", "/run/a.sock") + "  params:\n    latency:\n      ratio: 0.01\n"
		for _, param := range set.targets { // as package rig writes them
			text += "      " + param + "\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var f struct {
			Offload offload.Config `yaml:"offload"`
		}
		if err := cli.LoadYAML(file, &f); err != nil {
			t.Fatalf("%s: %v", set.name, err)
		}
		cfg, err := f.Offload.Resolved()
		if err != nil {
			t.Fatalf("%s: %v", set.name, err)
		}
		if len(cfg.SLO) != 1 || cfg.SLO[0].Cgroup != "/spillway-bench/a" {
			t.Fatalf("%s: %+v", set.name, cfg.SLO)
		}
		src := cfg.SLO[0].Source
		if (src.Prometheus != nil) != (set.source == "prometheus") || (src.Redis != nil) != (set.source == "redis") {
			t.Errorf("%s: source %+v", set.name, src)
		}
	}
}

// The agent reads from the generator's page what the generator measured, of one twin alone.
func TestExportIsReadBack(t *testing.T) {
	page, observe := newExport([]drive.Target{{Name: "a"}, {Name: "b"}})
	server := httptest.NewServer(page)
	defer server.Close()
	src, err := slo.Open(slo.Config{Timeout: 5 * time.Second, Prometheus: &slo.Prometheus{
		URL: server.URL, Metric: exportMetric, Labels: map[string]string{"twin": "a"}, Unit: time.Second,
	}}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if r := src.Read(context.Background()); r.State != slo.Starting {
		t.Fatalf("first reading %+v", r)
	}
	for i := range 1000 {
		took := 500 * time.Microsecond
		if i%50 == 0 { // a fiftieth: the p99 is among them
			took = 3 * time.Millisecond
		}
		observe(0, took)
		observe(1, time.Second)
	}
	r := src.Read(context.Background())
	if r.State != slo.Good || r.Count != 1000 || r.P99 < 2700*time.Microsecond || r.P99 > 3300*time.Microsecond {
		t.Errorf("%+v, want 1000 requests and a p99 of 3ms within a bucket's tenth", r)
	}
}

func TestSLORunFirstAndLast(t *testing.T) {
	var r SLORun
	if _, ok := r.Last(); ok || r.First(func(admin.SLO) bool { return true }) >= 0 {
		t.Error("something was seen of nothing")
	}
	for i, m := range []float64{1, 1, 0.5} {
		r.Looks = append(r.Looks, SLOLook{time.Duration(i) * time.Second, admin.SLO{Multiplier: m}})
	}
	if at := r.First(func(s admin.SLO) bool { return s.Multiplier < 1 }); at != 2*time.Second {
		t.Errorf("first below 1 at %v", at)
	}
	if l, ok := r.Last(); !ok || l.Multiplier != 0.5 {
		t.Errorf("last %+v", l)
	}
	if !(SLOLook{SLO: admin.SLO{Why: fellBack + ": targets of the class"}}).says(fellBack) || r.Looks[0].says(fellBack) {
		t.Error("says")
	}
}
