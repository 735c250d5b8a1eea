// Package daemon is what every long-running Spillway process needs around its work: where it listens and keeps
// state, the lock against a second one, the talk with the service manager, and the end on a signal.
//
// Promise: two daemons never share a state directory; the dashboard's port is never open to the network; a
// failure says what to type. Ownership: a listener or release function belongs to the caller.
// Locks: the only one is a file lock, state_dir/daemon.lock, which the kernel drops when the process dies.
// Failure: a second daemon is errkind.Unavailable and names the pid; a taken port is errkind.Exhausted and
// names the port; a wide address is errkind.Invalid.
// Not here: what the daemon does, forking into the background, pid files, log rotation.
package daemon

import (
	"cmp"
	"net"
	"path/filepath"
	"strconv"

	"github.com/spillway-io/spillway/internal/errkind"
)

// Off is the value of Config.Listen that gives a daemon without dashboard.
const Off = "off"

// The defaults of Config.
const (
	DefaultListen   = "127.0.0.1:9720"
	DefaultSocket   = "/run/spillway/admin.sock"
	DefaultStateDir = "/var/lib/spillway"
)

// Config says where the daemon listens and keeps state. The zero value works.
type Config struct {
	// Listen is the dashboard's address, host:port with a loopback host, or "off". Default 127.0.0.1:9720.
	// Anything wider is refused: the page has no login. Use an SSH tunnel.
	Listen string `yaml:"listen"`
	// Socket is the admin API's unix socket, an absolute path. Default /run/spillway/admin.sock.
	Socket string `yaml:"socket"`
	// StateDir holds the journal and the lock, an absolute path, made with mode 0700. Default /var/lib/spillway.
	StateDir string `yaml:"state_dir"`
}

// WithDefaults fills what is empty and refuses what cannot work; it opens nothing.
func (c Config) WithDefaults() (Config, error) {
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	c.Socket = cmp.Or(c.Socket, DefaultSocket)
	c.StateDir = cmp.Or(c.StateDir, DefaultStateDir)
	if err := checkListen(c.Listen); err != nil {
		return c, err
	}
	for _, p := range []struct{ key, path string }{{"socket", c.Socket}, {"state_dir", c.StateDir}} {
		if !filepath.IsAbs(p.path) {
			return c, errkind.Hint(errkind.New(errkind.Invalid, "daemon: %s: %q is not an absolute path", p.key, p.path),
				"start it with /, the daemon's working directory is not yours")
		}
		if filepath.Clean(p.path) == "/" {
			return c, errkind.New(errkind.Invalid, "daemon: %s: cannot be the root directory", p.key)
		}
	}
	return c, nil
}

// checkListen admits "off" and loopback addresses. A name other than localhost is not looked up: what it
// means can change after the check.
func checkListen(addr string) error {
	if addr == Off {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return errkind.Hint(errkind.New(errkind.Invalid, "daemon: listen: %q is not host:port", addr),
			"write 127.0.0.1:9720, or off for no dashboard")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return errkind.Hint(errkind.New(errkind.Invalid, "daemon: listen: %q is not a port", port),
			"give a number from 1 to 65535, or 0 for any free one")
	}
	if host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return errkind.Hint(errkind.New(errkind.Invalid,
			"daemon: listen: %s is reachable from other machines, and the dashboard has no login and no encryption", addr),
			"listen on 127.0.0.1:%s and reach it through a tunnel: ssh -L %s:127.0.0.1:%s NODE", port, port, port)
	}
	return nil
}
