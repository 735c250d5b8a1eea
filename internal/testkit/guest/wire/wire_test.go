package wire_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-io/spillway/internal/testkit/guest/wire"
)

// The terminal between host and guest rewrites line ends: frames must come through all the same, in order, and
// hostile output must not look like a frame.
func TestFramesSurviveATerminal(t *testing.T) {
	sent := []wire.Frame{
		{Kind: wire.KindBoot, Release: "6.1.0", Uptime: 2 * time.Second},
		{Kind: wire.KindOutput, Index: 1, Data: []byte("{\"kind\":\"done\"}\r\n\x00\x1b[2J\n\n")},
		{Kind: wire.KindExit, Index: 1, Code: -1, Message: "signal: killed"},
		{Kind: wire.KindDone},
	}
	var b bytes.Buffer
	e := wire.NewEncoder(&b)
	for _, f := range sent {
		if err := e.Encode(f); err != nil {
			t.Fatal(err)
		}
	}
	d := wire.NewDecoder(strings.NewReader(strings.ReplaceAll(b.String(), "\n", "\r\n")))
	var got []wire.Frame
	for {
		f, err := d.Decode()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("frames (-sent +got):\n%s", diff)
	}
}

func TestOutputIsCutIntoFramesThatADecoderTakes(t *testing.T) {
	want := bytes.Repeat([]byte("x\xff\n"), 20_000)
	var b bytes.Buffer
	if n, err := wire.NewEncoder(&b).Output(3).Write(want); n != len(want) || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
	var got []byte
	for d := wire.NewDecoder(&b); ; {
		f, err := d.Decode()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.Index != 3 || len(f.Data) > wire.MaxOutput {
			t.Fatalf("frame for program %d with %d bytes", f.Index, len(f.Data))
		}
		got = append(got, f.Data...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back of %d", len(got), len(want))
	}
}

func TestNoiseIsAnError(t *testing.T) {
	if _, err := wire.NewDecoder(strings.NewReader("Kernel panic\n")).Decode(); err == nil || err == io.EOF {
		t.Errorf("Decode of noise = %v, want an error", err)
	}
}
