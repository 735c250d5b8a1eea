package tier

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
)

// child is the driver's end of the canary process.
type child struct {
	ctx context.Context // its end kills the process, which ends every ask
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	log *tail
}

func startChild(ctx context.Context, exe string) (*child, error) {
	c := &child{ctx: ctx, cmd: exec.CommandContext(ctx, exe, "canary"), log: &tail{}}
	c.cmd.Env = []string{} // it needs nothing of ours, and is not to see what an environment may hold
	c.cmd.Stderr = c.log
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("tier: start canary: %w", err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("tier: start canary: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("tier: start canary: %w", err)
	}
	c.in, c.out = in, bufio.NewScanner(out)
	return c, nil
}

// ask gives one order and waits for its answer.
func (c *child) ask(o order) (answer, error) {
	var a answer
	line, err := json.Marshal(o)
	if err != nil {
		return a, fmt.Errorf("tier: order canary: %w", err)
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return a, c.gone(o.Do, err)
	}
	if !c.out.Scan() {
		return a, c.gone(o.Do, errors.Join(io.ErrUnexpectedEOF, c.out.Err()))
	}
	if err := json.Unmarshal(c.out.Bytes(), &a); err != nil {
		return a, fmt.Errorf("tier: order canary to %s: answer: %w", o.Do, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("tier: canary: %s: %s", o.Do, strings.TrimPrefix(a.Error, "tier: "))
	}
	return a, nil
}

// gone explains a process that does not answer: our own deadline first, then its last words.
func (c *child) gone(do string, err error) error {
	if cause := context.Cause(c.ctx); cause != nil {
		return fmt.Errorf("tier: order canary to %s: %w", do, cause)
	}
	if text := c.log.String(); text != "" {
		return fmt.Errorf("tier: order canary to %s: %w: %q", do, err, text)
	}
	return fmt.Errorf("tier: order canary to %s: %w", do, err)
}

// stop kills the process and waits for it; its exit status is of no interest then.
func (c *child) stop() {
	_ = c.in.Close()
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// tail keeps the first kilobyte of what the process says on its way out.
type tail struct {
	mu sync.Mutex
	// +checklocks:mu
	text []byte
}

const tailBytes = 1024

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[:min(len(p), tailBytes-len(t.text))]...)
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
