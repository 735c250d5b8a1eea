package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// batch is how many commands Fill and Scan send before they read the replies: enough to hide the round
// trip, small enough that a batch fits the socket buffers.
const batch = 128

// Dialer says where a server listens.
type Dialer struct {
	Network string `json:"network"` // "unix" or "tcp"
	Addr    string `json:"addr"`
}

// Dial connects, retrying until ctx ends: a server needs a moment to listen.
func (d Dialer) Dial(ctx context.Context) (net.Conn, error) {
	var nd net.Dialer
	for {
		c, err := nd.DialContext(ctx, d.Network, d.Addr)
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("load: dial %s: %w", d.Addr, errors.Join(err, context.Cause(ctx)))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Fill sets keys 0 to n-1 in order, so that old and new keys lie apart in the server's memory. progress, if
// not nil, is called now and then with the number of keys set.
func Fill(ctx context.Context, c net.Conn, n int, seed uint64, progress func(done int)) error {
	text := NewText(seed)
	var cmd, key, value []byte
	set := []byte("SET")
	return pipeline(ctx, c, n, progress, func(dst []byte, i int) []byte {
		key = AppendKey(key[:0], i)
		value = text.Append(value[:0], ValueSize)
		cmd = AppendCommand(dst, set, key, value)
		return cmd
	}, func(i int, r Reply) error {
		if r.Kind != Simple {
			return fmt.Errorf("load: set key %d: %.100q", i, r.Data)
		}
		return nil
	})
}

// Scan reads keys from to to-1 once each, in order; every one must be there. Pipelined: it measures nothing.
func Scan(ctx context.Context, c net.Conn, from, to int) error {
	var key []byte
	get := []byte("GET")
	return pipeline(ctx, c, to-from, nil, func(dst []byte, i int) []byte {
		key = AppendKey(key[:0], from+i)
		return AppendCommand(dst, get, key)
	}, func(i int, r Reply) error {
		if r.Kind != Bulk || r.Nil || len(r.Data) != ValueSize {
			return fmt.Errorf("load: get key %d: kind %q, %d bytes, nil %v", from+i, r.Kind, len(r.Data), r.Nil)
		}
		return nil
	})
}

func pipeline(ctx context.Context, c net.Conn, n int, progress func(int), add func([]byte, int) []byte, check func(int, Reply) error) error {
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	dec := NewDecoder(c)
	var buf []byte
	for done := 0; done < n; {
		m := min(batch, n-done)
		buf = buf[:0]
		for i := range m {
			buf = add(buf, done+i)
		}
		// The replies must be drained while the batch is written, or both sides could wait for each other.
		wrote := make(chan error, 1)
		go func() { _, err := c.Write(buf); wrote <- err }()
		var failed error
		for i := range m {
			r, err := dec.Reply()
			if err == nil {
				err = check(done+i, r)
			}
			if err != nil {
				failed = fmt.Errorf("load: reply %d: %w", done+i, err)
				c.SetDeadline(time.Unix(1, 0)) // frees the writer
				break
			}
		}
		if err := <-wrote; failed == nil && err != nil {
			failed = fmt.Errorf("load: write: %w", err)
		}
		if cause := context.Cause(ctx); failed != nil && cause != nil {
			return cause
		}
		if failed != nil {
			return failed
		}
		done += m
		if progress != nil {
			progress(done)
		}
	}
	return nil
}

// Size asks how many keys the server holds.
func Size(c net.Conn) (int64, error) {
	if _, err := c.Write(AppendCommand(nil, []byte("DBSIZE"))); err != nil {
		return 0, fmt.Errorf("load: dbsize: %w", err)
	}
	r, err := NewDecoder(c).Reply()
	if err != nil {
		return 0, fmt.Errorf("load: dbsize: %w", err)
	}
	if r.Kind != Integer {
		return 0, fmt.Errorf("load: dbsize: %.100q", r.Data)
	}
	return r.Int, nil
}
