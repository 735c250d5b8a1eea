package trace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/replay"
)

// Read reads the header and returns a trace whose jobs are read while it is walked. A second walk yields an error.
func Read(r io.Reader) (replay.Trace, error) {
	var first [len(magic)]byte
	if _, err := io.ReadFull(r, first[:]); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return replay.Trace{}, fmt.Errorf("trace: read: %w", err)
	}
	if string(first[:]) != magic {
		return replay.Trace{}, invalid("not a trace: it begins with %.32q, not with %q", first[:], magic)
	}
	// No goroutines, and a window of its own choice cannot make the reader allocate more than 8 MiB.
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderLowmem(true))
	if err != nil {
		return replay.Trace{}, fmt.Errorf("trace: decompress: %w", err)
	}
	d := decoder{r: bufio.NewReaderSize(z, 64<<10)}
	t, err := d.header()
	if err != nil {
		z.Close()
		return replay.Trace{}, err
	}
	walked := false
	t.Jobs = func(yield func(*replay.Job, error) bool) {
		if walked {
			yield(nil, errors.New("trace: a file can be walked once"))
			return
		}
		walked = true
		defer z.Close()
		d.jobs(yield)
	}
	return t, nil
}

// decoder reads numbers and remembers the first error, after which it yields zeros.
type decoder struct {
	r        *bufio.Reader
	err      error
	interval time.Duration // of the header
}

func (d *decoder) number(what string, most uint64) uint64 {
	if d.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(d.r)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		d.err = invalid("the file ends within %s", what)
	case err != nil:
		d.err = invalid("damaged at %s: %w", what, err)
	case v > most:
		d.err = invalid("damaged: %s %d is more than %d", what, v, most)
	default:
		return v
	}
	return 0
}

func (d *decoder) text(what string) string {
	n := d.number("length of "+what, maxText)
	if d.err != nil || n == 0 {
		return ""
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(d.r, b); err != nil {
		d.err = invalid("damaged at %s: %w", what, err)
	}
	return string(b)
}

func (d *decoder) seconds(what string) time.Duration {
	return time.Duration(d.number(what, maxSeconds)) * time.Second
}

func (d *decoder) header() (t replay.Trace, err error) {
	t.Interval = d.seconds("interval")
	if u := d.number("unit", 1<<30); d.err == nil && u != unit {
		d.err = invalid("its unit is %d bytes, this program reads %d", u, unit)
	}
	want := ages()
	n := d.number("number of ages", 255)
	same := n == uint64(len(want))
	for i := range n {
		a := d.number("age", maxSeconds)
		same = same && a == want[i]
	}
	if d.err == nil && !same {
		d.err = invalid("its ages are others than this program's")
	}
	t.Source = d.text("source")
	if d.err == nil && (t.Interval < minInterval || t.Interval > maxInterval) {
		d.err = invalid("damaged: an interval of %v", t.Interval)
	}
	d.interval = t.Interval
	return t, d.err
}

// jobs yields each in the same place.
func (d *decoder) jobs(yield func(*replay.Job, error) bool) {
	var j replay.Job
	for n := 0; d.number("tag of a job", tagMore) == tagMore; n++ {
		if n >= maxJobs {
			d.err = invalid("more than %d jobs", maxJobs)
			break
		}
		if d.job(&j); d.err != nil {
			break
		}
		if !yield(&j, nil) {
			return
		}
	}
	if d.err == nil {
		// Reading on to the end makes the decompressor compare the checksum, too.
		switch _, err := d.r.ReadByte(); {
		case err == nil:
			d.err = invalid("damaged: something follows the end")
		case !errors.Is(err, io.EOF):
			d.err = invalid("damaged at its end: %w", err)
		}
	}
	if d.err != nil {
		yield(nil, d.err)
	}
}

func (d *decoder) job(j *replay.Job) {
	j.Name = d.text("name")
	j.Start, j.Age = d.seconds("start"), d.seconds("age")
	j.Intervals = j.Intervals[:0]
	end := max(j.Start, j.Age) // of its last interval, by either count: times are added up, and must fit
	for d.number("tag of an interval", tagMore) == tagMore {
		if len(j.Intervals) >= maxIntervals {
			d.err = invalid("more than %d intervals in one job", maxIntervals)
			return
		}
		if end += d.interval; end > maxSeconds*time.Second {
			d.err = invalid("damaged: a job ends more than %d s after the trace or the job began", int64(maxSeconds))
			return
		}
		var v replay.Interval // grows with the bytes that are really there: 36 of them are one of these
		v.WorkingSet = d.amount("working set")
		for i := range policy.Ages {
			v.Cold[i] = d.amount("cold memory")
		}
		for i := range policy.Ages {
			v.Promo[i] = d.amount("promoted memory")
		}
		if d.err != nil {
			return
		}
		j.Intervals = append(j.Intervals, v)
	}
}

func (d *decoder) amount(what string) int64 { return int64(d.number(what, maxPages)) * unit }
