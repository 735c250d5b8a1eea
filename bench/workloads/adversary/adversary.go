// Package adversary holds programs that are as hard on an offloading agent as a workload can be: a scan that
// comes round just when its pages have been taken, a loop that dirties whatever was swapped out, data that does
// not compress, and short jobs whose shared memory outlives them.
//
// Promise: each says "ready" once its memory is in place, waits for a second task that says when its schedule
// begins, and then reports its seconds as package drive does. Two with the same tasks do the same at the same time.
// Ownership: each owns its process. Failure: an invalid task, or a page that lost its content, ends it with an error.
// Non-goals: looking like a program somebody would run on purpose.
package adversary

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/offload/demo/workload"
)

// The kinds of adversaries.
const (
	Scan    = "scan"    // reads all of its memory in turn, for ever
	Redirty = "redirty" // writes to all of it in turn
	Noise   = "noise"   // holds bytes that do not compress and reads the popular ones
	Churn   = "churn"   // runs short jobs, see Job
)

// Task says what to be.
type Task struct {
	Kind  string `json:"kind"`
	Bytes int    `json:"bytes"` // of memory, or of one job's; in [1 MiB, 4 GiB]
	Chunk int    `json:"chunk"` // bytes one request touches; at least a page

	// For Churn: where its jobs' cgroups are made, one directory in each hierarchy, and how one is started:
	// a command line to which a job's name and size are added.
	Dirs []string `json:"dirs,omitempty"`
	Job  []string `json:"job,omitempty"`
}

// Go is the second task.
type Go struct {
	Load drive.Spec `json:"load"`
}

const pageSize = 4096

// Main runs an adversary until in ends.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dec := json.NewDecoder(in)
	var task Task
	if err := dec.Decode(&task); err != nil {
		return fmt.Errorf("adversary: read task: %w", err)
	}
	dial, end, err := task.dial()
	if err != nil {
		return err
	}
	defer end()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return fmt.Errorf("adversary: say ready: %w", err)
	}
	var begin Go
	if err := dec.Decode(&begin); err != nil {
		return fmt.Errorf("adversary: read task: %w", err)
	}
	go func() { io.Copy(io.Discard, io.MultiReader(dec.Buffered(), in)); cancel() }()
	return drive.Report(ctx, cancel, begin.Load, out, dial)
}

// dial fills the memory and returns what makes clients that work on it.
func (t Task) dial() (_ drive.Dial, end func(), err error) {
	if t.Bytes < 1<<20 || t.Bytes > 4<<30 || t.Chunk < pageSize || t.Chunk > t.Bytes {
		return nil, nil, fmt.Errorf("adversary: %d bytes in chunks of %d are out of range", t.Bytes, t.Chunk)
	}
	if t.Kind == Churn {
		c := newChurn(t)
		return func(context.Context, drive.Target) (drive.Client, error) { return c, nil }, c.end, nil // safe for many
	}
	m := &memory{chunk: t.Chunk, write: t.Kind == Redirty, heap: make([]byte, t.Bytes/t.Chunk*t.Chunk)}
	switch t.Kind {
	case Scan, Redirty:
		workload.Fill(m.heap, 0xad7e)
	case Noise:
		random(m.heap, 0xad7e)
	default:
		return nil, nil, fmt.Errorf("adversary: no kind is called %q", t.Kind)
	}
	for i := 0; i < len(m.heap); i += pageSize { // so that a page tells whether it is still itself
		binary.LittleEndian.PutUint32(m.heap[i:], uint32(i/pageSize))
	}
	debug.FreeOSMemory()
	return func(context.Context, drive.Target) (drive.Client, error) { return m, nil }, func() {}, nil
}

// random fills b with bytes that no compressor makes smaller.
func random(b []byte, seed uint64) {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	r.Read(b) // never fails
}

// memory is a client that touches one chunk a request; the schedule has one connection.
type memory struct {
	chunk int
	write bool
	heap  []byte
}

// Do touches every page of chunk number key, and checks it.
func (m *memory) Do(_ context.Context, key int) error {
	from := key % (len(m.heap) / m.chunk) * m.chunk
	for i := from; i < from+m.chunk; i += pageSize {
		if n := binary.LittleEndian.Uint32(m.heap[i:]); n != uint32(i/pageSize) {
			return fmt.Errorf("adversary: page %d holds page %d", i/pageSize, n)
		}
		if m.write {
			m.heap[i+8]++
		}
	}
	return nil
}

func (m *memory) Close() error { return nil }

// pause sleeps until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
