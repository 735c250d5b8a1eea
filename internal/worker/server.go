package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/sys"
)

const (
	poolThreads = 4    // reclaim of one cgroup rarely helps from a fifth core, and the rest belongs to the workload
	maxPending  = 8192 // requests in flight; more is refused
	sweepEvery  = time.Minute
	// stepPatience is how long interrupted steps get to restore their own limits before the worker looks itself.
	stepPatience = 300 * time.Millisecond
)

// MainConfig says how the worker process runs.
type MainConfig struct {
	StateDir string
	Root     string         // directory below which proc, sys and dev are found; "" is "/"
	Log      *slog.Logger   // the process's own log (stderr); nil discards
	Journal  journal.Config // tests inject faults here
}

// server is the worker process.
type server struct {
	m       *machine
	lock    *os.File
	out     chan message
	steps   chan *job
	turns   chan func()    // changes, one after the other
	quit    chan struct{}  // closed last: ends the threads, the writer and the changes
	ended   sync.WaitGroup // those goroutines
	work    sync.WaitGroup // steps claimed; grows only under mu while not closing
	changes sync.WaitGroup // changes queued or under way; likewise

	ctx  context.Context // ends when the daemon is gone: everything blocked is called back
	stop context.CancelCauseFunc

	mu sync.Mutex
	// +checklocks:mu
	closing bool
	// +checklocks:mu
	handles map[string]*handle
	// +checklocks:mu
	cancels map[uint64]context.CancelFunc // by request in flight
}

// message is one line for the daemon; sent, when not nil, is closed once it is on its way. A lazy one may linger.
type message struct {
	b    []byte
	lazy bool
	sent chan struct{}
}

var errHangup = errors.New("the daemon hung up")

// Main is the body of the worker process. It answers requests from in on out until in ends or ctx does, then
// undoes everything: interrupted steps, limits and knobs at once, swap and directories after. It returns what could
// not be undone, which stays in the journal. SIGINT, SIGTERM, SIGHUP and SIGPIPE are ignored from here on: the
// worker lives as long as its daemon.
func Main(ctx context.Context, in io.Reader, out io.Writer, c MainConfig) error {
	signal.Ignore(sys.SIGINT, sys.SIGTERM, sys.SIGHUP, sys.SIGPIPE) // a write to the dead daemon's pipe must not kill us before we have restored anything
	s, hello, err := open(ctx, c)
	if err != nil {
		// Whoever started us reads it from the greeting; a broken pipe has nobody to tell.
		if b, encErr := encode(reply{Err: toWire(err)}); encErr == nil {
			_, _ = out.Write(b)
		}
		return err
	}
	b, err := encode(hello)
	if err == nil {
		_, err = out.Write(b)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("worker: greet: %w", err), s.shutdown(context.WithoutCancel(ctx), 0))
	}
	return s.run(ctx, in, out)
}

// open takes the lock and undoes what an earlier run left.
func open(ctx context.Context, c MainConfig) (*server, reply, error) {
	m, err := look(c.Root, c.Log)
	if err != nil {
		return nil, reply{}, err
	}
	if err := ensureDir(c.StateDir); err != nil {
		return nil, reply{}, err
	}
	// Before the lock file is made there: whoever owns the directory could choose what that touches.
	if err := journal.CheckDir(c.StateDir); err != nil {
		return nil, reply{}, fmt.Errorf("worker: %w", err)
	}
	lock, err := acquire(ctx, c.StateDir)
	if err != nil {
		return nil, reply{}, err
	}
	j, report, err := journal.Open(c.StateDir, c.Journal)
	if err != nil {
		lock.Close()
		return nil, reply{}, fmt.Errorf("worker: %w", err)
	}
	m.j = j
	hello := reply{Notes: notes(report)}
	hello.tell(m.undoAll(ctx, j.Entries(), false, nil))
	s := &server{
		m: m, lock: lock,
		out:   make(chan message, maxPending+16),
		steps: make(chan *job, maxPending), turns: make(chan func(), 256), quit: make(chan struct{}),
		handles: map[string]*handle{}, cancels: map[uint64]context.CancelFunc{},
	}
	s.ctx, s.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	return s, hello, nil
}

func notes(r journal.Report) []string {
	var n []string
	if r.Torn {
		n = append(n, "the journal's last line was torn: a process was killed while writing it")
	}
	if r.Damaged > 0 {
		n = append(n, fmt.Sprintf("%d damaged lines in the journal, kept as journal.damaged: %s", r.Damaged, r.FirstError))
	}
	return n
}

func (s *server) run(ctx context.Context, in io.Reader, out io.Writer) error {
	defer context.AfterFunc(ctx, func() { s.stop(context.Cause(ctx)) })()
	for range poolThreads {
		s.ended.Go(func() { new(thread).serve(s.steps, s.quit) })
	}
	s.ended.Go(func() { s.write(out) })
	s.ended.Go(func() {
		for {
			select {
			case f := <-s.turns:
				f()
			case <-s.quit:
				return
			}
		}
	})
	closeID := make(chan uint64, 1)
	go s.read(in, closeID)

	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	var id uint64
	for open := true; open; {
		select {
		case <-s.ctx.Done():
			open = false
		case id = <-closeID:
			open = false
		case now := <-sweep.C:
			s.sweep(now)
		}
	}
	return s.shutdown(context.WithoutCancel(ctx), id)
}

// write sends answers, those that may linger along with others. After the daemon's death it goes on taking them, so
// that nobody waits.
func (s *server) write(out io.Writer) {
	var buf []byte
	due := time.NewTimer(linger)
	due.Stop()
	flush := func() {
		due.Stop()
		if len(buf) == 0 {
			return
		}
		if _, err := out.Write(buf); err != nil {
			s.stop(errHangup)
		}
		buf = buf[:0]
	}
	for {
		select {
		case m := <-s.out:
			if len(buf) == 0 && m.lazy {
				due.Reset(linger)
			}
			buf = append(buf, m.b...)
			if !m.lazy || len(buf) > maxLine/4 {
				flush()
			}
			if m.sent != nil {
				close(m.sent)
			}
		case <-due.C:
			flush()
		case <-s.quit:
			return
		}
	}
}

// read takes requests until the daemon hangs up, breaks the protocol or asks to close.
func (s *server) read(in io.Reader, closeID chan<- uint64) {
	lines := newLines(in)
	for {
		b, err := lines.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.m.log.Error("cannot read from the daemon", "err", err)
			}
			s.stop(errHangup)
			return
		}
		req := new(request)
		if err := json.Unmarshal(b, req); err != nil || req.ID == 0 {
			s.m.log.Error("the daemon broke the protocol", "err", err)
			s.stop(errHangup)
			return
		}
		if req.Op == opClose {
			select {
			case closeID <- req.ID:
			default: // asked already
			}
			continue // the pipe's end still matters: it must not be left unread
		}
		s.handle(req)
	}
}
