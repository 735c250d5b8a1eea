package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
)

// answers collects what a batch says; done is called by one goroutine at a time.
type answers map[int]error

func (a answers) take(t *testing.T) func(int, StepResult, error) {
	return func(i int, _ StepResult, err error) {
		if _, twice := a[i]; twice {
			t.Errorf("step %d is answered twice", i)
		}
		a[i] = err
	}
}

// TestBatchAnswersEveryStep: each step of a batch has its own outcome.
func TestBatchAnswersEveryStep(t *testing.T) {
	b := newBed(t, "batch")
	role(t, b.dir, "reread", dataFile(t, 16*mib))
	dir := stateDir(t)
	c := startWorker(t, dir)
	got := answers{}
	var first StepResult
	take := got.take(t)
	c.Steps(t.Context(), []Step{
		{Cgroup: b.path, Inode: b.inode, Bytes: 2 * mib, Floor: mib},
		{Cgroup: "/spillway-test-none", Bytes: mib},
		{Cgroup: b.path, Bytes: 0},
		{Cgroup: "/", Bytes: mib},
	}, func(i int, r StepResult, err error) {
		take(i, r, err)
		if i == 0 {
			first = r
		}
	})
	if len(got) != 4 {
		t.Fatalf("%d of 4 steps answered", len(got))
	}
	if got[0] != nil || first.After >= first.Before {
		t.Errorf("step 0 took %d of %d: %v", first.Before-first.After, first.Before, got[0])
	}
	if !errors.Is(got[1], cgroup.ErrGone) || errkind.Of(got[3]) != errkind.Denied || got[2] == nil {
		t.Errorf("1: %v; 2: %v; 3: %v", got[1], got[2], got[3])
	}
	c.Steps(t.Context(), nil, func(int, StepResult, error) { t.Error("an empty batch answered") })
	mustClose(t, c)
	journalEmpty(t, dir)
}

// TestBatchIsCancelled: a batch whose context has ended touches nothing, and one whose worker died is answered.
func TestBatchIsCancelled(t *testing.T) {
	b := newBed(t, "batchend")
	c := startWorker(t, stateDir(t))
	steps := []Step{{Cgroup: b.path, Bytes: mib}, {Cgroup: b.path, Bytes: mib}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := answers{}
	c.Steps(ctx, steps, got.take(t))
	if len(got) != 2 || !errors.Is(got[0], context.Canceled) || !errors.Is(got[1], context.Canceled) {
		t.Errorf("ended before it began: %v", got)
	}
	late, stop := context.WithTimeout(t.Context(), time.Nanosecond)
	defer stop()
	<-late.Done()
	got = answers{}
	c.Steps(late, steps, got.take(t))
	if len(got) != 2 || !errors.Is(got[0], context.DeadlineExceeded) {
		t.Errorf("too late: %v", got)
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.Dead()
	got = answers{}
	c.Steps(t.Context(), steps, got.take(t))
	if len(got) != 2 || errkind.Of(got[0]) != errkind.Unavailable || errkind.Of(got[1]) != errkind.Unavailable {
		t.Errorf("dead worker: %v", got)
	}
}
