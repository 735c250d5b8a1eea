package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/replay"
)

func fleet(jobs int, length time.Duration) replay.Trace {
	return replay.Generate(replay.Model{Seed: 1, Jobs: jobs, Length: length, Interval: 5 * time.Minute})
}

// gather copies what a trace yields.
func gather(t replay.Trace) (out []replay.Job, err error) {
	for j, err := range t.Jobs {
		if err != nil {
			return out, err
		}
		c := *j
		c.Intervals = append([]replay.Interval(nil), j.Intervals...)
		out = append(out, c)
	}
	return out, nil
}

func written(t testing.TB, tr replay.Trace) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, tr); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	in := fleet(20, 24*time.Hour)
	b := written(t, in)
	out, err := Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := gather(in)
	got, err := gather(out)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(want, got) || out.Interval != in.Interval || out.Source != in.Source {
		t.Errorf("%v %q: %d jobs, and not the same", out.Interval, out.Source, len(got))
	}
	n := 0
	for _, j := range got {
		n += len(j.Intervals)
	}
	t.Logf("%d intervals in %d bytes, %.1f each", n, len(b), float64(len(b))/float64(n))
	if _, err := gather(out); err == nil {
		t.Error("a second walk yields no error")
	}
}

// TestNoReplayDiffers: what a replay says of a file is what it says of what was written.
func TestNoReplayDiffers(t *testing.T) {
	in := fleet(10, 48*time.Hour)
	out, err := Read(bytes.NewReader(written(t, in)))
	if err != nil {
		t.Fatal(err)
	}
	set := []replay.Setting{replay.Published()}
	f1, r1, err1 := replay.Replay(t.Context(), in, 0.002, set, nil)
	f2, r2, err2 := replay.Replay(t.Context(), out, 0.002, set, nil)
	if err1 != nil || err2 != nil || f1 != f2 || r1[0] != r2[0] {
		t.Errorf("%+v %+v %v\n%+v %+v %v", f1, r1, err1, f2, r2, err2)
	}
}

// TestDamageIsNoticed cuts a file at each byte, and flips a bit of each: it is refused, or says the same as before
// (a few bits of the compression mean nothing).
func TestDamageIsNoticed(t *testing.T) {
	whole := written(t, fleet(3, 2*time.Hour))
	read := func(b []byte) ([]replay.Job, error) {
		tr, err := Read(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return gather(tr)
	}
	want, err := read(whole)
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if _, err := read(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for a whole trace", n, len(whole))
		} else if errkind.Of(err) != errkind.Invalid || errkind.HintOf(err) == "" {
			t.Errorf("%d bytes: kind %v, hint %q: %v", n, errkind.Of(err), errkind.HintOf(err), err)
		}
		bad := bytes.Clone(whole)
		bad[n] ^= 0x10
		if got, err := read(bad); err == nil && !reflect.DeepEqual(want, got) {
			t.Errorf("byte %d flipped, and nothing noticed", n)
		}
	}
}

// packed makes a file of numbers; a string is its length and its bytes.
func packed(t testing.TB, parts ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(magic)
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			z.Write(binary.AppendUvarint(nil, uint64(p)))
		case uint64:
			z.Write(binary.AppendUvarint(nil, p))
		case string:
			z.Write(append(binary.AppendUvarint(nil, uint64(len(p))), p...))
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zeros(n int) []any { return slices.Repeat([]any{0}, n) }

func TestRefuses(t *testing.T) {
	head := func(interval int, rest ...any) []any {
		p := []any{interval, unit, policy.Ages}
		for _, a := range ages() {
			p = append(p, a)
		}
		return append(append(p, "test"), rest...)
	}
	for name, tc := range map[string]struct {
		file []byte
		says string
	}{
		"empty":           {nil, "not a trace"},
		"another file":    {[]byte("offload:\n  period: 6s\n# and more\n"), "not a trace"},
		"another version": {[]byte("spillway trace 2\n"), "not a trace"},
		"not compressed":  {[]byte(magic + "hello"), "damaged"},
		"no interval":     {packed(t, head(0, tagEnd)...), "an interval of 0s"},
		"long interval":   {packed(t, head(86401, tagEnd)...), "an interval of"},
		"unit":            {packed(t, 300, 65536), "its unit is 65536 bytes"},
		"ages":            {packed(t, 300, unit, 2, 120, 240, "test", tagEnd), "ages are others"},
		"many ages":       {packed(t, 300, unit, 256), "number of ages 256 is more than 255"},
		"huge name":       {packed(t, head(300, tagMore, uint64(math.MaxUint64))...), "length of name"},
		"half a name":     {packed(t, head(300, tagMore, 4096, 0)...), "damaged at name"},
		"huge amount":     {packed(t, head(300, tagMore, "job", 0, 0, tagMore, uint64(1<<39))...), "working set 549755813888 is more"},
		"past all time":   {packed(t, append(head(300, tagMore, "job", uint64(maxSeconds), 0, tagMore), zeros(2*policy.Ages+1)...)...), "a job ends more than"},
		"older than time": {packed(t, append(head(300, tagMore, "job", 0, uint64(maxSeconds), tagMore), zeros(2*policy.Ages+1)...)...), "a job ends more than"},
		"unknown tag":     {packed(t, head(300, 2)...), "tag of a job 2"},
		"trailing":        {packed(t, head(300, tagEnd, 7)...), "something follows"},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := Read(bytes.NewReader(tc.file))
			if err == nil {
				_, err = gather(tr)
			}
			if err == nil || !strings.Contains(err.Error(), tc.says) || errkind.Of(err) != errkind.Invalid {
				t.Errorf("%v, want one that says %q", err, tc.says)
			}
		})
	}
	if err := Write(io.Discard, replay.Trace{Interval: time.Millisecond}); err == nil {
		t.Error("an interval of a millisecond was written")
	}
}

// TestErrorsOfOthersStay: a disk that is full, a pipe that breaks, a source that fails.
func TestErrorsOfOthersStay(t *testing.T) {
	broken := errors.New("broken")
	if err := Write(failing{broken}, fleet(2, time.Hour)); !errors.Is(err, broken) {
		t.Errorf("write: %v", err)
	}
	if _, err := Read(failing{broken}); !errors.Is(err, broken) {
		t.Errorf("read: %v", err)
	}
	bad := replay.Trace{Interval: time.Minute, Jobs: func(yield func(*replay.Job, error) bool) { yield(nil, broken) }}
	if err := Write(io.Discard, bad); !errors.Is(err, broken) {
		t.Errorf("source: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
func (f failing) Read([]byte) (int, error)  { return 0, f.err }

// FuzzRead: no input may panic, and what is read can be written and read again.
func FuzzRead(f *testing.F) {
	f.Add(written(f, fleet(2, time.Hour)))
	f.Add([]byte(magic))
	f.Add(packed(f, 300, unit, 2, 120, 240, "test", tagEnd))
	f.Fuzz(func(t *testing.T, b []byte) { check(t, b) })
}

// FuzzBody is FuzzRead behind the compression and the header, which no mutation gets through.
func FuzzBody(f *testing.F) {
	f.Add([]byte{tagEnd})
	f.Add(append([]byte{tagMore, 1, 'a', 3, 4, tagMore}, append(make([]byte, 2*policy.Ages+1), tagEnd, tagEnd)...))
	f.Add([]byte{tagMore, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, body []byte) {
		parts := []any{300, unit, policy.Ages}
		for _, a := range ages() {
			parts = append(parts, a)
		}
		parts = append(parts, "test")
		for _, c := range body {
			if c < 0x80 {
				parts = append(parts, int(c))
			} else {
				parts = append(parts, uint64(c)<<(c&0x3f))
			}
		}
		check(t, packed(t, parts...))
	})
}

func check(t *testing.T, b []byte) {
	tr, err := Read(bytes.NewReader(b))
	if err != nil {
		return
	}
	jobs, err := gather(tr)
	if err != nil {
		return
	}
	again, err := Read(bytes.NewReader(written(t, replay.Trace{Interval: tr.Interval, Source: tr.Source, Jobs: func(yield func(*replay.Job, error) bool) {
		for i := range jobs {
			if !yield(&jobs[i], nil) {
				return
			}
		}
	}})))
	if err != nil {
		t.Fatal(err)
	}
	got, err := gather(again)
	if err != nil || !reflect.DeepEqual(jobs, got) {
		t.Fatalf("%v\n%v\n%v", err, jobs, got)
	}
}
