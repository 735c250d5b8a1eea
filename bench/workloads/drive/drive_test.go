package drive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-io/spillway/offload/demo/load"
)

// fake is a server in memory. It answers at once but for the pauses it is told to make.
type fake struct {
	pause func(n int) time.Duration // before answer n
	fail  int                       // the request that fails; 0: none

	mu sync.Mutex
	// +checklocks:mu
	keys map[string][]int
	// +checklocks:mu
	scans int
}

type fakeClient struct {
	*fake
	name string
}

func (f *fake) dial(_ context.Context, t Target) (Client, error) { return fakeClient{f, t.Name}, nil }

func (c fakeClient) Do(ctx context.Context, key int) error {
	c.mu.Lock()
	if c.keys == nil {
		c.keys = map[string][]int{}
	}
	c.keys[c.name] = append(c.keys[c.name], key)
	n := len(c.keys[c.name])
	c.mu.Unlock()
	if n == c.fail {
		return errors.New("broken")
	}
	if c.pause != nil {
		select {
		case <-time.After(c.pause(n)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (c fakeClient) Scan(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scans++
	return nil
}

func (c fakeClient) Close() error { return nil }

func spec(rate float64, targets ...string) Spec {
	s := Spec{Conns: 2, Rate: rate, Keys: 100, Cold: 60, Theta: 0.99, Seed: 1}
	for _, t := range targets {
		s.Targets = append(s.Targets, Target{Name: t})
	}
	return s
}

// run drives for d of the bubble's time and returns the seconds by target.
func run(t *testing.T, s Spec, f *fake, d time.Duration) (map[int][]load.Second, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	out := map[int][]load.Second{}
	err := Run(ctx, s, f.dial, func(x load.Second) { out[x.Target] = append(out[x.Target], x) })
	return out, err
}

// A server that stalls once for half a second on every connection makes every request that came due meanwhile
// late, each by what was left of the stall.
func TestStallIsNotOmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, stall = 400, 500 * time.Millisecond
		f := &fake{pause: func(n int) time.Duration {
			if n == rate/4 || n == rate/4+1 {
				return stall
			}
			return 0
		}}
		got, err := run(t, spec(rate, "a"), f, 2500*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		all := load.NewHistogram()
		for _, s := range got[0] {
			if s.Latency.TotalCount() != rate {
				t.Errorf("second %d has %d requests, want %d: the schedule slowed down", s.Number, s.Latency.TotalCount(), rate)
			}
			all.Merge(s.Latency)
		}
		if len(got[0]) != 2 {
			t.Errorf("%d seconds, want 2", len(got[0]))
		}
		for waited, want := range map[time.Duration]float64{stall / 10: 0.9, stall / 2: 0.5, stall * 9 / 10: 0.1} {
			want *= rate * stall.Seconds()
			slow := 0.0
			for _, b := range all.Distribution() {
				if time.Duration(b.From) >= waited {
					slow += float64(b.Count)
				}
			}
			if slow < want*0.9 || slow > want*1.1+2 {
				t.Errorf("%v requests waited %v, want about %v", slow, waited, want)
			}
		}
	})
}

func TestTargetsGetTheSameKeysInTheSameSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		s := spec(50, "a", "b")
		s.Conns = 1
		// The end falls between two requests of each target, not on one: 3.095 s after the start at 20 ms, where
		// requests come due every 10 ms.
		got, err := run(t, s, f, 3115*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(f.keys["a"], f.keys["b"]) || len(f.keys["a"]) < 150 {
			t.Errorf("keys differ: %d and %d", len(f.keys["a"]), len(f.keys["b"]))
		}
		for i := range 3 {
			if a, b := got[0][i], got[1][i]; a.Number != i || !a.Start.Equal(b.Start) || a.Latency.TotalCount() != b.Latency.TotalCount() {
				t.Errorf("second %d: %+v and %+v", i, a, b)
			}
		}
		for _, k := range f.keys["a"] {
			if k < 60 || k >= 100 {
				t.Fatalf("key %d is cold or does not exist", k)
			}
		}
	})
}

func TestChoreRestAndCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{pause: func(int) time.Duration { return 200*time.Millisecond + 3*time.Millisecond }}
		s := spec(4, "a")
		s.Chore, s.Rest, s.Cycle, s.Conns = time.Second, 200*time.Millisecond, true, 8
		got, err := run(t, s, f, 4500*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if f.scans != 4 {
			t.Errorf("%d scans, want 4", f.scans)
		}
		if want := []int{60, 61, 62, 63, 64}; !slices.Equal(f.keys["a"][:5], want) {
			t.Errorf("cycle begins %v, want %v", f.keys["a"][:5], want)
		}
		if p := time.Duration(got[0][1].Latency.Max()); p < 2*time.Millisecond || p > 5*time.Millisecond {
			t.Errorf("latency %v still holds the rest of 200ms", p)
		}
	})
}

func TestFailingClientEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spec(100, "a", "b")
		s.Chore = time.Second
		_, err := run(t, s, &fake{fail: 150}, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("error %v", err)
		}
	})
}

func TestServerThatNeverAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{pause: func(n int) time.Duration {
			if n > 120 {
				return time.Hour
			}
			return 0
		}}
		begin := time.Now()
		if _, err := run(t, spec(100, "a"), f, 3*time.Second); err == nil {
			t.Error("no error although requests were never answered")
		}
		if took := time.Since(begin); took > 3*time.Second+drain+time.Millisecond {
			t.Errorf("gave up after %v", took)
		}
	})
}

func TestDay(t *testing.T) {
	s := Spec{Rate: 1000, Trough: 0.25, Day: 40 * time.Second}
	for n, want := range map[int][2]int{0: {990, 1000}, 20: {250, 260}, 40: {990, 1000}, 10: {550, 650}} {
		if got := s.requests(n); got < want[0] || got > want[1] {
			t.Errorf("second %d: %d requests, want %d to %d", n, got, want[0], want[1])
		}
	}
	if got := (Spec{Rate: 7}).requests(123); got != 7 {
		t.Errorf("constant rate 7 is %d", got)
	}
}

func TestSpecRefuses(t *testing.T) {
	ok := spec(10, "a")
	for name, broken := range map[string]func(*Spec){
		"no targets": func(s *Spec) { s.Targets = nil }, "rate 0": func(s *Spec) { s.Rate = 0 }, "no connection": func(s *Spec) { s.Conns = 0 },
		"trough 2": func(s *Spec) { s.Trough = 2 }, "no keys": func(s *Spec) { s.Keys = 0 },
	} {
		s := ok
		broken(&s)
		if err := Run(t.Context(), s, (&fake{}).dial, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// What Main writes is what load.Follow reads.
func TestMainWritesWhatFollowReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, hold := io.Pipe()
		go func() {
			b, _ := json.Marshal(spec(20, "a", "b"))
			hold.Write(b)
			<-time.After(2500 * time.Millisecond)
			hold.Close()
		}()
		var out bytes.Buffer
		if err := Main(t.Context(), in, &out, (&fake{}).dial); err != nil {
			t.Fatal(err)
		}
		var seen []string
		if err := load.Follow(&out, func(s load.Second) {
			seen = append(seen, fmt.Sprintf("%d.%d:%d", s.Target, s.Number, s.Latency.TotalCount()))
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(seen)
		if want := []string{"0.0:20", "0.1:20", "1.0:20", "1.1:20"}; !slices.Equal(seen, want) {
			t.Errorf("seconds %v, want %v", seen, want)
		}
	})
}
