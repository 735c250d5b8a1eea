// Package child starts the processes of an experiment: the demo's, and the benchmarks'.
//
// Promise: a child dies with this process, however this ends, unless it is told to outlive it; and whatever is left at
// the end is found by a mark in its environment. Ownership: who makes a Spawner closes it, after the children have
// ended. A Process belongs to who started it; its methods may run at the same time.
// Failure: a child that could not be given its cgroups or its task is killed before Start returns the error.
// Non-goals: making cgroups, running as another user, knowing what the children do.
package child

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spillway-io/spillway/internal/sys"
)

// Spawner starts all children from one thread, which lives until Close: the kernel ties "die with the parent" to the
// thread that started the child.
type Spawner struct {
	jobs chan func()
	mark string
}

// NewSpawner makes a spawner whose children have mark, an entry such as "NAME=VALUE", in their environment.
func NewSpawner(mark string) *Spawner {
	s := &Spawner{jobs: make(chan func()), mark: mark}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

// Close ends the thread, unless it is the process's first. It is called once, after the children have ended.
func (s *Spawner) Close() { close(s.jobs) }

// Spec says what to start.
type Spec struct {
	Name    string // for errors
	Args    []string
	Cgroups []string // directories whose cgroup.procs it joins before it gets its task
	Task    any      // sent to its input as JSON, which then stays open; nil: no input
	Log     string   // file to which its output and errors are added; "": output is a pipe, errors are ours
	CPUs    []int    // that it may run on; nil: any
	// Ask is the signal that asks it to end when it has no input; 0 is SIGTERM.
	Ask sys.Signal
	// OnDeath is the signal it gets when this program dies; 0 is SIGKILL.
	OnDeath sys.Signal
	Outlive bool   // instead: it goes on, in its own session
	Dir     string // working directory; "" is /
}

// Start starts a child in its own process group, so that a Ctrl-C reaches only us.
func (s *Spawner) Start(sp Spec) (*Process, error) {
	p := &Process{Name: sp.Name, Done: make(chan struct{}), cmd: exec.Command(sp.Args[0], sp.Args[1:]...), ask: sp.Ask}
	if p.ask == 0 {
		p.ask = sys.SIGTERM
	}
	if sp.OnDeath == 0 {
		sp.OnDeath = sys.SIGKILL
	}
	p.cmd.Env = append(os.Environ(), s.mark)
	p.cmd.Dir = "/"
	if sp.Dir != "" {
		p.cmd.Dir = sp.Dir
	}
	p.cmd.SysProcAttr = sys.DieWithParent(sp.OnDeath)
	p.cmd.SysProcAttr.Setpgid = true
	if sp.Outlive {
		p.cmd.SysProcAttr = sys.Detached()
	}
	if err := s.launch(p, sp); err != nil {
		return nil, fmt.Errorf("child: start %s: %w", sp.Name, err)
	}
	return p, nil
}

func (s *Spawner) launch(p *Process, sp Spec) error {
	if sp.Log != "" {
		f, err := sys.OpenRegular(sp.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
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
	s.jobs <- func() { started <- pinned(sp.CPUs, p.cmd.Start) }
	if err := <-started; err != nil {
		return err
	}
	go p.reap()
	for _, dir := range sp.Cgroups {
		pid := strconv.AppendInt(nil, int64(p.PID()), 10)
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), pid, 0); err != nil {
			p.Kill()
			return fmt.Errorf("move it to its cgroup: %w", err)
		}
	}
	if sp.Task != nil {
		if err := p.Tell(sp.Task); err != nil {
			p.Kill()
			return fmt.Errorf("give it its task: %w", err)
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

// Places says where two servers that are compared and their load generator run. The servers share a CPU, so that
// whatever else takes it from them takes it from both in the same second, and the ratio of their latencies is about
// them; the generator has another one, so that it sends on time. With a single CPU nothing is pinned.
func Places() (servers, generator []int) {
	all, err := sys.CPUs()
	if err != nil || len(all) < 2 {
		return nil, nil
	}
	return all[len(all)-1:], all[len(all)-2 : len(all)-1]
}

// Marked lists the processes that have mark in their environment, this one apart; none have "".
func Marked(mark string) (left []string, err error) {
	if mark == "" {
		return nil, nil
	}
	es, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("child: list processes: %w", err)
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
	return left, nil
}
