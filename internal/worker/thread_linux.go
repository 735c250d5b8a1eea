package worker

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/sys"
)

// signalEvery is how often a blocked thread is signalled until it comes back. One signal is not enough: it may
// arrive just before the thread enters the system call.
const signalEvery = 5 * time.Millisecond

// callBack is the signal that makes a blocked system call return EINTR. The Go runtime handles it in every
// program and takes it for one of its own preemption requests, which do no harm.
const callBack = sys.SIGURG

// job is one blocking piece of work. When ctx ends, the thread that runs it is signalled until run returns.
type job struct {
	ctx context.Context
	run func()
}

// thread is a goroutine locked to its OS thread, so that a blocked system call can be called back by thread id.
type thread struct {
	mu sync.Mutex
	// +checklocks:mu
	tid int
	// +checklocks:mu
	cur *job
}

// serve runs jobs until quit closes.
func (t *thread) serve(jobs <-chan *job, quit <-chan struct{}) {
	defer t.settle()()
	for {
		select {
		case j := <-jobs:
			t.one(j)
		case <-quit:
			return
		}
	}
}

// settle locks the goroutine to its thread until the function it returns is called.
func (t *thread) settle() func() {
	runtime.LockOSThread()
	t.mu.Lock()
	t.tid = sys.Gettid()
	t.mu.Unlock()
	return runtime.UnlockOSThread
}

func (t *thread) one(j *job) {
	t.mu.Lock()
	t.cur = j
	t.mu.Unlock()
	stop := context.AfterFunc(j.ctx, func() { t.interrupt(j) })
	j.run()
	// Taking mu here means that no signal meant for j is sent once the next job has begun.
	t.mu.Lock()
	t.cur = nil
	t.mu.Unlock()
	stop()
}

func (t *thread) interrupt(j *job) {
	tick := time.NewTicker(signalEvery)
	defer tick.Stop()
	for {
		t.mu.Lock()
		if t.cur != j {
			t.mu.Unlock()
			return
		}
		// It fails only for a thread that has ended, which the check above excludes.
		_ = sys.Tgkill(os.Getpid(), t.tid, callBack)
		t.mu.Unlock()
		<-tick.C
	}
}

// interruptible runs f on this goroutine, locked to its thread; when ctx ends, f's blocking system call is called back.
func interruptible(ctx context.Context, f func()) {
	var t thread
	defer t.settle()()
	t.one(&job{ctx, f})
}
