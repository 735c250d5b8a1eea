package demo

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit"
)

// buildProgram builds the program under demonstration.
func buildProgram(t *testing.T) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "spillway")
	if out, err := exec.Command("go", "build", "-o", exe, "../../cmd/spillway").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return exe
}

// The demo is ended in the middle of things, by kill -9 and by a signal it can handle. Afterwards the machine
// is as before.
func TestEndedDemoLeavesNothing(t *testing.T) {
	for _, f := range []probe.Feature{probe.Root, probe.SwapOn, probe.Zswap} {
		probe.Need(t, f)
	}
	exe := buildProgram(t)
	testkit.HostLock(t)
	h, err := cgroup.Discover("/")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := Config{Exe: exe, Out: os.Stderr}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		when string // a progress line
		how  sys.Signal
	}{
		{"kill -9 while it loads", "load ", sys.SIGKILL},
		{"kill -9 while the daemon offloads", "A/A", sys.SIGKILL},
		{"SIGTERM while the daemon offloads", "A/A", sys.SIGTERM},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, err := takeBaseline(h)
			if err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			cmd := exec.Command(exe, "demo", "--listen", "127.0.0.1:0")
			cmd.Stderr = &errs
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			mark := ""
			sc := bufio.NewScanner(out)
			for sc.Scan() {
				if strings.Contains(sc.Text(), tt.when) {
					mark = markOf(t, cmd.Process.Pid)
					cmd.Process.Signal(tt.how)
					break
				}
			}
			for sc.Scan() { // until nobody holds the pipe
			}
			err = cmd.Wait()
			if err == nil {
				t.Error("a demo that was ended reports success")
			}
			if mark == "" {
				t.Fatalf("never got to %q: %v %s", tt.when, err, errs.String())
			}
			before.mark = mark
			waitForNothing(t, before, h, cfg)
		})
	}
}

// markOf reads this run's mark from any child.
func markOf(t *testing.T, parent int) string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || parentOf(string(stat)) != parent {
			continue
		}
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.HasPrefix(v, []byte("SPILLWAY_DEMO=")) {
				return string(v)
			}
		}
	}
	t.Fatal("no child of the demo carries its mark")
	return ""
}

// waitForNothing gives what undoes things ten seconds.
func waitForNothing(t *testing.T, before baseline, h cgroup.Hierarchy, cfg Config) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		left, err := before.leftovers(h, cfg, "/kubepods")
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %s", strings.Join(left, "; "))
		}
		<-time.After(50 * time.Millisecond)
	}
}

// parentOf is the fourth field of /proc/PID/stat; the second, in parentheses, may hold blanks.
func parentOf(stat string) int {
	var state string
	var ppid int
	if i := strings.LastIndexByte(stat, ')'); i >= 0 {
		fmt.Sscan(stat[i+1:], &state, &ppid)
	}
	return ppid
}
