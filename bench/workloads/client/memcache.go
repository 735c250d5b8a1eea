package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/spillway-io/spillway/offload/demo/load"
)

// ErrMiss says that the server does not have the key.
var ErrMiss = errors.New("no such key")

// maxItem is memcached's own default limit for a value, in bytes; lengths are checked before memory is taken.
const maxItem = 1 << 20

// Memcache is a connection that speaks memcached's text protocol (doc/protocol.txt of its source), as far as
// "get" and "set noreply" go.
type Memcache struct {
	conn net.Conn
	r    *bufio.Reader
	buf  []byte
	out  []byte
}

// NewMemcache takes c over.
func NewMemcache(c net.Conn) *Memcache {
	return &Memcache{conn: c, r: bufio.NewReaderSize(c, 16<<10)}
}

// Do gets one of the keys that Fill set.
func (m *Memcache) Do(ctx context.Context, key int) error {
	defer bounded(ctx, m.conn)()
	m.out = append(load.AppendKey(append(m.out[:0], "get "...), key), "\r\n"...)
	if _, err := m.conn.Write(m.out); err != nil {
		return fmt.Errorf("client: get key %d: %w", key, err)
	}
	n, err := m.value(m.out[4 : len(m.out)-2])
	if err == nil && n != load.ValueSize {
		err = fmt.Errorf("%d bytes instead of %d", n, load.ValueSize)
	}
	if err != nil {
		return fmt.Errorf("client: get key %d: %w", key, err)
	}
	return nil
}

// value reads the answer to a get: "VALUE key flags bytes", the bytes, "END"; or "END" alone. It returns the
// value's size.
func (m *Memcache) value(key []byte) (int, error) {
	line, err := m.line()
	if err != nil {
		return 0, err
	}
	if string(line) == "END" {
		return 0, ErrMiss
	}
	rest, ok := bytes.CutPrefix(line, []byte("VALUE "))
	f := bytes.Fields(rest)
	if !ok || len(f) != 3 && len(f) != 4 || !bytes.Equal(f[0], key) {
		return 0, fmt.Errorf("unexpected answer %.80q", line)
	}
	n, err := load.ParseInt(f[2])
	if err != nil || n < 0 || n > maxItem {
		return 0, fmt.Errorf("value's size %.32q is outside [0,%d]", f[2], maxItem)
	}
	if _, m.buf, err = load.ReadBulk(m.r, m.buf, int(n)); err != nil {
		return 0, err
	}
	if line, err = m.line(); err != nil {
		return 0, err
	}
	if string(line) != "END" {
		return 0, fmt.Errorf("unexpected end %.80q", line)
	}
	return int(n), nil
}

// line is load.ReadLine; an end of the stream here is always too early.
func (m *Memcache) line() ([]byte, error) {
	line, err := load.ReadLine(m.r)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return line, err
}

// Fill sets keys 0 to n-1 in order to text of load.ValueSize bytes that depends on seed alone, and checks that
// the server holds the last one.
func (m *Memcache) Fill(ctx context.Context, n int, seed uint64) error {
	defer bounded(ctx, m.conn)()
	text := load.NewText(seed)
	w := bufio.NewWriterSize(m.conn, 256<<10)
	for i := range n {
		b := append(load.AppendKey(append(m.out[:0], "set "...), i), " 0 0 "...)
		b = append(strconv.AppendInt(b, load.ValueSize, 10), " noreply\r\n"...)
		b = append(text.Append(b, load.ValueSize), "\r\n"...)
		m.out = b
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("client: set key %d: %w", i, err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("client: fill: %w", err)
	}
	return m.Do(ctx, n-1)
}

// Read gets keys 0 to n-1 once each.
func (m *Memcache) Read(ctx context.Context, n int) error { return each(ctx, m, n) }

// Close ends the connection.
func (m *Memcache) Close() error { return m.conn.Close() }
