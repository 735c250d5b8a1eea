package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/offload/demo/load"
)

// cache is memcached as far as the client goes. answer, if not nil, replaces the answer to every get.
type cache struct{ answer func(key string) string }

func (f cache) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	held := map[string]string{}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		w := strings.Fields(line)
		switch {
		case len(w) == 6 && w[0] == "set" && w[5] == "noreply":
			value := make([]byte, load.ValueSize+2)
			if _, err := io.ReadFull(r, value); err != nil {
				return
			}
			held[w[1]] = string(value)
		case len(w) == 2 && w[0] == "get":
			answer := "END\r\n"
			if v, ok := held[w[1]]; ok {
				answer = fmt.Sprintf("VALUE %s 0 %d\r\n%sEND\r\n", w[1], load.ValueSize, v)
			}
			if f.answer != nil {
				answer = f.answer(w[1])
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		default:
			io.WriteString(c, "ERROR\r\n")
		}
	}
}

func dialCache(t *testing.T, f cache) *Memcache {
	ours, theirs := net.Pipe()
	go f.serve(theirs)
	m := NewMemcache(ours)
	t.Cleanup(func() { m.Close() })
	return m
}

func TestMemcacheFillsAndReads(t *testing.T) {
	m := dialCache(t, cache{})
	if err := m.Do(t.Context(), 3); !errors.Is(err, ErrMiss) {
		t.Errorf("a key that was never set: %v", err)
	}
	if err := m.Fill(t.Context(), 40, 7); err != nil {
		t.Fatal(err)
	}
	if err := m.Read(t.Context(), 40); err != nil {
		t.Error(err)
	}
	if err := m.Do(t.Context(), 40); !errors.Is(err, ErrMiss) {
		t.Errorf("a key beyond the last: %v", err)
	}
}

func TestMemcacheRefusesStrangeAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"an error": "SERVER_ERROR out of memory\r\n", "another key": "VALUE other 0 1\r\nx\r\nEND\r\n", "negative size": "VALUE event:000000001 0 -1\r\n",
		"huge size": "VALUE event:000000001 0 999999999\r\n", "short value": "VALUE event:000000001 0 1\r\nx\r\nEND\r\n",
		"no end": "VALUE event:000000001 0 1\r\nx\r\nVALUE\r\n", "no CR": "END\n",
	} {
		if err := dialCache(t, cache{func(string) string { return answer }}).Do(t.Context(), 1); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestMemcacheEndsWithItsContext(t *testing.T) {
	ours, theirs := net.Pipe()
	go io.Copy(io.Discard, theirs) // takes everything and says nothing
	m := NewMemcache(ours)
	defer m.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Do(ctx, 1) }()
	cancel()
	if err := <-done; err == nil {
		t.Error("no error although nothing was answered")
	}
}

// FuzzMemcacheValue: whatever a server sends, the decoder ends, with a size within bounds or an error.
func FuzzMemcacheValue(f *testing.F) {
	for _, s := range []string{
		"END\r\n", "VALUE k 0 3\r\nabc\r\nEND\r\n", "VALUE k 0 3 99\r\nabc\r\nEND\r\n", "VALUE k 0 0\r\n\r\nEND\r\n", "VALUE k 0 1048577\r\n",
		"VALUE k 0\r\n", "VALUE  k 0 3\r\nabcdEND\r\n", "\r\n", "", "VALUE k 0 3\r\nab",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		m := &Memcache{r: bufio.NewReaderSize(bytes.NewReader(sent), 16<<10)}
		n, err := m.value([]byte("k"))
		switch {
		case errors.Is(err, io.EOF):
			t.Errorf("an answer that stops early is a clean end")
		case err == nil && (n < 0 || n > maxItem || n > len(sent)):
			t.Errorf("size %d of %d bytes sent", n, len(sent))
		}
	})
}

// files is the static tree as far as the client goes.
type files struct {
	size   int
	status int
}

func (f files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.status != 0 {
		w.WriteHeader(f.status)
	}
	if strings.HasPrefix(r.URL.Path, "/d") {
		w.Write(make([]byte, f.size))
	}
}

func TestWeb(t *testing.T) {
	for name, tt := range map[string]struct {
		files
		bad bool
	}{
		"whole file": {files{size: FileSize}, false}, "half a file": {files{size: FileSize / 2}, true}, "not found": {files{size: FileSize, status: 404}, true},
	} {
		sock := filepath.Join(t.TempDir(), "s")
		ln, err := net.Listen("unix", sock)
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: tt.files}
		go srv.Serve(ln)
		c, err := Dial(t.Context(), drive.Target{Kind: HTTP, Addr: sock})
		if err != nil {
			t.Fatal(err)
		}
		err = c.(*Web).Read(t.Context(), 3)
		if (err != nil) != tt.bad {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
		srv.Close()
	}
}

func TestFilePath(t *testing.T) {
	for i, want := range map[int]string{0: "d000/f00000.txt", 255: "d000/f00255.txt", 256: "d001/f00256.txt", 19199: "d074/f19199.txt"} {
		if got := FilePath(i); got != want {
			t.Errorf("file %d is %s, want %s", i, got, want)
		}
	}
}

// database is PostgreSQL as far as a select of one row goes.
func database(t *testing.T, c net.Conn, balance string) {
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		t.Error(err)
		return
	}
	ready := &pgproto3.ReadyForQuery{TxStatus: 'I'}
	send := func(ms ...pgproto3.BackendMessage) {
		for _, m := range ms {
			b.Send(m)
		}
		if err := b.Flush(); err != nil {
			t.Error(err)
		}
	}
	send(&pgproto3.AuthenticationOk{}, &pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}}, ready)
	row := &pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("abalance"), DataTypeOID: 23, DataTypeSize: 4, TypeModifier: -1, Format: 1}}}
	for {
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m.(type) {
		case *pgproto3.Parse:
			send(&pgproto3.ParseComplete{})
		case *pgproto3.Describe:
			send(&pgproto3.ParameterDescription{ParameterOIDs: []uint32{23}}, row)
		case *pgproto3.Bind:
			send(&pgproto3.BindComplete{}, row)
		case *pgproto3.Execute:
			send(&pgproto3.DataRow{Values: [][]byte{[]byte(balance)}}, &pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		case *pgproto3.Sync:
			send(ready)
		case *pgproto3.Terminate:
			return
		}
	}
}

func TestSQL(t *testing.T) {
	for name, tt := range map[string]struct {
		balance string
		bad     bool
	}{"the row's own": {"\x00\x00\x00\x2a", false}, "another row's": {"\x00\x00\x00\x2b", true}} {
		sock := filepath.Join(t.TempDir(), "s")
		ln, err := net.Listen("unix", sock)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			database(t, c, tt.balance)
		}()
		c, err := Dial(t.Context(), drive.Target{Kind: Postgres, Addr: sock})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Do(t.Context(), 1042); (err != nil) != tt.bad {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
		ln.Close()
	}
}

func TestDialRefusesUnknownKinds(t *testing.T) {
	if _, err := Dial(t.Context(), drive.Target{Kind: "gopher"}); err == nil {
		t.Error("accepted")
	}
}
