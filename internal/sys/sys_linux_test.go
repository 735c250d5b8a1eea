package sys_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

func TestFlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a, err := sys.OpenRegular(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	b, err := sys.OpenRegular(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := sys.Flock(a, false); err != nil {
		t.Fatal(err)
	}
	if err := sys.Flock(b, false); !errors.Is(err, sys.ErrLocked) {
		t.Errorf("a held lock: %v", err)
	}
	a.Close()
	if err := sys.Flock(b, true); err != nil {
		t.Errorf("a freed lock: %v", err)
	}
	if err := os.Symlink(path, path+".link"); err != nil {
		t.Fatal(err)
	}
	if f, err := sys.OpenRegular(path+".link", os.O_RDWR, 0); !errors.Is(err, sys.ELOOP) || !errors.Is(err, sys.ErrNotRegular) ||
		errkind.Of(err) != errkind.Denied || errkind.HintOf(err) == "" {
		t.Errorf("followed a link: %v, %v", f, err)
	}
	f, err := sys.OpenRegularLinked(path+".link", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// None of these may be waited for, whatever they are opened for; the test binary's own limit notices one that is.
func TestOpenRegularRefusesSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	makers := map[string]func(path string) error{
		"a named pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a socket": func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		},
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a device":    func(path string) error { return os.Symlink("/dev/null", path) },
	}
	for what, f := range makers {
		path := filepath.Join(dir, strings.ReplaceAll(what, " ", "-"))
		if err := f(path); err != nil {
			t.Fatal(err)
		}
		for _, flags := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
			f, err := sys.OpenRegularLinked(path, flags, 0o600)
			switch {
			case err == nil:
				f.Close()
				t.Errorf("%s, flags %#x: opened", what, flags)
			case !errors.Is(err, sys.ErrNotRegular) || errkind.Of(err) != errkind.Denied || errkind.HintOf(err) == "" || !strings.Contains(err.Error(), what):
				t.Errorf("%s, flags %#x: %v (hint %q)", what, flags, err, errkind.HintOf(err))
			}
		}
	}
}

func TestFileInfo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	uid, gid, ok := sys.Owner(info)
	if !ok || uid != uint32(os.Getuid()) || gid != uint32(os.Getgid()) || sys.Inode(info) == 0 {
		t.Errorf("owner %d:%d %v, inode %d", uid, gid, ok, sys.Inode(info))
	}
	if n, err := sys.DiskFree(path); err != nil || n < 0 {
		t.Errorf("%d bytes free, %v", n, err)
	}
	if _, err := sys.DiskFree(path + "/none"); err == nil {
		t.Error("free space of nothing")
	}
}

func TestBootIDBelowARoot(t *testing.T) {
	id, err := sys.BootID("/")
	if err != nil || !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(id) {
		t.Errorf("%q, %v", id, err)
	}
	if _, err := sys.BootID(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if u := sys.Uname(); !strings.HasPrefix(u, "Linux ") || len(strings.Fields(u)) != 3 {
		t.Errorf("uname %q", u)
	}
	if a, b := sys.MonotonicNow(), sys.MonotonicNow(); a <= 0 || b < a {
		t.Errorf("monotonic time ran from %v to %v", a, b)
	}
}

// A signal must not keep WriteRaw going, and its error is the bare errno. (That a blocked write to a cgroup
// file ends with EINTR is tested in package cgroup: pipes restart it.)
func TestWriteRaw(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fd := int(w.Fd())
	if n, err := sys.WriteRaw(fd, []byte("abc")); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	r.Close()
	if n, err := sys.WriteRaw(fd, []byte("abc")); err != sys.EPIPE {
		t.Errorf("%d, %v", n, err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := sys.Tgkill(os.Getpid(), sys.Gettid(), sys.SIGURG); err != nil {
		t.Errorf("signal to this thread: %v", err)
	}
	if err := sys.Tgkill(os.Getpid(), 1<<22+1, sys.SIGURG); !errors.Is(err, sys.ESRCH) {
		t.Errorf("signal to no thread: %v", err)
	}
}

func TestProcesses(t *testing.T) {
	cmd := exec.Command("/bin/cat")
	cmd.SysProcAttr = sys.Detached()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	pid := cmd.Process.Pid
	if err := sys.Kill(pid, 0); err != nil {
		t.Error(err)
	}
	f, err := sys.PidfdOpen(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := sys.PidfdSendSignal(f, sys.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("ended with %v", err)
	}
	if err := sys.PidfdSendSignal(f, sys.SIGTERM); !errors.Is(err, sys.ESRCH) {
		t.Errorf("signal to the dead: %v", err)
	}
	for _, pid := range []int{0, -1} {
		if err := sys.Kill(pid, 0); err == nil {
			t.Errorf("signalled %d", pid)
		}
	}
	if sys.DieWithParent(sys.SIGKILL).Pdeathsig != sys.SIGKILL {
		t.Error("no death signal")
	}
}

func TestPeerCred(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dialled, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	uid, gid, pid, err := sys.PeerCred(conn.(*net.UnixConn))
	if err != nil || int(uid) != os.Getuid() || int(gid) != os.Getgid() || pid != os.Getpid() {
		t.Errorf("%d:%d process %d, %v", uid, gid, pid, err)
	}
	conn.Close()
	if _, _, _, err := sys.PeerCred(conn.(*net.UnixConn)); err == nil {
		t.Error("credentials of a closed connection")
	}
}

func TestMemory(t *testing.T) {
	page := os.Getpagesize()
	b, err := sys.MmapAnon(8 * page)
	if err != nil {
		t.Fatal(err)
	}
	if err := sys.NoHugePages(b); err != nil {
		t.Error(err)
	}
	b[0], b[3*page] = 1, 1
	resident := make([]byte, 8)
	if err := sys.Mincore(b, resident); err != nil {
		t.Fatal(err)
	}
	for i, r := range resident {
		if want := i == 0 || i == 3; (r&1 == 1) != want {
			t.Errorf("page %d resident: %v", i, !want)
		}
	}
	if err := sys.Mincore(b, resident[:7]); err == nil {
		t.Error("eight pages into seven bytes")
	}
	if err := sys.PageOut(b); err != nil {
		t.Error(err)
	}
	if b[3*page] != 1 {
		t.Error("a page lost its contents")
	}
	if err := sys.Munmap(b); err != nil {
		t.Error(err)
	}
	if _, err := sys.MmapAnon(0); err == nil {
		t.Error("mapped nothing")
	}
	user, system, rss, err := sys.Rusage(sys.UsageSelf)
	if err != nil || user+system <= 0 || user > time.Hour || rss < 1<<20 {
		t.Errorf("user %v, system %v, %d bytes, %v", user, system, rss, err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := sys.DropFileCache(f); err != nil {
		t.Error(err)
	}
}
