package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/sys"
)

// Part is the word that makes this program one of the experiment's processes: `SELF Part NAME …`.
const Part = "workload-part"

// spawner starts all processes from one thread that lives until close: the kernel ties "die with the parent"
// to the thread that started the child.
type spawner struct {
	jobs chan func()
	mark string // environment entry by which Close finds what is left
}

func newSpawner(mark string) *spawner {
	s := &spawner{jobs: make(chan func()), mark: mark}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

func (s *spawner) close() { close(s.jobs) }

// Spec says what to start.
type Spec struct {
	Name string
	Args []string // the program, or nil with Part
	Part []string // instead: arguments of this program's own part
	In   *Member  // the cgroup in which it runs from its first instruction on; nil: ours
	User *User    // whom it runs as; nil: root
	Task any      // sent to its input as JSON, which then stays open; nil: no input
	Log  string   // file for its output and errors; "": output is a pipe, errors are ours
	CPUs []int    // that it may run on; nil: any
	// Ask is the signal that asks it to end when it has no input; 0 is SIGTERM.
	Ask sys.Signal
	// OnDeath is the signal it gets when this program dies; 0 is SIGKILL.
	OnDeath sys.Signal
	Outlive bool   // instead: it goes on, in its own session
	Dir     string // working directory; "" is /
}

// User is who a server runs as.
type User struct{ UID, GID int }

// Process is one child.
type Process struct {
	Name string
	Out  *bufio.Reader // nil when the output goes to a file
	Done chan struct{} // closed when it has ended
	Err  error         // how, once Done is closed

	cmd *exec.Cmd
	in  io.WriteCloser
	ask sys.Signal
	end sync.Once
}

// Start starts a child that dies with this process, in its own process group so that a Ctrl-C reaches only us.
func (r *Rig) Start(sp Spec) (*Process, error) {
	args := sp.Args
	if sp.Part != nil {
		args = append([]string{r.self, Part}, sp.Part...)
	}
	if sp.In != nil || sp.User != nil {
		args = append(r.enter(sp), args...)
	}
	p := &Process{Name: sp.Name, Done: make(chan struct{}), cmd: exec.Command(args[0], args[1:]...), ask: sp.Ask}
	if p.ask == 0 {
		p.ask = sys.SIGTERM
	}
	p.cmd.Env = append(os.Environ(), r.spawn.mark)
	p.cmd.Dir = "/"
	if sp.Dir != "" {
		p.cmd.Dir = sp.Dir
	}
	if sp.OnDeath == 0 {
		sp.OnDeath = sys.SIGKILL
	}
	p.cmd.SysProcAttr = sys.DieWithParent(sp.OnDeath)
	p.cmd.SysProcAttr.Setpgid = true
	if sp.Outlive {
		p.cmd.SysProcAttr = sys.Detached()
	}
	if err := r.launch(p, sp); err != nil {
		return nil, fmt.Errorf("rig: start %s: %w", sp.Name, err)
	}
	return p, nil
}

func (r *Rig) launch(p *Process, sp Spec) error {
	if sp.Log != "" {
		f, err := os.OpenFile(sp.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		p.cmd.Stdout, p.cmd.Stderr = f, f
	} else {
		p.cmd.Stderr = os.Stderr
		out, err := p.cmd.StdoutPipe()
		if err != nil {
			return err
		}
		p.Out = bufio.NewReaderSize(out, 64<<10)
	}
	if sp.Task != nil {
		var err error
		if p.in, err = p.cmd.StdinPipe(); err != nil {
			return err
		}
	}
	started := make(chan error)
	r.spawn.jobs <- func() { started <- pinned(sp.CPUs, p.cmd.Start) }
	if err := <-started; err != nil {
		return err
	}
	go func() {
		state, err := p.cmd.Process.Wait()
		if err == nil && !state.Success() {
			err = errors.New(state.String())
		}
		p.Err = err
		close(p.Done)
	}()
	if sp.Task != nil {
		if err := p.Tell(sp.Task); err != nil {
			p.Kill()
			return err
		}
	}
	return nil
}

// pinned starts a child that inherits cpus from this thread, which gets its own back.
func pinned(cpus []int, start func() error) error {
	if len(cpus) == 0 {
		return start()
	}
	all, err := sys.CPUs()
	if err != nil {
		return err
	}
	if err := sys.Pin(0, cpus...); err != nil {
		return err
	}
	return errors.Join(start(), sys.Pin(0, all...))
}

// Places says where the two twins and the generator run: the twins share a CPU, so that whatever else takes it
// takes it from both in the same second; the generator has another. With a single CPU nothing is pinned.
func Places() (twins, generator []int) {
	all, err := sys.CPUs()
	if err != nil || len(all) < 2 {
		return nil, nil
	}
	return all[len(all)-1:], all[len(all)-2 : len(all)-1]
}

// PID is its process number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Tell sends one more JSON value to its input.
func (p *Process) Tell(task any) error { return json.NewEncoder(p.in).Encode(task) }

// Ready waits for the line "ready".
func (p *Process) Ready(ctx context.Context) error {
	line := make(chan string, 1)
	go func() {
		s, _ := p.Out.ReadString('\n')
		line <- s
	}()
	select {
	case s := <-line:
		if s != "ready\n" {
			return fmt.Errorf("rig: start %s: it said %.80q instead of ready", p.Name, s)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("rig: start %s: %w", p.Name, context.Cause(ctx))
	}
}

// Wait waits until it has ended by itself.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.Done:
		if p.Err != nil {
			return fmt.Errorf("rig: %s: %w", p.Name, p.Err)
		}
		return nil
	case <-ctx.Done():
		p.Kill()
		return context.Cause(ctx)
	}
}

// Ended is an error when it has ended, which it should not have.
func (p *Process) Ended() error {
	select {
	case <-p.Done:
		return fmt.Errorf("rig: %s ended: %v", p.Name, p.Err)
	default:
		return nil
	}
}

// Stop asks it to end, by closing its input or with a signal, and kills it after patience.
func (p *Process) Stop(patience time.Duration) error {
	p.end.Do(func() {
		if p.in != nil {
			p.in.Close()
		} else {
			p.cmd.Process.Signal(p.ask) // fails only when it has ended already
		}
	})
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-p.Done:
		return p.Err
	case <-t.C:
	}
	p.Kill()
	return fmt.Errorf("rig: stop %s: still running after %v, killed", p.Name, patience)
}

// Kill ends it at once and waits for it.
func (p *Process) Kill() {
	p.cmd.Process.Kill() // fails only when it has ended already
	<-p.Done
}

// marked lists the processes that have mark in their environment, this one apart.
func marked(mark string) (left []string) {
	es, err := os.ReadDir("/proc")
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range es {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil {
			continue // ended meanwhile
		}
		if slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == mark }) {
			comm, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
			left = append(left, fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(comm))))
		}
	}
	return left
}
