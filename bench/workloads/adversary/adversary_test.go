package adversary

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/offload/demo/load"
)

// An adversary says ready, begins when it is told to, and ends with its input.
func TestMainReportsItsSeconds(t *testing.T) {
	for _, kind := range []string{Scan, Redirty, Noise} {
		in, hold := io.Pipe()
		said, say := io.Pipe()
		done := make(chan error, 1)
		go func() {
			err := Main(t.Context(), in, say)
			say.Close()
			done <- err
		}()
		enc := json.NewEncoder(hold)
		if err := enc.Encode(Task{Kind: kind, Bytes: 1 << 20, Chunk: 64 << 10}); err != nil {
			t.Fatal(err)
		}
		ready := make([]byte, 6)
		if _, err := io.ReadFull(said, ready); err != nil || string(ready) != "ready\n" {
			t.Fatalf("%s said %q, %v", kind, ready, err)
		}
		go func() {
			// The schedule began in the past: what is due is done at once, and no time need pass.
			enc.Encode(Go{Load: drive.Spec{
				Targets: []drive.Target{{Name: "x"}}, Conns: 1, Rate: 50, Keys: 16, Cycle: true, Start: time.Now().Add(-3 * time.Second),
			}})
		}()
		first := true
		err := load.Follow(said, func(s load.Second) {
			if s.Latency.TotalCount() != 50 {
				t.Errorf("%s: second %d has %d requests", kind, s.Number, s.Latency.TotalCount())
			}
			if first {
				first = false
				hold.Close()
			}
		})
		if err := <-done; err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if err != nil || first {
			t.Errorf("%s: follow: %v, nothing seen: %v", kind, err, first)
		}
	}
}

func TestMemoryNoticesALostPage(t *testing.T) {
	dial, end, err := Task{Kind: Redirty, Bytes: 1 << 20, Chunk: 64 << 10}.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	c, _ := dial(t.Context(), drive.Target{})
	for key := range 40 {
		if err := c.Do(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	clear(c.(*memory).heap[pageSize : 2*pageSize])
	if err := c.Do(t.Context(), 0); err == nil {
		t.Error("a page that lost its content was not noticed")
	}
}

func TestNoiseDoesNotCompress(t *testing.T) {
	page := make([]byte, pageSize)
	random(page, 1)
	var out bytes.Buffer
	w, _ := flate.NewWriter(&out, flate.BestCompression)
	w.Write(page)
	w.Close()
	if out.Len() < pageSize {
		t.Errorf("one page compresses to %d bytes", out.Len())
	}
}

func TestRefuses(t *testing.T) {
	for name, task := range map[string]string{
		"no kind": `{"bytes":1048576,"chunk":4096}`, "too small": `{"kind":"scan","bytes":1,"chunk":4096}`,
		"chunk too small": `{"kind":"scan","bytes":1048576,"chunk":1}`, "nothing": ``,
	} {
		if err := Main(t.Context(), strings.NewReader(task), io.Discard); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, args := range [][]string{nil, {"1"}, {"x", "/"}, {"-1", "/"}} {
		if err := JobMain(args); err == nil {
			t.Errorf("job %q: accepted", args)
		}
	}
}
