package child_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/offload/demo/child"
)

const mark = "SPILLWAY_CHILD_TEST=1"

func start(t *testing.T, sp child.Spec) *child.Process {
	t.Helper()
	s := child.NewSpawner(mark)
	t.Cleanup(s.Close)
	p, err := s.Start(sp)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestChildGetsItsTaskAndEndsWithItsInput(t *testing.T) {
	p := start(t, child.Spec{Name: "shell", Args: []string{"sh", "-c", `read task; test "$task" = 7 && echo ready && cat`}, Task: 7})
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := child.Marked(mark)
	if err != nil || !strings.Contains(strings.Join(left, " "), fmt.Sprint("process ", p.PID(), " ")) {
		t.Errorf("marked: %q, %v; want process %d", left, err, p.PID())
	}
	if err := p.Ended(); err != nil {
		t.Error(err)
	}
	if err := p.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	if p.Ended() == nil {
		t.Error("it has ended, and is not said to have")
	}
}

func TestChildThatFails(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p := start(t, child.Spec{Name: "shell", Args: []string{"sh", "-c", "echo why; exit 3"}, Log: log})
	if err := p.Wait(context.Background()); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Error(err)
	}
	if b, err := os.ReadFile(log); err != nil || string(b) != "why\n" {
		t.Errorf("log %q, %v", b, err)
	}
	p = start(t, child.Spec{Name: "shell", Args: []string{"echo", "no"}})
	if err := p.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "instead of ready") {
		t.Error(err)
	}
}

func TestStartFails(t *testing.T) {
	s := child.NewSpawner(mark)
	defer s.Close()
	for name, sp := range map[string]child.Spec{
		"no such program": {Args: []string{"/does/not/exist"}},
		"no such cgroup":  {Args: []string{"sleep", "60"}, Cgroups: []string{"/does/not/exist"}},
		"no such folder":  {Args: []string{"sleep", "60"}, Log: "/does/not/exist"},
	} {
		if _, err := s.Start(sp); err == nil {
			t.Errorf("%s: started", name)
		}
	}
	if left, err := child.Marked(mark); err != nil || len(left) != 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

func TestOutlive(t *testing.T) {
	p := start(t, child.Spec{Name: "cat", Args: []string{"cat"}, Task: 1, Outlive: true})
	if err := p.Stop(time.Minute); err != nil {
		t.Error(err)
	}
}

// A child has our errors' pipe: it is at its end only once nobody lives who could write to it.
func TestChildDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), doomed+"=1")
	errs, err := parent.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(errs).ReadString('\n'); line != "started\n" {
		t.Errorf("%q, %v", line, err)
	}
	parent.Process.Kill()
	if _, err := io.Copy(io.Discard, errs); err != nil {
		t.Error(err)
	}
	parent.Wait()
}

const doomed = "SPILLWAY_CHILD_TEST_DOOMED"

// The test binary is also the parent that is killed.
func TestMain(m *testing.M) {
	if os.Getenv(doomed) == "" {
		os.Exit(m.Run())
	}
	s := child.NewSpawner(mark)
	if _, err := s.Start(child.Spec{Name: "sleep", Args: []string{"sleep", "600"}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "started")
	select {}
}
