package e2e

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spillway-io/spillway/internal/testkit"
)

// patience bounds everything a script waits for; nothing is expected to take so long.
const patience = 30 * time.Second

type storyKeyType struct{}

var storyKey storyKeyType

// story is what one script has running and made; end takes it all away.
type story struct {
	work    string
	daemons []*running
	tree    *testkit.CgroupTree // of sysroot
	groups  map[string]*memcg   // of memcg, by their names in the script
	watched map[string]stamp    // of watch
	held    []*os.File
	undo    []func()
}

// running is one `spillway up` in the background.
type running struct {
	cmd      *exec.Cmd
	name     string
	ready    chan struct{} // the report was printed
	gone     chan struct{} // the process ended; err is set
	err      error
	out, log *output
}

// output collects what a process writes and tells when a line has come.
type output struct {
	mu    sync.Mutex
	b     bytes.Buffer
	until string
	seen  func()
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.b.Write(p)
	if o.until != "" && strings.Contains(o.b.String(), o.until) {
		o.until = ""
		o.seen()
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func of(ts *testscript.TestScript) *story { return ts.Value(storyKey).(*story) }

func (s *story) end() {
	for _, d := range s.daemons {
		d.stop()
	}
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.undo[i]()
	}
}

func (d *running) stop() {
	select {
	case <-d.gone:
		return
	default:
	}
	d.cmd.Process.Signal(os.Interrupt)
	select {
	case <-d.gone:
	case <-time.After(patience):
		d.cmd.Process.Kill()
		<-d.gone
	}
}

// rc N COMMAND ARGS…: the command ends with exit code N. Its output is for stdout and stderr.
func cmdRC(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: rc CODE COMMAND [ARGS]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("%s: exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// up NAME ARGS…: starts `spillway up ARGS` in the background and waits for its report, which is then in the
// file NAME.out; its log is in NAME.err after down. Socket, state and port are the story's own unless given.
func cmdUp(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: up NAME [ARGS]")
	}
	s, name, rest := of(ts), args[0], args[1:]
	full := []string{"up", "--socket", ts.MkAbs(name + ".sock"), "--state-dir", ts.MkAbs(name + ".state")}
	if !strings.Contains(strings.Join(rest, " "), "--listen") {
		full = append(full, "--listen", "127.0.0.1:0")
	}
	d := &running{name: name, ready: make(chan struct{}), gone: make(chan struct{}), log: &output{}}
	d.out = &output{until: "admin socket", seen: func() { close(d.ready) }}
	d.cmd = exec.Command(filepath.Join(binDir, "spillway"), append(full, rest...)...)
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = s.work, d.out, d.log
	ts.Check(d.cmd.Start())
	go func() {
		d.err = d.cmd.Wait()
		close(d.gone)
	}()
	s.daemons = append(s.daemons, d)
	select {
	case <-d.ready:
	case <-d.gone:
		ts.Fatalf("the daemon ended at once: %v\n%s%s", d.err, d.out, d.log)
	case <-time.After(patience):
		d.stop()
		ts.Fatalf("no report from the daemon\n%s%s", d.out, d.log)
	}
	ts.Setenv("SOCKET", ts.MkAbs(name+".sock"))
	ts.Setenv("STATE", ts.MkAbs(name+".state"))
	ts.Setenv("PID", strconv.Itoa(d.cmd.Process.Pid))
	ts.Check(os.WriteFile(ts.MkAbs(name+".out"), []byte(d.out.String()), 0o644))
}

// down NAME: SIGTERM; the daemon must end with code 0. Its log is then in NAME.err.
func cmdDown(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: down NAME")
	}
	for _, d := range of(ts).daemons {
		if d.name != args[0] {
			continue
		}
		d.stop()
		ts.Check(os.WriteFile(ts.MkAbs(d.name+".err"), []byte(d.log.String()), 0o644))
		if d.err != nil {
			ts.Fatalf("the daemon ended with %v\n%s", d.err, d.log)
		}
		return
	}
	ts.Fatalf("no daemon %s", args[0])
}

// reload NAME TEXT: SIGHUP, then waits until the log says TEXT.
func cmdReload(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: reload NAME TEXT")
	}
	for _, d := range of(ts).daemons {
		if d.name != args[0] {
			continue
		}
		said := make(chan struct{})
		d.log.mu.Lock()
		d.log.b.Reset()
		d.log.until, d.log.seen = args[1], func() { close(said) }
		d.log.mu.Unlock()
		// By name: the signal's number is the system's business.
		ts.Check(exec.Command("kill", "-HUP", strconv.Itoa(d.cmd.Process.Pid)).Run())
		select {
		case <-said:
		case <-time.After(patience):
			ts.Fatalf("the log never said %q\n%s", args[1], d.log)
		}
		return
	}
	ts.Fatalf("no daemon %s", args[0])
}

// eventual REGEXP COMMAND ARGS…: the command is run until its output, stdout and stderr, matches.
func cmdEventual(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventual REGEXP COMMAND [ARGS]")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last := ""
	for {
		cmd := exec.CommandContext(ctx, args[1], args[2:]...)
		if !strings.Contains(args[1], "/") {
			cmd = exec.CommandContext(ctx, filepath.Join(binDir, args[1]), args[2:]...)
		}
		out, _ := cmd.CombinedOutput()
		if re.Match(out) {
			return
		}
		if ctx.Err() == nil {
			last = string(out)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Fatalf("%s never said %q; last:\n%s", strings.Join(args[1:], " "), args[0], last)
		}
	}
}

// occupy: takes a TCP port on loopback and names it in $PORT.
func cmdOccupy(ts *testscript.TestScript, neg bool, args []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	s := of(ts)
	s.undo = append(s.undo, func() { ln.Close() })
	_, port, err := net.SplitHostPort(ln.Addr().String())
	ts.Check(err)
	ts.Setenv("PORT", port)
}
