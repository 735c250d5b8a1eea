package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
)

// linger is how long the worker may keep the answer to a step of a batch, to send it along with others. Whoever steps
// hundreds of cgroups does so once a period of at least a second, and being woken for each answer costs more than
// everything else about it.
const linger = 50 * time.Millisecond

// Steps is Step for several cgroups at once, in one message each way where possible. It returns after calling done for
// every step, in the order in which they end and never two at a time; i is the step's place in steps. When ctx ends,
// every step still under way is called back as in Step.
func (c *Client) Steps(ctx context.Context, steps []Step, done func(i int, r StepResult, err error)) {
	if len(steps) == 0 {
		return
	}
	fail := func(open []bool, err error) {
		for i := range open {
			if open[i] {
				done(i, StepResult{}, err)
			}
		}
	}
	open := make([]bool, len(steps)) // still to be answered
	for i := range open {
		open[i] = true
	}
	if err := ctx.Err(); err != nil {
		fail(open, fmt.Errorf("worker: step: %w", err))
		return
	}
	first, ch, err := c.enlist(len(steps))
	if err != nil {
		fail(open, err)
		return
	}
	if err := c.sendSteps(ctx, first, steps); err != nil {
		for i := range steps {
			c.abandon(first + uint64(i))
		}
		fail(open, err)
		return
	}
	left := len(steps)
	take := func(r reply, also ...error) {
		if i := int(r.ID - first); r.ID >= first && i < len(open) && open[i] {
			open[i] = false
			left--
			done(i, r.result(), r.Err.err(also...))
		}
	}
	for left > 0 && ctx.Err() == nil {
		select {
		case r := <-ch:
			take(r)
		case <-ctx.Done():
		}
	}
	if left == 0 {
		return
	}
	// The process may have ended; then the answers that receive makes up are on their way.
	for i := range open {
		if open[i] {
			_ = c.send(&request{ID: first + uint64(i), Op: opCancel, Of: first + uint64(i)})
		}
	}
	patience := time.NewTimer(cancelPatience)
	defer patience.Stop()
	for left > 0 {
		select {
		case r := <-ch:
			take(r, ctx.Err(), context.Cause(ctx))
		case <-patience.C:
			for i := range open {
				c.abandon(first + uint64(i))
			}
			fail(open, fmt.Errorf("worker: step: no answer: %w", context.Cause(ctx)))
			return
		}
	}
}

// enlist reserves n ids from first on, all answered on one channel with room for them.
func (c *Client) enlist(n int) (first uint64, ch chan reply, err error) {
	ch = make(chan reply, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return 0, nil, c.ended
	}
	first = c.next
	c.next += uint64(n)
	for i := range n {
		c.waiting[first+uint64(i)] = ch
	}
	return first, ch, nil
}

func (c *Client) sendSteps(ctx context.Context, first uint64, steps []Step) error {
	var millis int64
	if end, ok := ctx.Deadline(); ok {
		millis = max(1, time.Until(end).Milliseconds())
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.buf = c.buf[:0]
	for i, s := range steps {
		req := s.request()
		req.ID, req.Millis, req.Lazy = first+uint64(i), millis, true
		var err error
		if c.buf, err = appendStep(c.buf, &req); err != nil {
			return err
		}
	}
	if _, err := c.in.Write(c.buf); err != nil {
		return errkind.New(errkind.Unavailable, "worker: step: %w", err)
	}
	return nil
}

func (s Step) request() request {
	return request{
		Op: opStep, Cgroup: journal.Text(s.Cgroup), Inode: s.Inode, Bytes: s.Bytes, Floor: s.Floor, Mix: int64(s.Swappiness),
	}
}
