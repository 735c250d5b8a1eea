package rightsize

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const mib = int64(1) << 20

// live lets a workload go on: usage as given, resting or not.
func live(h *History, d time.Duration, usage int64, resting bool, cost float64) {
	for t := time.Duration(0); t < d; t += 6 * time.Second {
		h.Observe(Observation{Period: 6 * time.Second, Usage: usage, Resting: resting, Cost: cost})
	}
}

func within(got, want int64, share float64) bool {
	return math.Abs(float64(got-want)) <= share*float64(want)
}

// TestAService: 400 MiB at first, taken down to 170 MiB in an hour, where the law rests for the day.
func TestAService(t *testing.T) {
	var h History
	now := Now{Floor: 16 * mib}
	for u := 400 * mib; u > 170*mib; u -= mib {
		live(&h, 15*time.Second, u, false, 0)
	}
	r := h.Recommend(now)
	if !r.UpperBound || r.Level != "low" || r.Need != 0 || !strings.Contains(r.Why, "not rested") || !within(r.Request, 440*mib, 0.1) {
		t.Errorf("while it descends: %+v", r)
	}
	live(&h, 24*time.Hour, 170*mib, true, 0.0004)
	now.Safe, now.Saving = 168*mib, 200*mib
	r = h.Recommend(now)
	if r.UpperBound || r.Level != "high" || r.Raise != "" || !within(r.Request, 187*mib, 0.07) || math.Abs(r.Cost-0.0004) > 1e-6 || r.Saving != 200*mib {
		t.Errorf("after a day: %+v", r)
	}
	if r.Usage < 240*mib { // the first hour is more than 2 % of it
		t.Errorf("usage %d MiB", r.Usage/mib)
	}
}

// TestPeaks: what is needed for an hour a day is part of the request.
func TestPeaks(t *testing.T) {
	var h History
	for range 3 {
		live(&h, 23*time.Hour, 100*mib, true, 0)
		live(&h, time.Hour, 300*mib, true, 0)
	}
	r := h.Recommend(Now{Safe: 90 * mib})
	if !within(r.Request, 330*mib, 0.1) || r.Level == "high" || !strings.Contains(r.Why, "varies") {
		t.Errorf("%+v", r)
	}
}

// TestForgets: a workload that became small a week ago is small.
func TestForgets(t *testing.T) {
	var h History
	live(&h, 24*time.Hour, 1000*mib, true, 0)
	live(&h, 7*24*time.Hour, 100*mib, true, 0)
	if r := h.Recommend(Now{}); !within(r.Request, 110*mib, 0.13) {
		t.Errorf("%+v", r)
	}
}

func TestBoundsOfTheRequest(t *testing.T) {
	var h History
	live(&h, 24*time.Hour, 20*mib, true, 0)
	if r := h.Recommend(Now{Floor: 64 * mib}); r.Request != 64*mib {
		t.Errorf("request %d below the floor", r.Request)
	}
	if r := h.Recommend(Now{Safe: 50 * mib}); r.Request != 55*mib {
		t.Errorf("request %d with a safe size of 50 MiB", r.Request)
	}
	with, without := h.Recommend(Now{Pool: 30 * mib}), h.Recommend(Now{})
	if d := with.Request - without.Request; d < 32*mib || d > 34*mib {
		t.Errorf("an uncharged pool of 30 MiB adds %d", d)
	}
	var empty History
	if r := empty.Recommend(Now{Floor: 16 * mib}); r.Request != 16*mib || r.Confidence != 0 || r.Level != "low" {
		t.Errorf("of nothing: %+v", r)
	}
}

// The levels follow the numbers, and each says what is missing until nothing is.
func TestConfidenceRises(t *testing.T) {
	var h History
	last := -1.0
	var levels []string
	for range 30 {
		live(&h, time.Hour, 100*mib, true, 0)
		r := h.Recommend(Now{Safe: 100 * mib})
		if r.Confidence < last || r.Confidence > 1 {
			t.Fatalf("confidence %v after %v", r.Confidence, last)
		}
		if (r.Raise == "") != (r.Confidence >= 0.95) || r.Why == "" {
			t.Fatalf("%+v", r)
		}
		last = r.Confidence
		levels = append(levels, r.Level)
	}
	if got := slices.Compact(levels); !slices.Equal(got, []string{"low", "medium", "high"}) {
		t.Errorf("levels %v", got)
	}
}

func TestHistogram(t *testing.T) {
	for i := range buckets - 1 {
		if bucketOf(edge(i)) != i || bucketOf(edge(i+1)-1) != i {
			t.Fatalf("bucket %d: from %d to %d", i, edge(i), edge(i+1))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(mib, 1<<42), 1, 200).Draw(t, "sizes")
		var h histogram
		for _, n := range sizes {
			h.add(n, 1)
		}
		slices.Sort(sizes)
		share := rapid.Float64Range(0.01, 1).Draw(t, "share")
		exact := sizes[min(len(sizes)-1, int(math.Ceil(share*float64(len(sizes))))-1)]
		if got := h.percentile(share); got > sizes[len(sizes)-1] || float64(got) > 1.125*float64(exact)+1 || float64(got) < float64(exact)/1.126-1 {
			t.Fatalf("percentile %v of %v is %d, not about %d", share, sizes, got, exact)
		}
	})
}

// Whatever is observed, the answer makes sense.
func TestAlwaysSensible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h History
		for range rapid.IntRange(0, 50).Draw(t, "periods") {
			h.Observe(Observation{
				Period: time.Duration(rapid.OneOf(rapid.Int64Range(0, int64(100*time.Hour)), rapid.Int64Range(-5, 5)).Draw(t, "period")),
				Usage:  rapid.OneOf(rapid.Int64Range(0, 1<<44), rapid.Int64()).Draw(t, "usage"), Resting: rapid.Bool().Draw(t, "rests"),
				Cost: rapid.Float64().Draw(t, "cost"),
			})
		}
		n := Now{Floor: rapid.Int64().Draw(t, "floor"), Safe: rapid.Int64().Draw(t, "safe"), Pool: rapid.Int64Range(0, 1<<50).Draw(t, "pool")}
		r := h.Recommend(n)
		if r.Request < n.Floor || r.Request < 0 || !(r.Confidence >= 0 && r.Confidence <= 1) || !(r.Cost >= 0 && r.Cost <= 1) || r.Need < 0 || r.Why == "" {
			t.Fatalf("%+v from %+v", r, n)
		}
	})
}

func TestKube(t *testing.T) {
	for n, want := range map[int64]string{0: "0Mi", 1: "1Mi", 190 * mib: "190Mi", 190*mib + 1: "191Mi", -5: "0Mi"} {
		if got := Kube(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// A node has hundreds of cgroups: a history stays small and observing allocates nothing.
func TestCostsLittle(t *testing.T) {
	var h History
	if size := reflect.TypeFor[History]().Size(); size > 2<<10 {
		t.Errorf("a history has %d bytes", size)
	}
	if n := testing.AllocsPerRun(100, func() { h.Observe(Observation{Period: time.Second, Usage: 100 * mib, Resting: true}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h History
	for b.Loop() {
		h.Observe(Observation{Period: time.Second, Usage: 100 * mib, Resting: true})
	}
}

func BenchmarkRecommend(b *testing.B) {
	var h History
	live(&h, time.Hour, 100*mib, true, 0)
	for b.Loop() {
		h.Recommend(Now{})
	}
}
