package admin

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/errkind"
)

func urlEscape(s string) string { return url.QueryEscape(s) }

// leftover makes a socket as a crashed daemon leaves it.
func leftover(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "dead.sock")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
	return path
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run", "admin.sock")
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != fs.ModeSocket {
		t.Fatalf("socket is %v, %v; want mode 0600", info.Mode(), err)
	}
	if ln.Addr().String() != path {
		t.Errorf("address %q, want %q", ln.Addr(), path)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	_, err = Listen(path)
	if errkind.Of(err) != errkind.Unavailable || errkind.HintOf(err) == "" {
		t.Errorf("second daemon: %v, want unavailable with a hint", err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close the socket is still there: %v", err)
	}
	if err := ln.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestListenReplacesDeadSocket(t *testing.T) {
	ln, err := Listen(leftover(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
}

func TestListenLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{file, link, dir} {
		if _, err := Listen(p); errkind.Of(err) != errkind.Invalid {
			t.Errorf("Listen on %s: %v, want invalid", p, err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "keep" {
		t.Errorf("file is now %q, %v", b, err)
	}
	if _, err := Listen(filepath.Join(dir, strings.Repeat("x", 108))); errkind.Of(err) != errkind.Invalid {
		t.Errorf("long path: %v, want invalid", err)
	}
	// A newer daemon's socket at the same path survives the old one's Close.
	path := filepath.Join(dir, "s")
	old, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer now.Close()
	old.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("closing the old one removed the new one's socket: %v", err)
	}
}

func TestDeniedSaysWhatToDo(t *testing.T) {
	err := denied(&fs.PathError{Op: "open", Path: "/run/spillway/admin.sock", Err: fs.ErrPermission}, "/run/spillway/admin.sock")
	if errkind.Of(err) != errkind.Denied || !strings.Contains(errkind.HintOf(err), "sudo") {
		t.Errorf("%v (%v, hint %q)", err, errkind.Of(err), errkind.HintOf(err))
	}
	err = Dial("/x").unreachable(&url.Error{Op: "Get", URL: "http://spillway/", Err: fs.ErrPermission})
	if errkind.Of(err) != errkind.Denied || !strings.Contains(errkind.HintOf(err), "sudo") {
		t.Errorf("client: %v (%v, hint %q)", err, errkind.Of(err), errkind.HintOf(err))
	}
}
