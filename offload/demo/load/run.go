package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Target is one server under load.
type Target struct {
	Name string `json:"name"`
	Dialer
}

// Spec says what Run sends. Every target gets the whole of it.
type Spec struct {
	Targets []Target `json:"targets"`
	Rate    int      `json:"rate"`  // reads a second for each target, in [1,100000]
	Keys    int      `json:"keys"`  // keys that Fill set
	Cold    int      `json:"cold"`  // the first Cold keys are not read
	Theta   float64  `json:"theta"` // exponent of the popularity of the other keys
	Seed    uint64   `json:"seed"`
}

func (s Spec) check() error {
	switch {
	case len(s.Targets) == 0:
		return errors.New("load: no targets")
	case s.Rate < 1 || s.Rate > 100_000:
		return fmt.Errorf("load: rate %d outside [1,100000]", s.Rate)
	}
	return nil
}

// Second is what one target did with the reads that were due in one second of the schedule.
type Second struct {
	Target int       // index in Spec.Targets
	Number int       // seconds since the schedule began, from 0
	Start  time.Time // when this second of the schedule began
	// Latency holds one value a read in nanoseconds, from the moment the read was due to its reply.
	Latency *hdrhistogram.Histogram
	// Late is by how much the generator's own timer fired late at worst; it is not part of any latency.
	Late time.Duration
}

// Latencies are recorded from 1 µs to 2 minutes with three digits.
const (
	lowest  = 1_000
	highest = 120_000_000_000
	digits  = 3
)

// NewHistogram returns a histogram of Second.Latency's shape.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(lowest, highest, digits) }

// Options are what a program, not a user, decides about Run.
type Options struct {
	// Sleep blocks for about d; nil is time.Sleep. Its precision decides how the reads bunch, not what is
	// measured: see flow.send.
	Sleep func(d time.Duration)
	// Dial connects to a target; nil is Dialer.Dial.
	Dial func(ctx context.Context, d Dialer) (net.Conn, error)
	// Drain bounds how long Run waits for outstanding replies after ctx ended; default 2s.
	Drain time.Duration
}

// Run sends until ctx ends, hands every finished second of every target to emit, from one goroutine, and
// waits for the replies still outstanding. It returns nil when ctx ended and all replies came.
func Run(ctx context.Context, spec Spec, o Options, emit func(Second)) error {
	if err := spec.check(); err != nil {
		return err
	}
	if o.Sleep == nil {
		o.Sleep = time.Sleep
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, d Dialer) (net.Conn, error) { return d.Dial(ctx) }
	}
	if o.Drain == 0 {
		o.Drain = 2 * time.Second
	}
	seconds := make(chan Second, 16)
	emitted := make(chan struct{})
	go func() {
		defer close(emitted)
		for s := range seconds {
			emit(s)
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	var flows []*flow
	for i, t := range spec.Targets {
		keys, err := NewKeys(spec.Keys, spec.Cold, spec.Theta, spec.Seed)
		if err != nil {
			return err
		}
		c, err := o.Dial(ctx, t.Dialer)
		if err != nil {
			return err
		}
		defer c.Close()
		flows = append(flows, &flow{
			index: i, of: len(spec.Targets), name: t.Name, conn: c, keys: keys,
			interval: time.Second / time.Duration(spec.Rate), opts: o,
			due: make(chan due, 1<<16), out: seconds,
		})
	}
	start := time.Now().Add(20 * time.Millisecond)
	var wg sync.WaitGroup
	errs := make([]error, 2*len(flows))
	for i, f := range flows {
		f.start = start
		wg.Go(func() {
			if errs[2*i] = f.send(ctx); errs[2*i] != nil {
				cancel(errs[2*i])
			}
		})
		wg.Go(func() {
			if errs[2*i+1] = f.receive(); errs[2*i+1] != nil {
				cancel(errs[2*i+1])
			}
		})
	}
	wg.Wait()
	close(seconds)
	<-emitted
	return errors.Join(errs...)
}

// flow is one target's connection with its sender and its receiver.
type flow struct {
	index, of int
	name      string
	conn      net.Conn
	keys      *Keys
	interval  time.Duration
	start     time.Time
	opts      Options

	due chan due // the outstanding reads in the order sent
	out chan<- Second
}

// dueAt is when read i is due. The targets take turns within an interval, and who goes first alternates, so
// that they neither collide nor does one of them always find the other's traces.
func (f *flow) dueAt(i int) time.Duration {
	slot := (f.index + i) % f.of
	return time.Duration(i)*f.interval + time.Duration(slot)*f.interval/time.Duration(f.of)
}

// burst bounds how many reads go into one write.
const burst = 64

// due is one outstanding read: when the schedule wants it, and from when it is measured, both since the start.
type due struct{ at, from time.Duration }

// send writes every read when it is due, whatever became of the ones before. A read that came due while send
// was held up by the server, in a write that blocked, is measured from when it came due: that is the
// correction for coordinated omission. A read that came due while send slept and the timer fired late is
// measured from when it fired: that delay is the generator's and would hide a difference between servers.
func (f *flow) send(ctx context.Context) error {
	// A write that blocks, because the server does not read, ends some time after ctx does.
	stop := context.AfterFunc(ctx, func() { f.conn.SetDeadline(time.Now().Add(f.opts.Drain)) })
	defer stop()
	var buf, key []byte
	get := []byte("GET")
	for i := 0; ctx.Err() == nil; {
		slept := time.Since(f.start)
		if wait := f.dueAt(i) - slept; wait > 0 {
			f.opts.Sleep(wait)
		}
		fired := time.Since(f.start)
		buf = buf[:0]
		for n := 0; n < burst && f.dueAt(i) <= fired; n++ {
			d := due{at: f.dueAt(i), from: f.dueAt(i)}
			if d.at > slept {
				d.from = fired
			}
			key = AppendKey(key[:0], f.keys.Next())
			buf = AppendCommand(buf, get, key)
			if err := f.expect(ctx, d); err != nil {
				return err
			}
			i++
		}
		if len(buf) == 0 {
			continue
		}
		if _, err := f.conn.Write(buf); err != nil {
			return fmt.Errorf("load: %s: send: %w", f.name, err)
		}
	}
	// The reply to this one tells the receiver that nothing is outstanding.
	f.conn.SetDeadline(time.Now().Add(f.opts.Drain))
	if _, err := f.conn.Write(AppendCommand(nil, []byte("PING"))); err != nil {
		return fmt.Errorf("load: %s: send: %w", f.name, err)
	}
	return nil
}

// expect notes an outstanding read. It blocks only when 65,536 are outstanding already.
func (f *flow) expect(ctx context.Context, d due) error {
	select {
	case f.due <- d:
		return nil
	default:
	}
	select {
	case f.due <- d:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("load: %s: stalled to the end", f.name)
	}
}

func (f *flow) receive() error {
	dec := NewDecoder(f.conn)
	cur := Second{Target: f.index, Start: f.start, Latency: NewHistogram()}
	for {
		r, err := dec.Reply()
		now := time.Since(f.start)
		if err != nil {
			return fmt.Errorf("load: %s: receive: %w", f.name, err)
		}
		if r.Kind == Simple && bytes.Equal(r.Data, []byte("PONG")) {
			return nil // the last second is not whole and is dropped
		}
		if r.Kind != Bulk || r.Nil {
			return fmt.Errorf("load: %s: get: kind %q %.100q", f.name, r.Kind, r.Data)
		}
		due := <-f.due
		if n := int(due.at / time.Second); n != cur.Number {
			f.out <- cur
			cur = Second{Target: f.index, Number: n, Start: f.start.Add(time.Duration(n) * time.Second), Latency: NewHistogram()}
		}
		if err := cur.Latency.RecordValue(min(max(int64(now-due.from), lowest), highest)); err != nil {
			return fmt.Errorf("load: %s: record: %w", f.name, err)
		}
		cur.Late = max(cur.Late, due.from-due.at)
	}
}
