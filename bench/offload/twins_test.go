package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/bench/workloads"
)

func TestWanted(t *testing.T) {
	for _, tt := range []struct {
		only, name string
		want       bool
	}{
		{"", "G1", true}, {"", "W.nginx", false}, {"G1", "G1", true}, {"G1", "G10", false}, {"W", "W.nginx", true},
		{"W.redis", "W.redis.tmo", true}, {"W.redis.tmo", "W.redis.tmo", true}, {"W.red", "W.redis.tmo", false}, {"W", "G1", false},
		{"", "W4", false}, {"W", "W4", true}, {"W4", "W4", true}, {"W4", "W4.tmo", true}, {"", "G9", false}, {"G9", "G9", true}, {"", "G10", true},
	} {
		if got := wanted(tt.only, tt.name); got != tt.want {
			t.Errorf("wanted(%q, %q) = %v", tt.only, tt.name, got)
		}
	}
}

// Every goal has a name of its own, and -law shows in it.
func TestTwinGoals(t *testing.T) {
	for law, want := range map[string]string{"composite": "W.nginx", "tmo": "W.nginx.tmo", "oomd": "W.nginx.oomd"} {
		seen := map[string]bool{}
		for _, g := range (&bench{law: law}).twinGoals() {
			if seen[g.name] || g.run == nil || !strings.HasPrefix(g.name, "W.") {
				t.Errorf("goal %q", g.name)
			}
			seen[g.name] = true
		}
		if !seen[want] || !seen["W.redis.off"] || !seen["W.redis.composite"] {
			t.Errorf("under %s: no %s among %v", law, want, seen)
		}
		if seen["W.build.oomd"] {
			t.Error("the build runs under the real daemon only")
		}
	}
}

// What is unknown must not keep the rest from being written.
func TestPairExtraIsJSON(t *testing.T) {
	r := &workloads.Result{Halves: []workloads.Half{{On: 1, Twins: [2]workloads.Twin{{}, {Stall: math.NaN(), P99: 5, Reasons: map[string]int{"steady": 3}}}}}}
	extra := finite(pairExtra(r))
	if _, err := json.Marshal(extra); err != nil {
		t.Error(err)
	}
	if _, ok := extra["on_stall_share"]; ok || extra["on_p99_us"] != 5 || extra["off_p99_us"] != 0 || extra["decided_steady"] != 3 {
		t.Errorf("extra %v", extra)
	}
}
