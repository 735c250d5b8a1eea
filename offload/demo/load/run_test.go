package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fakeServer is the other end of a connection in memory. It answers every command with a value of one byte, or
// PONG, and calls pause before answer n. With buffer it reads ahead while it pauses, as a kernel's socket
// does; without, the client's writes block.
type fakeServer struct {
	pause  func(n int)
	buffer bool
	reply  string // instead of the value
}

func (f fakeServer) dial(context.Context, Dialer) (net.Conn, error) {
	client, server := net.Pipe()
	ahead := 0
	if f.buffer {
		ahead = 1 << 16
	}
	commands := make(chan string, ahead)
	go func() {
		defer close(commands)
		r := bufio.NewReader(server)
		for {
			head, err := r.ReadString('\n')
			if err != nil {
				return
			}
			var name string
			for i := range 2 * int(head[1]-'0') {
				line, _ := r.ReadString('\n')
				if i == 1 {
					name = strings.TrimSpace(line)
				}
			}
			commands <- name
		}
	}()
	go func() {
		defer server.Close()
		n := 0
		for name := range commands {
			if f.pause != nil {
				f.pause(n)
			}
			n++
			answer := "$1\r\nv\r\n"
			switch {
			case f.reply != "":
				answer = f.reply
			case name == "PING":
				answer = "+PONG\r\n"
			}
			if _, err := io.WriteString(server, answer); err != nil {
				for range commands {
				}
				return
			}
		}
	}()
	return client, nil
}

func spec(rate, targets int) Spec {
	s := Spec{Rate: rate, Keys: 100, Cold: 60, Theta: 0.99, Seed: 1}
	for i := range targets {
		s.Targets = append(s.Targets, Target{Name: fmt.Sprint("t", i)})
	}
	return s
}

// A server that stalls once for half a second makes every read that came due meanwhile late. A closed loop
// would record one slow read; here all reads due in the stall must be slow, each by what was left of it,
// whether the kernel buffers what is sent or the sender itself is held up.
func TestStallIsNotOmitted(t *testing.T) {
	for _, buffer := range []bool{true, false} {
		t.Run(fmt.Sprintf("buffer %v", buffer), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rate, stall = 400, 500 * time.Millisecond
				server := fakeServer{buffer: buffer, pause: func(n int) {
					if n == rate/4 {
						pass(stall)
					}
				}}
				ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
				defer cancel()
				all, seconds := NewHistogram(), 0
				err := Run(ctx, spec(rate, 1), Options{Dial: server.dial}, func(s Second) {
					all.Merge(s.Latency)
					seconds++
				})
				if err != nil {
					t.Fatal(err)
				}
				if n := all.TotalCount(); seconds != 2 || n != 2*rate {
					t.Errorf("%d reads in %d seconds, want %d in 2: the schedule slowed down", n, seconds, 2*rate)
				}
				for waited, want := range map[time.Duration]float64{0: 2 * rate, stall / 10: 0.9, stall / 2: 0.5, stall * 9 / 10: 0.1} {
					if waited > 0 {
						want *= rate * stall.Seconds()
					}
					slow := 0.0
					for _, b := range all.Distribution() {
						if time.Duration(b.From) >= waited {
							slow += float64(b.Count)
						}
					}
					if slow < want-3 || slow > want+3 {
						t.Errorf("%.0f reads waited at least %v, want %.0f", slow, waited, want)
					}
				}
			})
		})
	}
}

// A timer that fires late delays reads, but that delay is the generator's and belongs to no server.
func TestLateTimerIsNotTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		late := func(d time.Duration) { pass(d + 20*time.Millisecond) }
		var got []Second
		err := Run(ctx, spec(100, 1), Options{Dial: fakeServer{buffer: true}.dial, Sleep: late}, func(s Second) { got = append(got, s) })
		if err != nil || len(got) != 1 {
			t.Fatalf("%d seconds, %v", len(got), err)
		}
		if m := time.Duration(got[0].Latency.Max()); m > time.Millisecond {
			t.Errorf("slowest read %v", m)
		}
		if got[0].Late < 20*time.Millisecond {
			t.Errorf("late %v, want at least 20ms", got[0].Late)
		}
		if n := got[0].Latency.TotalCount(); n != 100 {
			t.Errorf("%d reads, want 100", n)
		}
	})
}

// Both targets get the same number of reads in the same seconds, and who goes first alternates.
func TestTargetsShareTheSchedule(t *testing.T) {
	a, b := &flow{index: 0, of: 2, interval: time.Millisecond}, &flow{index: 1, of: 2, interval: time.Millisecond}
	first := [2]int{}
	for i := range 1000 {
		da, db := a.dueAt(i), b.dueAt(i)
		if d := (da - db).Abs(); d != time.Millisecond/2 {
			t.Fatalf("read %d is due %v apart", i, d)
		}
		if da < db {
			first[0]++
		} else {
			first[1]++
		}
		if da < a.dueAt(max(0, i-1)) {
			t.Fatalf("read %d is due before the one before it", i)
		}
	}
	if first[0] != first[1] {
		t.Errorf("first: %v", first)
	}
}

func TestRunEndsOnAFailingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeServer{buffer: true, reply: "-LOADING wait\r\n"}
		err := Run(t.Context(), spec(100, 2), Options{Dial: server.dial}, func(Second) {})
		if err == nil || !strings.Contains(err.Error(), "LOADING wait") || !strings.Contains(err.Error(), "t0") {
			t.Errorf("error %v does not name the reply and the target", err)
		}
	})
}

func TestRunGivesUpOnASilentServer(t *testing.T) {
	for _, buffer := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server := fakeServer{buffer: buffer, pause: func(int) { pass(time.Hour) }}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begin := time.Now()
			err := Run(ctx, spec(1000, 1), Options{Dial: server.dial, Drain: 2 * time.Second}, func(Second) {})
			if err == nil {
				t.Error("no reply ever came, and Run says all is well")
			}
			if took := time.Since(begin); took > 4*time.Second {
				t.Errorf("gave up after %v", took)
			}
			pass(2 * time.Hour) // fake time: lets the server end
		})
	}
}

func TestRunRefuses(t *testing.T) {
	for name, s := range map[string]Spec{"no targets": spec(10, 0), "rate 0": spec(0, 1), "rate too high": spec(100_001, 1)} {
		if err := Run(t.Context(), s, Options{}, func(Second) {}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestMainAndFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task, err := json.Marshal(spec(200, 2))
		if err != nil {
			t.Fatal(err)
		}
		in, hold := io.Pipe()
		var out bytes.Buffer
		done := make(chan error, 1)
		go func() { done <- Main(t.Context(), in, &out, Options{Dial: fakeServer{buffer: true}.dial}) }()
		hold.Write(task)
		pass(1500 * time.Millisecond)
		hold.Close()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		count := map[int]int64{}
		if err := Follow(&out, func(s Second) {
			count[s.Target] += s.Latency.TotalCount()
			if s.Number != 0 || s.Start.IsZero() {
				t.Errorf("second %d starts at %v", s.Number, s.Start)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if count[0] != 200 || count[1] != 200 {
			t.Errorf("reads by target: %v", count)
		}
		if err := Follow(strings.NewReader("{\n"), func(Second) {}); err == nil {
			t.Error("a broken line was accepted")
		}
	})
}

func TestFillAndScanReportWhatIsWrong(t *testing.T) {
	fill := func(f fakeServer) error {
		c, _ := f.dial(t.Context(), Dialer{})
		defer c.Close()
		return Fill(t.Context(), c, 10, 1, nil)
	}
	if err := fill(fakeServer{}); err == nil || !strings.Contains(err.Error(), "set key 0") {
		t.Errorf("Fill, answered with a value: %v", err)
	}
	c, _ := fakeServer{}.dial(t.Context(), Dialer{})
	defer c.Close()
	if err := Scan(t.Context(), c, 5, 10); err == nil || !strings.Contains(err.Error(), "get key 5") {
		t.Errorf("Scan, answered with a value of the wrong size: %v", err)
	}
}

func TestScanEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := fakeServer{pause: func(int) { pass(time.Hour) }}.dial(t.Context(), Dialer{})
		defer c.Close()
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		if err := Scan(ctx, c, 0, 10); !errors.Is(err, cause) {
			t.Errorf("error %v, want the context's cause", err)
		}
		c.Close()
		pass(2 * time.Hour) // fake time: lets the server end
	})
}

// pass lets d go by in a bubble's fake time.
func pass(d time.Duration) { <-time.After(d) }
