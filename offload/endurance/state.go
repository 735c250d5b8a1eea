package endurance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Version of the state. Another one is refused: guessing at a budget would break it.
const Version = 1

// MaxState is the most bytes a state has; eight drives need about 25 KB.
const MaxState = 64 << 10

// ErrState says that a state cannot be trusted.
var ErrState = errors.New("endurance: state unusable")

// State is what survives a restart. Its JSON is docs/format/endurance.md.
type State struct {
	Version int                   `json:"version"`
	Saved   time.Time             `json:"saved"`
	Boot    string                `json:"boot"`  // the counters below are of this boot
	Clean   bool                  `json:"clean"` // written at the end: nothing was written on leave since
	SwapOut int64                 `json:"swap_out"`
	Own     BucketState           `json:"own"`
	Drives  map[string]DriveState `json:"drives,omitempty"`
}

// BucketState is one bucket: bytes by age in slots of ten seconds, the newest first, without trailing zeros.
type BucketState struct {
	Spent  []int64 `json:"spent,omitempty"`
	Tokens int64   `json:"tokens"` // may be negative
}

// DriveState is one drive. Written is its counter; the history holds bytes in slots of ten minutes, the newest first.
type DriveState struct {
	Memory  bool        `json:"memory,omitempty"`
	Written int64       `json:"written"`
	Doubt   bool        `json:"doubt,omitempty"` // not seen since an end that was not clean
	Seen    int64       `json:"seen"`            // unix time
	Bucket  BucketState `json:"bucket"`
	First   int64       `json:"first,omitempty"`
	From    int64       `json:"from,omitempty"`
	Last    int64       `json:"last,omitempty"`
	Total   int64       `json:"total,omitempty"`
	Day     []int64     `json:"day,omitempty"`
}

// State is what to keep. clean says that no step is in flight and none will be allowed after it.
func (l *Ledger) State(clean bool) State {
	s := State{
		Version: Version, Saved: l.last.UTC().Round(0), Boot: l.boot, Clean: clean, SwapOut: l.swapOut,
		Own: l.own.state(), Drives: map[string]DriveState{},
	}
	for name, d := range l.drives {
		x := DriveState{Memory: d.bucket == nil, Written: d.written, Doubt: d.doubt, Seen: d.seen.Unix()}
		if d.bucket != nil {
			x.Bucket = d.bucket.state()
			w := &d.wear
			x.First, x.From, x.Last, x.Total = w.first, w.from, w.last, w.total
			x.Day = newestFirst(w.slots[:], w.last/tenMinutes)
		}
		s.Drives[name] = x
	}
	return s
}

func (b *bucket) state() BucketState {
	return BucketState{Spent: newestFirst(b.slots[:], int64(b.clock/slotLen)), Tokens: int64(math.Floor(b.tokens))}
}

// newestFirst unrolls a ring whose newest element is number head.
func newestFirst(ring []int64, head int64) []int64 {
	out := make([]int64, 0, len(ring))
	used := 0
	for i := range int64(len(ring)) {
		k := head - i
		if k < 0 {
			break
		}
		out = append(out, ring[k%int64(len(ring))])
		if out[i] != 0 {
			used = len(out)
		}
	}
	return out[:used]
}

// Encode writes s as JSON.
func (s State) Encode() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("endurance: write state: %w", err)
	}
	return append(b, '\n'), nil
}

// Decode reads what Encode wrote. Anything else is an error that errors.Is ErrState.
func Decode(text []byte) (s State, err error) {
	bad := func(format string, a ...any) (State, error) {
		return State{}, fmt.Errorf("%w: %s", ErrState, fmt.Sprintf(format, a...))
	}
	if len(text) > MaxState {
		return bad("more than %d bytes", MaxState)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return bad("%v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // not More: it takes a stray bracket for an end
		return bad("something follows it")
	}
	switch {
	case s.Version != Version:
		return bad("version %d, this program knows %d", s.Version, Version)
	case len(s.Drives) > maxDrives:
		return bad("%d drives", len(s.Drives))
	case s.Saved.Unix() <= 0 || s.Saved.Year() > 9999:
		return bad("saved at %v", s.Saved)
	case !count(s.SwapOut) || !s.Own.sane():
		return bad("a size is out of range")
	}
	for name, x := range s.Drives {
		ok := count(x.Written) && count(x.Total) && count(x.Seen) && x.Bucket.sane() && counts(x.Day, daySlots) &&
			0 <= x.First && x.First <= x.From && x.From <= x.Last && x.Last <= maxTime
		if name == "" || !ok {
			return bad("drive %q is out of range", name)
		}
	}
	return s, nil
}

const maxTime = int64(1) << 38 // in the year 10680

func count(n int64) bool { return n >= 0 }

func counts(ns []int64, limit int) bool {
	for _, n := range ns {
		if n < 0 || n > most {
			return false
		}
	}
	return len(ns) <= limit
}

func (b BucketState) sane() bool {
	return counts(b.Spent, nSlots) && b.Tokens >= -most && b.Tokens <= most
}

// Restore goes on where s ended. boot names the boot whose counters will be observed.
//
// In the same boot the first observation charges what was written since s was saved, so not even a kill loses a byte.
// In another boot the counters have begun again: what was allowed after an unclean s is taken as written just now.
func Restore(cfg Config, s State, boot string, now time.Time) *Ledger {
	l := New(cfg, boot, now)
	passed := max(0, now.Sub(s.Saved))
	same := boot != "" && boot == s.Boot
	if !s.Clean {
		l.doubtful = now.Add(Window)
	}
	restore := func(b *bucket, from BucketState) {
		b.restore(from)
		b.pass(passed)
		if !same && !s.Clean {
			b.charge(b.limit)
		}
	}
	restore(l.own, s.Own)
	if same {
		l.swapOut, l.observed = s.SwapOut, true
	}
	for name, x := range s.Drives {
		d := &drive{known: same, seen: time.Unix(x.Seen, 0)}
		if same {
			d.written, d.doubt = x.Written, x.Doubt || !s.Clean
		}
		if !x.Memory {
			d.bucket = newBucket(cfg.Rate, cfg.Burst)
			restore(d.bucket, x.Bucket)
			if !same && x.Doubt {
				d.bucket.charge(d.bucket.limit)
			}
			d.wear.restore(x)
			if !same {
				d.wear.from = d.wear.last // what was written meanwhile is not known; the history begins again
			}
		}
		l.drives[name] = d
	}
	return l
}

func (b *bucket) restore(s BucketState) {
	b.clock = Window // so that ages are not negative
	head := int64(b.clock / slotLen)
	b.spent = 0
	for i, n := range s.Spent {
		b.slots[(head-int64(i))%int64(nSlots)] = n
		b.spent += n
	}
	b.tokens = max(min(float64(s.Tokens), float64(b.burst)), -float64(b.limit))
}

func (w *wear) restore(s DriveState) {
	w.first, w.from, w.last, w.total = s.First, s.From, s.Last, min(s.Total, most)
	for i, n := range s.Day {
		if k := w.last/tenMinutes - int64(i); k >= 0 {
			w.slots[k%int64(daySlots)] = n
		}
	}
}
