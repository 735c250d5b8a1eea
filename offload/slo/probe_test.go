package slo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-io/spillway/offload/demo/kv"
	"github.com/spillway-io/spillway/offload/demo/load"
)

const ms = time.Millisecond

// TestProbeStates: each case is how long the probes of one window took, and what it says. A probe every 50 ms, timeout
// 1 s.
func TestProbeStates(t *testing.T) {
	refused := errors.New("connection refused")
	many := func(n int, d time.Duration) (out []time.Duration) {
		for range n {
			out = append(out, d)
		}
		return out
	}
	for _, c := range []struct {
		name    string
		took    []time.Duration // 0: refused
		state   State
		why     string
		p99     time.Duration
		atLeast bool
	}{
		{"none", nil, Empty, "no probe", 0, false},
		{"a handful", many(29, 2*ms), Few, "29 probes", 0, false},
		{"steady", many(100, 2*ms), Good, "", 2 * ms, false},
		// One stall of 500 ms held up the ten probes that were due in it: without the correction the p99 would be 2 ms;
		// with it it is the second slowest of 109, 450 ms.
		{"a stall", append(many(99, 2*ms), 500*ms), Good, "", 450 * ms, false},
		{"timed out", append(many(60, 2*ms), many(5, time.Second)...), Slow, "5 of 65 probes had no answer within 1s", time.Second, true},
		{"one of a hundred refused", append(many(99, 2*ms), 0), Good, "", 2 * ms, false},
		{"two of a hundred refused", append(many(98, 2*ms), 0, 0), Failed, "2 of 100 probes failed: connection refused", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProber(nil, 50*ms, time.Second)
			for _, d := range c.took {
				switch {
				case d == 0:
					p.note(ms, refused)
				case d >= time.Second:
					p.note(d, context.DeadlineExceeded)
				default:
					p.note(d, nil)
				}
			}
			r := p.Read(t.Context())
			if r.State != c.state || !strings.Contains(r.Why, c.why) || r.AtLeast != c.atLeast {
				t.Errorf("%+v, want %s, %q", r, c.state, c.why)
			}
			if off := float64(r.P99-c.p99) / float64(max(c.p99, 1)); off < -0.02 || off > 0.02 {
				t.Errorf("p99 %v, want %v", r.P99, c.p99)
			}
			if again := p.Read(t.Context()); again.State != Empty {
				t.Errorf("the window was not emptied: %+v", again)
			}
		})
	}
}

// window40 makes 40 exchanges and reads them, without waiting between them.
func window40(t *testing.T, one exchange) Reading {
	t.Helper()
	p := newProber(one, 50*ms, 10*time.Second)
	defer one.close()
	for range 40 {
		p.ask(t.Context())
	}
	return p.Read(t.Context())
}

// listen serves each connection on a Unix socket until the test ends.
func listen(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return "unix:" + path
}

func TestRedisProbesTheBuiltInStore(t *testing.T) {
	store := kv.New()
	at := listen(t, func(c net.Conn) { store.Converse(c) })
	network, address, err := splitAddress(at)
	if err != nil {
		t.Fatal(err)
	}
	c, err := dial(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	if err := load.Fill(t.Context(), c, 10, 1, nil); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for _, key := range []string{"", string(load.AppendKey(nil, 3)), "not there"} {
		r, err := newRedis(Redis{Address: at, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if got := window40(t, r); got.State != Good || got.P99 <= 0 || got.Count != 40 {
			t.Errorf("key %q: %+v", key, got)
		}
	}
}

func TestRedisProbesDebiansRedis(t *testing.T) {
	exe, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server on this machine: ", err)
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "redis.sock")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	c, err := load.Dialer{Network: "unix", Addr: socket}.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	one, err := newRedis(Redis{Address: "unix:" + socket})
	if err != nil {
		t.Fatal(err)
	}
	if got := window40(t, one); got.State != Good || got.P99 <= 0 {
		t.Errorf("%+v", got)
	}
}

// TestRedisThatTalksNonsense: each server answers every command with the same bytes.
func TestRedisThatTalksNonsense(t *testing.T) {
	for name, answer := range map[string]string{
		"not RESP": "HTTP/1.1 400 Bad Request\r\n\r\n", "refuses": "-NOAUTH Authentication required.\r\n",
		"a huge length": "$99999999999\r\n", "closes": "", "half a line": "+PO",
	} {
		t.Run(name, func(t *testing.T) {
			at := listen(t, func(c net.Conn) {
				bufio.NewReader(c).ReadString('\n')
				io.WriteString(c, answer)
			})
			one, err := newRedis(Redis{Address: at})
			if err != nil {
				t.Fatal(err)
			}
			if got := window40(t, one); got.State != Failed || !strings.Contains(got.Why, "redis: ") {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestPageAndConnect(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
		fmt.Fprint(w, strings.Repeat("x", 2*most))
	}))
	address := strings.TrimPrefix(server.URL, "http://")
	tcp, err := newConnect(TCP{address})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []exchange{newPage(server.URL), tcp} {
		if got := window40(t, one); got.State != Good || got.P99 <= 0 {
			t.Errorf("%T: %+v", one, got)
		}
	}
	status.Store(http.StatusNotFound)
	if got := window40(t, newPage(server.URL)); got.State != Failed || !strings.Contains(got.Why, "status 404") {
		t.Errorf("%+v", got)
	}
	server.Close()
	for _, one := range []exchange{newPage(server.URL), tcp} {
		if got := window40(t, one); got.State != Failed || !strings.Contains(got.Why, "refused") {
			t.Errorf("%T of a server that is gone: %+v", one, got)
		}
	}
}

// A server that never answers costs one timeout, is called slow, and does not keep Close waiting.
func TestSilence(t *testing.T) {
	at := listen(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	one, err := newRedis(Redis{Address: at})
	if err != nil {
		t.Fatal(err)
	}
	p := newProber(one, 50*ms, 20*ms)
	p.ask(t.Context())
	if r := p.Read(t.Context()); r.State != Slow || !r.AtLeast || r.P99 != 20*ms {
		t.Errorf("%+v", r)
	}
	src, err := Open(Config{Redis: &Redis{Address: at}, Timeout: 10 * time.Second}, 6*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- src.Close() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(9 * time.Second):
		t.Error("Close waited for the server")
	}
	os.Remove(strings.TrimPrefix(at, "unix:"))
}

// fakeSource counts.
type fakeSource struct {
	read   chan struct{}
	closed bool
}

func (f *fakeSource) Read(ctx context.Context) Reading {
	select {
	case f.read <- struct{}{}:
	case <-ctx.Done():
	}
	return Reading{State: Good, P99: ms}
}
func (f *fakeSource) Close() error { f.closed = true; return nil }

func TestWatcher(t *testing.T) {
	f := &fakeSource{read: make(chan struct{})}
	w := Watch(f, ms)
	if r, n := w.Latest(); n != 0 || r.State != Starting {
		t.Errorf("before the first: %+v, %d", r, n)
	}
	for range 3 {
		<-f.read
	}
	if r, n := w.Latest(); n < 2 || r.State != Good {
		t.Errorf("after three: %+v, %d", r, n)
	}
	if err := w.Close(); err != nil || !f.closed {
		t.Errorf("closed %v, %v", f.closed, err)
	}
}
