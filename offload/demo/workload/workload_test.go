package workload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
)

// start runs a program until the returned function closes its input; that returns how it ended.
func start(t *testing.T, body func(context.Context, io.Reader, io.Writer) error, task any) (out *bufio.Reader, end func() error) {
	t.Helper()
	b, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	in, hold := io.Pipe()
	said, say := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := body(t.Context(), in, say)
		say.Close()
		done <- err
	}()
	if _, err := hold.Write(b); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(said), func() error { hold.Close(); return <-done }
}

func TestProgramsSayReadyAndEndWithTheirInput(t *testing.T) {
	for name, tt := range map[string]struct {
		body func(context.Context, io.Reader, io.Writer) error
		task any
	}{
		"sidecar": {Sidecar, SidecarSpec{Cold: 1 << 20, Hot: 8192, Every: time.Millisecond}},
		"batch":   {Batch, BatchSpec{Bytes: 64 << 10, Share: 1, Pause: time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			out, end := start(t, tt.body, tt.task)
			if line, err := out.ReadString('\n'); line != "ready\n" {
				t.Fatalf("said %q, %v", line, err)
			}
			if err := end(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestProgramsRefuse(t *testing.T) {
	for name, err := range map[string]error{
		"sidecar without cold": Sidecar(t.Context(), strings.NewReader(`{"cold":0}`), io.Discard),
		"sidecar hot > cold":   Sidecar(t.Context(), strings.NewReader(`{"cold":1048576,"hot":1048577}`), io.Discard),
		"sidecar no task":      Sidecar(t.Context(), strings.NewReader(``), io.Discard),
		"batch without share":  Batch(t.Context(), strings.NewReader(`{"bytes":65536}`), io.Discard),
		"batch share > 1":      Batch(t.Context(), strings.NewReader(`{"bytes":65536,"share":1.5}`), io.Discard),
		"batch too large":      Batch(t.Context(), strings.NewReader(`{"bytes":1073741825,"share":0.1}`), io.Discard),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestPauseAfterKeepsTheShare(t *testing.T) {
	for _, share := range []float64{0.05, 0.1, 0.5, 1} {
		worked := 2 * time.Millisecond
		whole := worked + pauseAfter(worked, share)
		if got := worked.Seconds() / whole.Seconds(); got < share*0.999 || got > share*1.001 {
			t.Errorf("share %v comes out as %v", share, got)
		}
	}
}

func TestFillFillsEveryPageWithText(t *testing.T) {
	b := Fill(make([]byte, 3*pageSize+100), 1)
	if bytes.IndexByte(b, 0) >= 0 {
		t.Error("some bytes are still zero")
	}
	if bytes.Equal(b[:pageSize], b[pageSize:2*pageSize]) {
		t.Error("two pages are the same")
	}
}
