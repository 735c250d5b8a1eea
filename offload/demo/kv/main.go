package kv

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"runtime/debug"

	"github.com/spillway-io/spillway/offload/demo/load"
)

// Main is the body of the server's own process: it reads where to listen from in, writes a line when it does,
// and ends when in does.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	var at load.Dialer
	if err := json.NewDecoder(in).Decode(&at); err != nil {
		return fmt.Errorf("kv: read address: %w", err)
	}
	// The store is one large live heap: at the default setting the collector would let it double first.
	debug.SetGCPercent(20)
	ln, err := net.Listen(at.Network, at.Addr)
	if err != nil {
		return fmt.Errorf("kv: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		ln.Close()
		return fmt.Errorf("kv: say ready: %w", err)
	}
	return New().Serve(ctx, ln)
}
