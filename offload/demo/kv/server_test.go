package kv

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/offload/demo/load"
)

// conversation is a request and the very bytes that must answer it. The same ones go to the built-in server
// and to Redis, where that is installed.
var conversation = []struct{ name, send, want string }{
	{"ping", "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"},
	{"ping in lower case", "*1\r\n$4\r\nping\r\n", "+PONG\r\n"},
	{"get what is not there", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "$-1\r\n"},
	{"empty", "*1\r\n$6\r\nDBSIZE\r\n", ":0\r\n"},
	{"set", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\nal\r\n", "+OK\r\n"},
	{"get", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "$5\r\nv\r\nal\r\n"},
	{"replace, same length", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\n54321\r\n", "+OK\r\n"},
	{"get the replaced", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "$5\r\n54321\r\n"},
	{"replace, other length", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$7\r\n7654321\r\n", "+OK\r\n"},
	{"empty key and value", "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$0\r\n\r\n", "+OK\r\n"},
	{"get the empty", "*2\r\n$3\r\nGET\r\n$0\r\n\r\n", "$0\r\n\r\n"},
	{"three at once", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$6\r\nDBSIZE\r\n*1\r\n$4\r\nPING\r\n", "$7\r\n7654321\r\n:2\r\n+PONG\r\n"},
	{"quit", "*1\r\n$4\r\nQUIT\r\n", "+OK\r\n"},
}

func converse(t *testing.T, c net.Conn) {
	t.Helper()
	for _, step := range conversation {
		if _, err := io.WriteString(c, step.send); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		got := make([]byte, len(step.want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != step.want {
			t.Fatalf("%s: got %q, %v, want %q", step.name, got, err, step.want)
		}
	}
	if n, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after quit: read %d bytes, %v, want the end", n, err)
	}
}

func serve(t *testing.T) load.Dialer {
	t.Helper()
	at := load.Dialer{Network: "unix", Addr: filepath.Join(t.TempDir(), "s")}
	ln, err := net.Listen(at.Network, at.Addr)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- New().Serve(t.Context(), ln) }()
	t.Cleanup(func() {
		if err := <-done; err != nil { // t.Context ends before the cleanups run
			t.Error(err)
		}
	})
	return at
}

func TestConversation(t *testing.T) {
	c, err := serve(t).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	converse(t, c)
}

func TestConversationWithRedis(t *testing.T) {
	probe.Need(t, probe.Redis)
	dir := t.TempDir()
	at := load.Dialer{Network: "unix", Addr: filepath.Join(dir, "s")}
	cmd := exec.Command("redis-server", "--port", "0", "--unixsocket", at.Addr, "--save", "", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Signal(os.Interrupt)
	c, err := at.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	converse(t, c)
}

func TestFillAndScan(t *testing.T) {
	c, err := serve(t).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const keys = 10_000 // 10 MB: more than one chunk
	last := 0
	if err := load.Fill(t.Context(), c, keys, 1, func(n int) { last = n }); err != nil {
		t.Fatal(err)
	}
	if last != keys {
		t.Errorf("progress ended at %d of %d", last, keys)
	}
	if n, err := load.Size(c); n != keys || err != nil {
		t.Errorf("size %d, %v", n, err)
	}
	if err := load.Scan(t.Context(), c, 0, keys); err != nil {
		t.Error(err)
	}
	if err := load.Scan(t.Context(), c, keys-1, keys+1); err == nil {
		t.Error("a key that is not there was read")
	}
}

// Values lie in the order they were set, which is what makes the older ones a cold region.
func TestInsertionOrder(t *testing.T) {
	s := New()
	for i := range 20_000 {
		s.set(fmt.Appendf(nil, "key%05d", i), bytes.Repeat([]byte{byte(i)}, 1000))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var before ref
	for i, r := range s.refs {
		if i > 0 && (r.chunk < before.chunk || r.chunk == before.chunk && r.off <= before.off) {
			t.Fatalf("value %d lies at %d:%d, the one before at %d:%d", i, r.chunk, r.off, before.chunk, before.off)
		}
		before = r
	}
	if len(s.chunks) < 4 {
		t.Errorf("20 MB lie in %d chunks", len(s.chunks))
	}
}

func TestMalformedRequestsEndTheConnection(t *testing.T) {
	for name, in := range map[string]string{
		"inline":               "PING\r\n",
		"no arguments":         "*0\r\n",
		"too many arguments":   "*17\r\n",
		"negative arguments":   "*-1\r\n",
		"argument not a bulk":  "*1\r\n:4\r\n",
		"bulk beyond bound":    "*1\r\n$1048577\r\n",
		"bulk of negative len": "*1\r\n$-1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := New().Converse(struct {
				io.Reader
				io.Writer
			}{strings.NewReader(in), &out})
			if err == nil || out.String() != "-ERR Protocol error\r\n" {
				t.Errorf("answered %q, %v", out.String(), err)
			}
		})
	}
	var out bytes.Buffer
	if err := New().Converse(struct {
		io.Reader
		io.Writer
	}{strings.NewReader("*1\r\n$8\r\nFLUSHALL\r\n"), &out}); err != nil || !strings.HasPrefix(out.String(), "-ERR unknown command") {
		t.Errorf("unknown command: answered %q, %v", out.String(), err)
	}
}

// FuzzConverse: whatever a client sends, the server neither panics nor takes memory it was not sent.
func FuzzConverse(f *testing.F) {
	for _, s := range conversation {
		f.Add([]byte(s.send))
	}
	f.Add([]byte("*1\r\n$1048576\r\n"))
	f.Add([]byte("*3\r\n$3\r\nSET\r\n$1\r\nk"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := New()
		s.Converse(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(in), io.Discard})
		s.mu.Lock()
		defer s.mu.Unlock()
		stored := 0
		for _, r := range s.refs {
			stored += int(r.klen + r.vlen)
		}
		if stored > len(in) {
			t.Fatalf("%d bytes stored out of %d received", stored, len(in))
		}
	})
}
