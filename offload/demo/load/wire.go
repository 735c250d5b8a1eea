package load

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// line is a Second on the wire between the generator's process and its parent.
type line struct {
	Target int           `json:"target"`
	Number int           `json:"number"`
	Start  time.Time     `json:"start"`
	Hist   []byte        `json:"hist"`
	Late   time.Duration `json:"late_ns"`
}

// Main is the body of the generator's own process: it reads a Spec from in, writes one line for every Second
// to out, and ends when in does.
func Main(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	var spec Spec
	dec := json.NewDecoder(in)
	if err := dec.Decode(&spec); err != nil {
		return fmt.Errorf("load: read spec: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()
	w := json.NewEncoder(out)
	var failed atomic.Pointer[error]
	err := Run(ctx, spec, o, func(s Second) {
		h, err := s.Latency.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err == nil {
			err = w.Encode(line{s.Target, s.Number, s.Start, h, s.Late})
		}
		if err != nil {
			failed.CompareAndSwap(nil, &err)
			cancel()
		}
	})
	if e := failed.Load(); e != nil {
		return fmt.Errorf("load: write second: %w", *e)
	}
	return err
}

// Follow reads what Main wrote until the stream ends, one call of each for every Second.
func Follow(r io.Reader, each func(Second)) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 4<<20)
	for sc.Scan() {
		var l line
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			return fmt.Errorf("load: follow: %w", err)
		}
		h, err := hdrhistogram.Decode(l.Hist)
		if err != nil {
			return fmt.Errorf("load: follow: histogram: %w", err)
		}
		each(Second{l.Target, l.Number, l.Start, h, l.Late})
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("load: follow: %w", err)
	}
	return nil
}
