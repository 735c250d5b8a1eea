package client

import (
	"context"
	"fmt"
	"net"

	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/offload/demo/load"
)

// RESP is a connection to a Redis server.
type RESP struct {
	conn net.Conn
	dec  *load.Decoder
	out  []byte
	key  []byte
}

// NewRESP takes c over.
func NewRESP(c net.Conn) *RESP { return &RESP{conn: c, dec: load.NewDecoder(c)} }

// Do gets one of the keys that load.Fill set.
func (r *RESP) Do(ctx context.Context, key int) error {
	defer bounded(ctx, r.conn)()
	r.key = load.AppendKey(r.key[:0], key)
	r.out = load.AppendCommand(r.out[:0], []byte("GET"), r.key)
	if _, err := r.conn.Write(r.out); err != nil {
		return fmt.Errorf("client: get key %d: %w", key, err)
	}
	got, err := r.dec.Reply()
	if err != nil {
		return fmt.Errorf("client: get key %d: %w", key, err)
	}
	if got.Kind != load.Bulk || got.Nil || len(got.Data) != load.ValueSize {
		return fmt.Errorf("client: get key %d: kind %q, %d bytes", key, got.Kind, len(got.Data))
	}
	return nil
}

// Fill sets keys 0 to n-1.
func (r *RESP) Fill(ctx context.Context, n int, seed uint64) error {
	return load.Fill(ctx, r.conn, n, seed, nil)
}

// Read gets keys 0 to n-1 once each.
func (r *RESP) Read(ctx context.Context, n int) error { return load.Scan(ctx, r.conn, 0, n) }

// Close ends the connection.
func (r *RESP) Close() error { return r.conn.Close() }

// each asks for keys 0 to n-1 once each.
func each(ctx context.Context, c drive.Client, n int) error {
	for i := range n {
		if err := c.Do(ctx, i); err != nil {
			return err
		}
	}
	return nil
}
