package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/sys"
)

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

func (p *Process) reap() {
	state, err := p.cmd.Process.Wait()
	if err == nil && !state.Success() {
		err = errors.New(state.String())
	}
	p.Err = err
	close(p.Done)
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
			return fmt.Errorf("child: start %s: it said %.80q instead of ready", p.Name, s)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("child: start %s: %w", p.Name, context.Cause(ctx))
	}
}

// Wait waits until it has ended by itself, and kills it when ctx ends before.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.Done:
		if p.Err != nil {
			return fmt.Errorf("child: %s: %w", p.Name, p.Err)
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
		return fmt.Errorf("child: %s ended: %v", p.Name, p.Err)
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
	return fmt.Errorf("child: stop %s: still running after %v, killed", p.Name, patience)
}

// Kill ends it at once and waits for it.
func (p *Process) Kill() {
	p.cmd.Process.Kill() // fails only when it has ended already
	<-p.Done
}
