package slo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// exchange is one question to a service and its answer. Its owner is the prober's goroutine.
type exchange interface {
	do(context.Context) error
	close()
}

// prober asks again and again, on a schedule that a slow answer does not slow down: after an exchange that took longer
// than the distance of two, the ones that were due meanwhile count as waited for, too, instead of being left out
// (HdrHistogram's correction for coordinated omission). They are not sent: a service in trouble gets fewer probes.
type prober struct {
	one     exchange
	every   time.Duration
	timeout time.Duration
	now     func() time.Time

	cancel context.CancelFunc
	done   chan struct{}

	mu sync.Mutex
	// +checklocks:mu
	took *hdrhistogram.Histogram // µs
	// +checklocks:mu
	spare *hdrhistogram.Histogram
	// +checklocks:mu
	asked, failed, timedOut uint64
	// +checklocks:mu
	last error
}

// Latencies are kept from 1 µs to 20 s with two digits: 1 % is finer than any window's p99.
const (
	lowest  = 1
	highest = 20_000_000
	digits  = 2
)

func newProber(one exchange, every, timeout time.Duration) *prober {
	return &prober{
		one: one, every: every, timeout: timeout, now: time.Now, done: make(chan struct{}), cancel: func() {},
		took: hdrhistogram.New(lowest, highest, digits), spare: hdrhistogram.New(lowest, highest, digits),
	}
}

func (p *prober) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.done)
		defer p.one.close()
		p.run(ctx)
	}()
}

// run probes until ctx ends.
func (p *prober) run(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	due := p.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		p.ask(ctx)
		now := p.now()
		if due = due.Add(p.every); due.Before(now) { // the slots that passed are accounted for
			due = due.Add(now.Sub(due).Truncate(p.every) + p.every)
		}
		t.Reset(due.Sub(now))
	}
}

// ask makes one exchange. It is timed from when it is sent: a timer that fires late is ours, not the service's.
func (p *prober) ask(ctx context.Context) {
	each, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	sent := p.now()
	err := p.one.do(each)
	took := p.now().Sub(sent)
	if ctx.Err() != nil {
		return
	}
	p.note(took, err)
}

func (p *prober) note(took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || err != nil && took >= p.timeout
	if err != nil && !late {
		p.failed++
		p.last = err
		return
	}
	if late {
		p.timedOut++
		took = p.timeout
	}
	_ = p.took.RecordCorrectedValue(min(max(took.Microseconds(), lowest), highest), p.every.Microseconds()) // in range
}

// Read returns what was asked since the last one.
func (p *prober) Read(context.Context) Reading {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.took
	p.took, p.spare = p.spare, h
	p.took.Reset()
	asked, failed, timedOut, last := p.asked, p.failed, p.timedOut, p.last
	p.asked, p.failed, p.timedOut, p.last = 0, 0, 0, nil
	r := Reading{Count: asked, Failed: failed}
	if h.TotalCount() > 0 {
		r.P50, r.P99 = quantile(h, 50), quantile(h, 99)
	}
	switch {
	case asked == 0:
		r.State, r.Why = Empty, "no probe ended in this window"
	case failed*100 > asked: // the p99 is a request that failed
		r.State, r.Why = Failed, fmt.Sprintf("%d of %d probes failed: %.200s", failed, asked, last)
		r.P50, r.P99 = 0, 0
	case timedOut > 0 && r.P99.Microseconds() >= p.timeout.Microseconds()*(100-digits)/100:
		r.State, r.Why, r.AtLeast = Slow, fmt.Sprintf("%d of %d probes had no answer within %v", timedOut, asked, p.timeout), true
		r.P99 = p.timeout
	case asked < MinSamples:
		r.State, r.Why = Few, fmt.Sprintf("%d probes, a p99 needs %d", asked, MinSamples)
		r.P50, r.P99 = 0, 0
	default:
		r.State = Good
	}
	return r
}

func quantile(h *hdrhistogram.Histogram, q float64) time.Duration {
	return time.Duration(max(h.ValueAtQuantile(q), lowest)) * time.Microsecond
}

func (p *prober) Close() error {
	p.cancel()
	<-p.done
	return nil
}
