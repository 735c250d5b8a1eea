package demo

import (
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/spillway-io/spillway/offload/demo/load"
)

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
