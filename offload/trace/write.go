package trace

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/spillway-io/spillway/offload/replay"
)

// Write puts t into w, job by job as t yields them. What does not fit the format, an interval below a second or a
// job without end, is an error and leaves half a file behind.
func Write(w io.Writer, t replay.Trace) error {
	if t.Interval < minInterval || t.Interval > maxInterval || t.Interval%time.Second != 0 {
		return fmt.Errorf("trace: an interval of %v is not whole seconds from %v to %v", t.Interval, minInterval, maxInterval)
	}
	if _, err := io.WriteString(w, magic); err != nil {
		return fmt.Errorf("trace: write: %w", err)
	}
	// One goroutine and a window that a reader is sure to have; the checksum is on by default.
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return fmt.Errorf("trace: compress: %w", err)
	}
	e := encoder{w: bufio.NewWriterSize(z, 64<<10)}
	err = e.trace(t)
	if err == nil {
		err = e.w.Flush()
	}
	if cerr := z.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("trace: write: %w", err)
	}
	return nil
}

// encoder writes numbers; its errors stay in the bufio.Writer until the next check.
type encoder struct {
	w   *bufio.Writer
	buf [binary.MaxVarintLen64]byte
}

func (e *encoder) number(v uint64) { e.w.Write(e.buf[:binary.PutUvarint(e.buf[:], v)]) }

func (e *encoder) text(s string) {
	s = s[:min(len(s), maxText)]
	e.number(uint64(len(s)))
	e.w.WriteString(s)
}

func (e *encoder) seconds(d time.Duration) { e.number(uint64(min(max(d/time.Second, 0), maxSeconds))) }

func (e *encoder) amount(bytes int64) { e.number(uint64(min(max(bytes/unit, 0), maxPages))) }

func (e *encoder) trace(t replay.Trace) error {
	e.seconds(t.Interval)
	e.number(unit)
	bounds := ages()
	e.number(uint64(len(bounds)))
	for _, a := range bounds {
		e.number(a)
	}
	e.text(t.Source)
	jobs := 0
	for j, err := range t.Jobs {
		if err != nil {
			return err
		}
		if jobs++; jobs > maxJobs || len(j.Intervals) > maxIntervals {
			return fmt.Errorf("more than %d jobs, or %d intervals in one", maxJobs, maxIntervals)
		}
		if err := e.job(j); err != nil {
			return err
		}
	}
	e.number(tagEnd)
	return nil
}

func (e *encoder) job(j *replay.Job) error {
	e.number(tagMore)
	e.text(j.Name)
	e.seconds(j.Start)
	e.seconds(j.Age)
	for i := range j.Intervals {
		v := &j.Intervals[i]
		e.number(tagMore)
		e.amount(v.WorkingSet)
		for _, b := range v.Cold {
			e.amount(b)
		}
		for _, b := range v.Promo {
			e.amount(b)
		}
	}
	e.number(tagEnd)
	_, err := e.w.Write(nil) // the first error of all the writes before
	return err
}
