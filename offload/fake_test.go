package offload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/class"
)

// fakeWorker stands for the worker process: it notes every request and answers as scripted.
type fakeWorker struct {
	mu    sync.Mutex
	steps []worker.Step
	dead  chan struct{}
	// answer is called without the lock; nil takes everything asked for.
	answer func(context.Context, worker.Step) (worker.StepResult, error)
}

func newFakeWorker() *fakeWorker { return &fakeWorker{dead: make(chan struct{})} }

func (w *fakeWorker) Step(ctx context.Context, s worker.Step) (worker.StepResult, error) {
	w.mu.Lock()
	w.steps = append(w.steps, s)
	answer := w.answer
	w.mu.Unlock()
	if answer != nil {
		return answer(ctx, s)
	}
	return worker.StepResult{Before: s.Bytes, After: 0, Took: time.Millisecond}, nil
}

func (w *fakeWorker) Steps(ctx context.Context, steps []worker.Step, done func(int, worker.StepResult, error)) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, s := range steps {
		wg.Go(func() {
			r, err := w.Step(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			done(i, r, err)
		})
	}
}

func (w *fakeWorker) Do(context.Context, worker.Change) (worker.Done, error) {
	return worker.Done{}, fmt.Errorf("fake worker changes nothing")
}
func (w *fakeWorker) Undo(context.Context, string) error { return nil }
func (w *fakeWorker) Usage() (worker.Usage, error)       { return worker.Usage{}, nil }
func (w *fakeWorker) Dead() <-chan struct{}              { return w.dead }
func (w *fakeWorker) taken() (paths map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	paths = map[string]int{}
	for _, s := range w.steps {
		paths[s.Cgroup]++
	}
	return paths
}

// machine is a made-up node: a cgroup tree and the host's files beside it.
type machine struct {
	*testkit.CgroupTree
	t *testing.T
}

const mib = int64(1) << 20

func newMachine(t *testing.T, mode testkit.CgroupMode) *machine {
	m := &machine{CgroupTree: testkit.NewCgroupTree(t, mode), t: t}
	m.file("proc/sys/kernel/osrelease", "6.1.0-test\n")
	m.file("proc/sys/kernel/hostname", "node-7\n")
	m.file("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/swap file 1048572 0 -2\n")
	m.file("proc/diskstats", "")
	m.file("proc/vmstat", "pswpin 0\npswpout 0\npgmajfault 0\n")
	m.meminfo(8<<20, 4<<20, 1<<20, 1<<20)
	m.pressure(0, 0)
	if mode == testkit.CgroupV2 {
		m.Set("/", "memory.reclaim", "")
	}
	return m
}

func (m *machine) file(name, text string) {
	m.t.Helper()
	p := filepath.Join(m.Root, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// meminfo sets the host's memory, in KiB.
func (m *machine) meminfo(total, available, swapTotal, swapFree int) {
	m.file("proc/meminfo", fmt.Sprintf("MemTotal: %d kB\nMemFree: %d kB\nMemAvailable: %d kB\nSwapTotal: %d kB\nSwapFree: %d kB\nZswap: 0 kB\nZswapped: 0 kB\n",
		total, available, available, swapTotal, swapFree))
}

func (m *machine) pressure(memory, io uint64) {
	for name, total := range map[string]uint64{"memory": memory, "io": io} {
		m.file("proc/pressure/"+name, fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", total))
	}
}

// agent makes an agent on m with one-second periods at the largest step.
func (m *machine) agent(w Actuator, change func(*Config)) *Agent {
	m.t.Helper()
	cfg := Config{Period: time.Second, Params: map[class.Class]Targets{"latency": {Ratio: 0.01}}}
	if change != nil {
		change(&cfg)
	}
	deps := Deps{Root: m.Root}
	if w != nil {
		deps.Worker = w
	}
	a, err := New(cfg, deps)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(a.closeAll)
	return a
}

// ticks runs n periods of a second each and waits for the steps of each.
func ticks(a *Agent, n int, at time.Time) time.Time {
	for range n {
		at = at.Add(time.Second)
		a.tick(context.Background(), at, time.Second)
		a.drainSteps()
	}
	return at
}
