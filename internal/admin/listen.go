package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// maxSocketPath is sun_path less its NUL.
const maxSocketPath = 107

// socket is a unix listener that was made under another name and moved into place; closing it removes the
// file only while it is still the one made here.
type socket struct {
	*net.UnixListener
	path  string
	info  fs.FileInfo
	close sync.Once
	err   error
}

func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

func (s *socket) Close() error {
	s.close.Do(func() {
		if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.info) {
			os.Remove(s.path)
		}
		s.err = s.UnixListener.Close()
	})
	return s.err
}

// Listen makes the admin socket at path, mode 0600, in a directory that it makes (0755) when it is missing.
// A socket that nobody answers on is left over from a crash and is replaced; one that answers, or a file that
// is no socket, is refused. Two daemons that start in the same instant are kept apart by daemon.Lock, not here.
func Listen(path string) (net.Listener, error) {
	// The name it is made under is longer, and both must fit.
	temp := path + "." + strconv.Itoa(os.Getpid())
	if len(temp) > maxSocketPath {
		return nil, errkind.Hint(errkind.New(errkind.Invalid, "admin: listen on %s: a socket path has at most %d bytes", path, maxSocketPath-8),
			"set a shorter `socket:`")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, denied(fmt.Errorf("admin: make directory of socket: %w", err), path)
	}
	if err := vacant(path); err != nil {
		return nil, err
	}
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, denied(fmt.Errorf("admin: listen on %s: %w", path, err), path)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, denied(fmt.Errorf("admin: listen on %s: %w", path, err), path)
	}
	ln.SetUnlinkOnClose(false)
	// The mode is set before the name is known to anybody.
	err = os.Chmod(temp, 0o600)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Lstat(temp)
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		ln.Close()
		os.Remove(temp)
		return nil, denied(fmt.Errorf("admin: listen on %s: %w", path, err), path)
	}
	return &socket{UnixListener: ln, path: path, info: info}, nil
}

// vacant says whether path may be taken: nothing there, or a socket that refuses connections.
func vacant(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return denied(fmt.Errorf("admin: look at socket: %w", err), path)
	case info.Mode().Type() != fs.ModeSocket:
		return errkind.Hint(errkind.New(errkind.Invalid, "admin: listen on %s: a file that is no socket is there (%s)", path, info.Mode()),
			"move it away or set another `socket:`")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		c.Close()
		return taken(path)
	case errors.Is(err, fs.ErrPermission):
		return denied(fmt.Errorf("admin: look at socket: %w", err), path)
	case errors.Is(err, sys.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil // left over from a crash, or its owner just went
	}
	// Its queue is full, or it is a socket of another kind: somebody may be there.
	return taken(path)
}

func taken(path string) error {
	return errkind.Hint(errkind.New(errkind.Unavailable, "admin: listen on %s: a daemon answers there", path),
		"see it with `spillway status`; stop it first, or give this one another `socket:` and `state_dir:`")
}

// denied gives a permission error its advice and leaves the others as they are.
func denied(err error, path string) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return errkind.Hint(errkind.Wrap(errkind.Denied, err), "%s belongs to root: run as root or with sudo", path)
}
