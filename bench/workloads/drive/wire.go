package drive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/spillway-io/spillway/offload/demo/load"
)

// line is a second on the wire, in the form that load.Follow reads.
type line struct {
	Target int           `json:"target"`
	Number int           `json:"number"`
	Start  time.Time     `json:"start"`
	Hist   []byte        `json:"hist"`
	Late   time.Duration `json:"late_ns"`
}

// Main is the body of a generator's own process: it reads a Spec from in, writes one line for each second to
// out, to be read with load.Follow, and ends when in does.
func Main(ctx context.Context, in io.Reader, out io.Writer, dial Dial) error {
	var spec Spec
	ctx, rest, cancel, err := Begin(ctx, in, &spec)
	if err != nil {
		return fmt.Errorf("drive: %w", err)
	}
	defer cancel()
	go func() { io.Copy(io.Discard, rest); cancel() }()
	return Report(ctx, cancel, spec, out, dial)
}

// Begin reads one JSON value from in. What follows it is left in rest.
func Begin(ctx context.Context, in io.Reader, task any) (_ context.Context, rest io.Reader, cancel context.CancelFunc, err error) {
	dec := json.NewDecoder(in)
	if err := dec.Decode(task); err != nil {
		return nil, nil, nil, fmt.Errorf("read task: %w", err)
	}
	ctx, cancel = context.WithCancel(ctx)
	return ctx, io.MultiReader(dec.Buffered(), in), cancel, nil
}

// Report is Run that writes its seconds to out, and calls cancel when it cannot.
func Report(ctx context.Context, cancel func(), spec Spec, out io.Writer, dial Dial) error {
	var failed error
	err := Run(ctx, spec, dial, func(s load.Second) {
		text, err := encode(s)
		if err == nil {
			_, err = out.Write(text)
		}
		if err != nil {
			failed = errors.Join(failed, err)
			cancel()
		}
	})
	if failed != nil {
		return fmt.Errorf("drive: write second: %w", failed)
	}
	return err
}

func encode(s load.Second) ([]byte, error) {
	h, err := s.Latency.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = json.NewEncoder(&b).Encode(line{s.Target, s.Number, s.Start, h, s.Late})
	return b.Bytes(), err
}
