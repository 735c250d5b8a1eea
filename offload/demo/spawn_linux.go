package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/sys"
)

// spawner starts the demo's processes. The kernel ties "die with the parent" to the thread that started the
// child, so one goroutine starts them all and keeps its thread until close.
type spawner struct {
	jobs chan func()
	mark string // environment entry by which leftovers finds the processes of this run
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

// close lets the thread go; the kernel then signals whatever is still running.
func (s *spawner) close() { close(s.jobs) }

// process is one child.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.ReadCloser // nil when the output goes to a file

	done chan struct{} // closed when it has ended
	err  error         // how, once done is closed
	once sync.Once
}

// spec says what to start.
type spec struct {
	name    string
	args    []string
	task    any      // sent to its input as JSON; nil: no input
	cgroups []string // directories whose cgroup.procs it joins before it gets its task
	log     string   // file for its output and errors; "": output is a pipe, errors are ours
	onDeath sys.Signal
	cpus    []int // that it may run on; nil: any
}

// start starts a child that dies with this process, in its own process group so that a Ctrl-C reaches only us.
func (s *spawner) start(sp spec) (*process, error) {
	p := &process{name: sp.name, cmd: exec.Command(sp.args[0], sp.args[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), s.mark)
	p.cmd.Dir = "/"
	attr := sys.DieWithParent(sp.onDeath)
	attr.Setpgid = true
	p.cmd.SysProcAttr = attr
	var err error
	if sp.log != "" {
		f, ferr := sys.OpenRegular(sp.log, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if ferr != nil {
			return nil, fmt.Errorf("demo: start %s: %w", sp.name, ferr)
		}
		defer f.Close()
		p.cmd.Stdout, p.cmd.Stderr = f, f
	} else {
		p.cmd.Stderr = os.Stderr
		if p.out, err = p.cmd.StdoutPipe(); err != nil {
			return nil, fmt.Errorf("demo: start %s: %w", sp.name, err)
		}
	}
	if sp.task != nil {
		if p.in, err = p.cmd.StdinPipe(); err != nil {
			return nil, fmt.Errorf("demo: start %s: %w", sp.name, err)
		}
	}
	started := make(chan error)
	s.jobs <- func() { started <- pinned(sp.cpus, p.cmd.Start) }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("demo: start %s: %w", sp.name, err)
	}
	go func() {
		state, err := p.cmd.Process.Wait()
		if err == nil && !state.Success() {
			err = errors.New(state.String())
		}
		p.err = err
		close(p.done)
	}()
	for _, dir := range sp.cgroups {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(p.pid()), 10), 0); err != nil {
			p.kill()
			return nil, fmt.Errorf("demo: move %s to its cgroup: %w", sp.name, err)
		}
	}
	if sp.task != nil {
		if err := json.NewEncoder(p.in).Encode(sp.task); err != nil {
			p.kill()
			return nil, fmt.Errorf("demo: give %s its task: %w", sp.name, err)
		}
	}
	return p, nil
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

// places says where the two servers and the generator run. The servers share a CPU, so that whatever else takes
// it from them takes it from both in the same second, and the ratio of their latencies is about them; the
// generator has another one, so that it sends on time. With a single CPU nothing is pinned.
func places() (servers, generator []int) {
	all, err := sys.CPUs()
	if err != nil || len(all) < 2 {
		return nil, nil
	}
	return all[len(all)-1:], all[len(all)-2 : len(all)-1]
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ready waits for the line "ready".
func (p *process) ready(ctx context.Context) error {
	line := make(chan string, 1)
	go func() {
		s, _ := bufio.NewReader(p.out).ReadString('\n')
		line <- s
	}()
	select {
	case s := <-line:
		if s != "ready\n" {
			return fmt.Errorf("demo: start %s: it said %.80q instead of ready", p.name, s)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("demo: start %s: %w", p.name, context.Cause(ctx))
	}
}

// stop asks the child to end, by closing its input or with a signal, and kills it after patience.
func (p *process) stop(patience time.Duration) error {
	p.once.Do(func() {
		if p.in != nil {
			p.in.Close()
		} else {
			p.cmd.Process.Signal(sys.SIGTERM) // fails only when it has ended already
		}
	})
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-p.done:
		return p.err
	case <-t.C:
	}
	p.kill()
	return fmt.Errorf("demo: stop %s: still running after %v, killed", p.name, patience)
}

// kill ends the child at once and waits for it.
func (p *process) kill() {
	p.cmd.Process.Kill() // fails only when it has ended already
	<-p.done
}
