package daemon

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// helper runs this test binary again as another process that holds a lock or waits for a signal.
const helper = "SPILLWAY_DAEMON_TEST_HELPER"

func TestMain(m *testing.M) {
	switch what, dir, _ := strings.Cut(os.Getenv(helper), ":"); what {
	case "lock":
		if _, err := Lock(dir); err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Stdout.WriteString("locked\n")
		bufio.NewReader(os.Stdin).ReadString('\n') // until the parent closes the pipe
		os.Exit(0)
	case "signal":
		ctx, stop := SignalContext(context.Background())
		os.Stdout.WriteString("ready\n")
		<-ctx.Done()
		os.Stdout.WriteString(context.Cause(ctx).Error() + "\n")
		if dir == "hang" {
			select {}
		}
		stop()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type child struct {
	*exec.Cmd
	out *bufio.Reader
	in  interface{ Close() error }
}

func start(t *testing.T, what string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(os.Environ(), helper+"="+what)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c
}

func (c *child) line(t *testing.T) string {
	t.Helper()
	s, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("child says nothing: %v", err)
	}
	return strings.TrimSpace(s)
}

func TestConfig(t *testing.T) {
	c, err := Config{}.WithDefaults()
	if err != nil || c != (Config{DefaultListen, DefaultSocket, DefaultStateDir}) {
		t.Errorf("zero config: %+v, %v", c, err)
	}
	for _, ok := range []string{"off", "127.0.0.1:0", "127.0.0.1:9720", "[::1]:9720", "localhost:9720", "127.8.8.8:80"} {
		if _, err := (Config{Listen: ok}).WithDefaults(); err != nil {
			t.Errorf("listen %s: %v", ok, err)
		}
	}
	for bad, text := range map[string]string{
		"0.0.0.0:9720": "reachable from other machines", ":9720": "reachable", "[::]:1": "reachable", "10.0.0.1:80": "reachable", "node:9720": "reachable",
		"9720": "not host:port", "127.0.0.1": "not host:port", "127.0.0.1:http": "not a port", "127.0.0.1:70000": "not a port", "127.0.0.1:-1": "not a port", "OFF": "not host:port",
	} {
		_, err := Config{Listen: bad}.WithDefaults()
		if errkind.Of(err) != errkind.Invalid || !strings.Contains(err.Error(), text) || errkind.HintOf(err) == "" {
			t.Errorf("listen %s: %v (hint %q), want invalid with %q and a hint", bad, err, errkind.HintOf(err), text)
		}
	}
	for _, c := range []Config{{Socket: "admin.sock"}, {StateDir: "state"}, {StateDir: "/"}, {StateDir: "//."}} {
		if _, err := c.WithDefaults(); errkind.Of(err) != errkind.Invalid {
			t.Errorf("%+v: %v, want invalid", c, err)
		}
	}
}

func TestListenWeb(t *testing.T) {
	if ln, err := (Config{Listen: Off}).ListenWeb(); ln != nil || err != nil {
		t.Errorf("off: %v, %v", ln, err)
	}
	ln, err := Config{Listen: "127.0.0.1:0"}.ListenWeb()
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	_, err = Config{Listen: "127.0.0.1:" + port}.ListenWeb()
	if errkind.Of(err) != errkind.Exhausted || !strings.Contains(err.Error(), "port "+port+" is taken") || !strings.Contains(errkind.HintOf(err), "ss -ltnp") {
		t.Errorf("taken port: %v (%v, hint %q)", err, errkind.Of(err), errkind.HintOf(err))
	}
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	c := start(t, "lock:"+dir)
	if got := c.line(t); got != "locked" {
		t.Fatalf("child: %s", got)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("state directory: %v, %v; want 0700", info.Mode(), err)
	}
	_, err := Lock(dir)
	if errkind.Of(err) != errkind.Unavailable || !strings.Contains(err.Error(), "pid "+strconv.Itoa(c.Process.Pid)) || errkind.HintOf(err) == "" {
		t.Fatalf("second daemon: %v (%v, hint %q), want unavailable with pid %d", err, errkind.Of(err), errkind.HintOf(err), c.Process.Pid)
	}
	c.Process.Kill() // the kernel gives the lock back
	c.Wait()
	release, err := Lock(dir)
	if err != nil {
		t.Fatalf("after kill -9 of the holder: %v", err)
	}
	if _, err := Lock(dir); errkind.Of(err) != errkind.Unavailable {
		t.Errorf("twice in one process: %v", err)
	}
	release()
	release, err = Lock(dir)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	release()
}

func TestLockRefusesPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, lockName), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); !errors.Is(err, sys.ErrNotRegular) {
		t.Errorf("a pipe in the lock's place: %v", err)
	}
}

func TestLockRefusesLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, lockName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); err == nil {
		t.Error("locked through a symbolic link")
	}
	if b, _ := os.ReadFile(victim); string(b) != "keep" {
		t.Errorf("the file behind the link is now %q", b)
	}
}

func TestNotify(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify(Ready); err != nil {
		t.Errorf("without a service manager: %v", err)
	}
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	if err := Notify(Ready + "\n" + Status("a\nREADY=0")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 256)
	n, err := c.Read(buf)
	if err != nil || string(buf[:n]) != "READY=1\nSTATUS=a READY=0" {
		t.Errorf("service manager got %q, %v", buf[:n], err)
	}
	t.Setenv("NOTIFY_SOCKET", path+"none")
	if err := Notify(Ready); err == nil {
		t.Error("a service manager that is not there is no error")
	}
}

func TestWatchdogInterval(t *testing.T) {
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{{"", "", 0}, {"30000000", "", 30 * time.Second}, {"30000000", strconv.Itoa(os.Getpid()), 30 * time.Second}, {"30000000", "1", 0}, {"-5", "", 0}, {"x", "", 0}} {
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		if got := WatchdogInterval(); got != c.want {
			t.Errorf("WATCHDOG_USEC=%s WATCHDOG_PID=%s: %v, want %v", c.usec, c.pid, got, c.want)
		}
	}
}

func TestRunWatchdog(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_PID", "")
	t.Setenv("WATCHDOG_USEC", "9000000")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		asked := 0
		if err := RunWatchdog(ctx, func() bool { asked++; return asked < 3 }); err != nil {
			t.Error(err)
		}
		if asked != 4 { // at 0, 3, 6 and 9 s
			t.Errorf("asked %d times in 10 s, want 4", asked)
		}
	})
}

func TestSignalContext(t *testing.T) {
	for _, sig := range []sys.Signal{sys.SIGINT, sys.SIGTERM} {
		c := start(t, "signal:")
		c.line(t)
		c.Process.Signal(sig)
		if got := c.line(t); got != "stopped by "+sig.String() {
			t.Errorf("%v: %s", sig, got)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %v", sig, err)
		}
	}
}

func TestSecondSignalEndsAHangingProcess(t *testing.T) {
	c := start(t, "signal:hang")
	c.line(t)
	c.Process.Signal(sys.SIGINT)
	c.line(t)
	// The handler is taken off right after the cause is set; one of these reaches the default action.
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		c.Process.Signal(sys.SIGINT)
		select {
		case err := <-done:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Exited() {
				t.Errorf("ended by %v, want by the signal", err)
			}
			return
		case <-tick.C:
		}
	}
}

func TestSignalContextStops(t *testing.T) {
	ctx, stop := SignalContext(t.Context())
	stop()
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
}
