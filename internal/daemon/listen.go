package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// ListenWeb opens the dashboard's port; it returns nil, nil when Listen is "off". The address that it really
// got, port included, is the listener's Addr.
func (c Config) ListenWeb() (net.Listener, error) {
	c, err := c.WithDefaults()
	if err != nil {
		return nil, err
	}
	if c.Listen == Off {
		return nil, nil
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err == nil {
		// localhost is looked up by the resolver, and /etc/hosts can say anything.
		if a, ok := ln.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
			ln.Close()
			return nil, errkind.Hint(errkind.New(errkind.Invalid, "daemon: listen on %s: it means %s here, which is not loopback", c.Listen, ln.Addr()),
				"set `listen:` to %s", DefaultListen)
		}
		return ln, nil
	}
	_, port, _ := net.SplitHostPort(c.Listen) // checked by WithDefaults
	switch {
	case errors.Is(err, sys.EADDRINUSE):
		return nil, errkind.Hint(errkind.New(errkind.Exhausted, "daemon: listen on %s: port %s is taken", c.Listen, port),
			"see who has it: ss -ltnp 'sport = :%s'; or choose another with `listen:`, or `listen: off` for no dashboard", port)
	case errors.Is(err, fs.ErrPermission):
		return nil, errkind.Hint(errkind.New(errkind.Denied, "daemon: listen on %s: %w", c.Listen, err),
			"ports below 1024 need root; choose a higher one with `listen:`")
	}
	return nil, fmt.Errorf("daemon: listen on %s: %w", c.Listen, err)
}
