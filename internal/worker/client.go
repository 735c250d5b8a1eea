package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// cancelPatience is how long a cancelled call waits for the worker's word that the limit is back.
const cancelPatience = 2 * time.Second

// Client is a running worker process. Its methods may be called concurrently.
type Client struct {
	cmd *exec.Cmd
	log *slog.Logger

	dead chan struct{} // closed by receive, after the process was waited for

	in  io.WriteCloser // written under wmu; closed at any time, which ends a blocked write
	wmu sync.Mutex
	// +checklocks:wmu
	buf []byte

	mu sync.Mutex
	// +checklocks:mu
	next uint64
	// +checklocks:mu
	waiting map[uint64]chan reply // with room for every answer it is registered for
	// +checklocks:mu
	closing bool // Close was called
	// +checklocks:mu
	ended error // why nothing more will be answered
}

// Start starts a worker, which first undoes what an earlier run left in the journal. ctx bounds the start only;
// the worker lives until Close or until this process ends. A second worker on one StateDir is errkind.Unavailable.
func Start(ctx context.Context, c Config) (*Client, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Stderr == nil {
		c.Stderr = os.Stderr
	}
	if err := checkPath(c.StateDir); err != nil {
		return nil, errkind.New(errkind.Invalid, "worker: state directory %q: %w", c.StateDir, err)
	}
	exe := c.Exe
	if exe == "" {
		exe = "/proc/self/exe"
	}
	cmd := exec.Command(exe, "worker", "--state-dir", c.StateDir)
	cmd.Args[0] = "spillway"
	cmd.Stderr = c.Stderr
	cmd.SysProcAttr = sys.Detached()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("worker: start: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("worker: start: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("worker: start: %w", err)
	}
	cl := &Client{cmd: cmd, log: c.Log, dead: make(chan struct{}), in: in, next: 1, waiting: map[uint64]chan reply{}}
	hello := make(chan reply, 1)
	cl.waiting[0] = hello
	go cl.receive(out)

	select {
	case r := <-hello:
		if r.Err != nil {
			cl.hangUp()
			<-cl.dead
			return nil, r.Err.err()
		}
		cl.greeted(r)
		return cl, nil
	case <-ctx.Done():
		cl.hangUp()
		return nil, fmt.Errorf("worker: start: %w", context.Cause(ctx))
	}
}

func (c *Client) greeted(r reply) {
	for _, n := range r.Notes {
		c.log.Warn("worker journal", "note", n)
	}
	for _, w := range r.Undone {
		logOutcome(c.log, "undoing an earlier run", w.outcome())
	}
}

// receive hands answers to those who wait, until the worker's end of the pipe closes.
func (c *Client) receive(out io.Reader) {
	lines := newLines(out)
	var cause error
	for {
		b, err := lines.next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				cause = err
			}
			break
		}
		var r reply
		if err := json.Unmarshal(b, &r); err != nil {
			cause = fmt.Errorf("worker: broken answer: %w", err)
			break
		}
		c.mu.Lock()
		ch := c.waiting[r.ID]
		delete(c.waiting, r.ID)
		c.mu.Unlock()
		if ch != nil {
			ch <- r
		}
	}
	c.hangUp()
	if err := c.cmd.Wait(); cause == nil {
		cause = err
	}
	why := errkind.New(errkind.Unavailable, "worker: process %d ended", c.PID())
	if cause != nil {
		why = errkind.New(errkind.Unavailable, "worker: process %d ended: %w", c.PID(), cause)
	}
	c.mu.Lock()
	c.ended = why
	for id, ch := range c.waiting {
		ch <- reply{ID: id, lost: true, Err: toWire(why)}
		delete(c.waiting, id)
	}
	c.mu.Unlock()
	close(c.dead)
}

// hangUp tells the worker that nobody will ask any more. Closing twice is harmless.
func (c *Client) hangUp() { c.in.Close() }

// call sends a request and waits for its answer. When ctx ends first, the worker is told, and call still waits a
// while: the answer says that the limit is back.
func (c *Client) call(ctx context.Context, req *request) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, fmt.Errorf("worker: %s: %w", req.Op, err)
	}
	if end, ok := ctx.Deadline(); ok {
		req.Millis = max(1, time.Until(end).Milliseconds())
	}
	ch := make(chan reply, 1)
	c.mu.Lock()
	if c.ended != nil {
		defer c.mu.Unlock()
		return reply{}, c.ended
	}
	req.ID = c.next
	c.next++
	c.waiting[req.ID] = ch
	c.mu.Unlock()
	if err := c.send(req); err != nil {
		c.abandon(req.ID)
		return reply{}, err
	}
	select {
	case r := <-ch:
		return r, r.Err.err()
	case <-ctx.Done():
	}
	// The process may have ended; then the answer that receive makes up is on its way.
	_ = c.send(&request{ID: req.ID, Op: opCancel, Of: req.ID})
	patience := time.NewTimer(cancelPatience)
	defer patience.Stop()
	select {
	case r := <-ch:
		return r, r.Err.err(ctx.Err(), context.Cause(ctx))
	case <-patience.C:
		c.abandon(req.ID)
		return reply{}, fmt.Errorf("worker: %s: no answer: %w", req.Op, context.Cause(ctx))
	}
}

func (c *Client) send(req *request) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	var err error
	if req.Op == opStep {
		c.buf, err = appendStep(c.buf[:0], req)
	} else {
		c.buf, err = encode(req)
	}
	if err != nil {
		return err
	}
	if _, err := c.in.Write(c.buf); err != nil {
		return errkind.New(errkind.Unavailable, "worker: %s: %w", req.Op, err)
	}
	return nil
}

func (c *Client) abandon(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// Step takes memory from one cgroup: memory.reclaim on v2, shrinking and restoring the limit on v1. It blocks as
// long as the kernel does; when ctx ends, the worker calls the blocked thread back, the limit is restored, and the
// error wraps ctx's. Steps on different cgroups run in parallel, four at a time; a second one on the same cgroup is
// ErrInFlight. errors.Is cgroup.ErrGone: it vanished. With an error the result still says what was taken.
//
// Step.Swappiness chooses between file and anonymous memory for this step alone: by an argument of memory.reclaim where
// the kernel has it, else by a knob of the cgroup (never of the machine) that is journalled, written, and put back like
// the limit. One that this kernel cannot do is errors.ErrUnsupported and takes nothing: the caller chooses again.
// errors.Is cgroup.ErrForeign: somebody else wrote the knob or the limit meanwhile; theirs stays.
func (c *Client) Step(ctx context.Context, s Step) (StepResult, error) {
	req := s.request()
	r, err := c.call(ctx, &req)
	return r.result(), err
}

func (r *reply) result() StepResult {
	return StepResult{
		Before: r.Before, After: r.After, Took: r.Took, FailCnt: r.FailCnt, Busy: r.Busy, By: r.By, Swappiness: cgroup.Swappiness(r.Mix),
	}
}

// Do makes one lasting change, journalled before it is made. When it fails, or ctx ends, nothing stays changed; what
// cannot be taken back at once stays journalled and is named in the error. Changes are made one after the other.
func (c *Client) Do(ctx context.Context, ch Change) (Done, error) {
	if _, _, err := ch.kind(); err != nil {
		return Done{}, err
	}
	r, err := c.call(ctx, &request{Op: opDo, Change: &ch})
	if err != nil {
		return Done{}, err
	}
	return Done{ID: strconv.FormatUint(r.Entry, 10), Device: string(r.Device)}, nil
}

// Undo takes one change back. A value that somebody else has changed since is left alone, which is no error. An
// unknown id is errkind.NotFound; a change that cannot be undone now stays journalled.
func (c *Client) Undo(ctx context.Context, id string) error {
	entry, err := entryID(id)
	if err != nil {
		return err
	}
	_, err = c.call(ctx, &request{Op: opUndo, Entry: entry})
	return err
}

// Kdamond has the kdamond that Do set up, by its id, obey one of the commands Kdamond…, and waits until it has: up to
// an interval of its own, during which ctx has no effect on it. errors.Is fs.ErrNotExist: somebody else set DAMON up
// anew.
func (c *Client) Kdamond(ctx context.Context, id, command string) error {
	entry, err := entryID(id)
	if err != nil {
		return err
	}
	_, err = c.call(ctx, &request{Op: opKdamond, Entry: entry, Command: command})
	return err
}

// Usage asks what the worker process has cost so far.
func (c *Client) Usage() (Usage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := c.call(ctx, &request{Op: opUsage})
	return Usage{CPU: r.CPU, MaxRSS: r.MaxRSS, Entries: r.Entries}, err
}

// PID is the worker's process id.
func (c *Client) PID() int { return c.cmd.Process.Pid }

// Dead is closed when the worker process has ended.
func (c *Client) Dead() <-chan struct{} { return c.dead }

// Close has the worker undo everything, limits and knobs first, then the rest newest first, and waits for its end.
// The error says what could not be undone and is still journalled. When ctx ends first the worker goes on without
// us. Idempotent.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	again := c.closing
	c.closing = true
	c.mu.Unlock()
	var err error
	if !again {
		var r reply
		if r, err = c.call(ctx, &request{Op: opClose}); err != nil && (r.ID == 0 || r.lost) && ctx.Err() == nil {
			err = fmt.Errorf("worker: close: it ended before it could tell what it undid: %w", err)
		}
		c.hangUp()
	}
	select {
	case <-c.dead:
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("worker: close: %w", context.Cause(ctx)))
	}
	return err
}
