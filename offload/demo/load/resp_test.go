package load

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReply(t *testing.T) {
	tests := []struct {
		name, in string
		want     Reply
		err      error // nil: no error
	}{
		{"simple", "+OK\r\n", Reply{Kind: Simple, Data: []byte("OK")}, nil},
		{"error", "-ERR no\r\n", Reply{Kind: Failure, Data: []byte("ERR no")}, nil},
		{"integer", ":-42\r\n", Reply{Kind: Integer, Int: -42}, nil},
		{"bulk", "$5\r\na\r\nbc\r\n", Reply{Kind: Bulk, Data: []byte("a\r\nbc")}, nil},
		{"empty bulk", "$0\r\n\r\n", Reply{Kind: Bulk, Data: []byte{}}, nil},
		{"nil bulk", "$-1\r\n", Reply{Kind: Bulk, Nil: true}, nil},
		{"end", "", Reply{}, io.EOF},
		{"cut line", "+O", Reply{}, io.ErrUnexpectedEOF},
		{"cut bulk", "$5\r\nab", Reply{}, io.ErrUnexpectedEOF},
		{"empty line", "\r\n", Reply{}, ErrProtocol},
		{"no carriage return", "+OK\n", Reply{}, ErrProtocol},
		{"unknown kind", "!x\r\n", Reply{}, ErrProtocol},
		{"length with letters", "$1x\r\n", Reply{}, ErrProtocol},
		{"negative length", "$-2\r\n", Reply{}, ErrProtocol},
		{"length beyond the bound", "$1048577\r\n", Reply{}, ErrProtocol},
		{"length beyond int64", "$99999999999999999999\r\n", Reply{}, ErrProtocol},
		{"bulk without end", "$1\r\nabc\r\n", Reply{}, ErrProtocol},
		{"endless line", "+" + strings.Repeat("x", 70<<10), Reply{}, ErrProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := NewDecoder(strings.NewReader(tt.in)).Reply()
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if got.Kind != tt.want.Kind || !bytes.Equal(got.Data, tt.want.Data) || got.Int != tt.want.Int || got.Nil != tt.want.Nil {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestAppendCommand(t *testing.T) {
	got := string(AppendCommand([]byte("x"), []byte("SET"), []byte("k"), []byte("")))
	if want := "x*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzReply: whatever comes in, the decoder ends, keeps its bound, and takes back what it would have sent.
func FuzzReply(f *testing.F) {
	for _, s := range []string{"+OK\r\n", "$3\r\nabc\r\n", "$-1\r\n", ":1\r\n", "-ERR\r\n", "$99\r\n", "*1\r\n", "\r\n", "$1048576\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		d := NewDecoder(bytes.NewReader(in))
		for {
			r, err := d.Reply()
			if err != nil {
				return
			}
			if r.Kind == Bulk && len(r.Data) > MaxBulk {
				t.Fatalf("bulk of %d bytes", len(r.Data))
			}
			if len(r.Data) > len(in) {
				t.Fatalf("%d bytes out of %d", len(r.Data), len(in))
			}
			if r.Kind == Bulk && !r.Nil {
				again := AppendCommand(nil, r.Data)[len("*1\r\n"):]
				back, err := NewDecoder(bytes.NewReader(again)).Reply()
				if err != nil || !bytes.Equal(back.Data, r.Data) {
					t.Fatalf("%q came back as %q, %v", r.Data, back.Data, err)
				}
			}
		}
	})
}
