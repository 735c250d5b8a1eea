package demo

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/offload/demo/load"
)

func TestFootprint(t *testing.T) {
	const mb = 1 << 20
	of := func(usage, swap, cached int64) reading {
		return reading{Stat: cgroup.Stat{Usage: usage * mb, Swap: swap * mb, SwapCached: cached * mb}}
	}
	first := sample{pool: 10 * mb}
	meta := func(swap int64) int64 { return swap * mb / 4096 * pageMeta }
	tests := []struct {
		name string
		s    sample
		mode cgroup.Mode
		want int64 // of member 0
	}{
		{"nothing swapped", sample{pool: 10 * mb, of: []reading{of(400, 0, 0)}}, cgroup.V1, 400 * mb},
		{"the pool's growth is shared by what is stored", sample{pool: 110 * mb, of: []reading{of(200, 150, 0), of(10, 50, 0)}}, cgroup.Hybrid, 275*mb + meta(150)},
		{"what came back holds no pool", sample{pool: 110 * mb, of: []reading{of(400, 0, 200), of(200, 200, 0)}}, cgroup.Hybrid, 400 * mb},
		{"a pool that shrank saved nothing", sample{pool: 5 * mb, of: []reading{of(200, 100, 0)}}, cgroup.V1, 200*mb + meta(100)},
		{"v2 charges the pool itself", sample{pool: 110 * mb, of: []reading{of(200, 150, 0)}}, cgroup.V2, 200*mb + meta(150)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.s.footprint(0, first, tt.mode); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// second is what a target reports when all its reads of a second took d.
func second(target, number int, d time.Duration) load.Second {
	h := hdrhistogram.New(1, int64(time.Minute), 3)
	h.RecordValues(int64(d), 100)
	return load.Second{Target: target, Number: number, Start: at(float64(number)), Latency: h}
}

func TestPairsAndRatios(t *testing.T) {
	g := &generator{seconds: [2]map[int]load.Second{{}, {}}}
	for n := range 10 {
		g.seconds[0][n] = second(0, n, 2*time.Millisecond)
		if n != 5 { // the other server has not finished this one
			g.seconds[1][n] = second(1, n, time.Millisecond)
		}
	}
	ps := g.pairs(at(2), at(8.5))
	if len(ps) != 5 { // 2, 3, 4, 6, 7; second 8 is not over
		t.Fatalf("%d pairs, want 5", len(ps))
	}
	for i, p := range ps {
		if i > 0 && !p.start.After(ps[i-1].start) {
			t.Error("the pairs are not in order")
		}
	}
	for over, want := range map[int]float64{0: 2, 1: 0.5} {
		if s := summarize(p99Ratios(ps, over)); s.N != 5 || float64(s.Median) < want*0.99 || float64(s.Median) > want*1.01 {
			t.Errorf("twin %d over the other: %+v, want %v", over, s, want)
		}
	}
}
