package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strconv"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/sys"
)

// The pipe carries one JSON object a line in each direction. A longer line than maxLine breaks the protocol, and
// whoever sees it hangs up. Both ends are the same binary, so there is no version.
const maxLine = 256 << 10

const (
	opStep    = "step"
	opDo      = "do"
	opUndo    = "undo"
	opCancel  = "cancel" // of request Of; has no answer of its own
	opUsage   = "usage"
	opKdamond = "kdamond" // Command to the kdamond of Entry
	opClose   = "close"
)

type request struct {
	ID      uint64       `json:"id"`
	Op      string       `json:"op"`
	Of      uint64       `json:"of,omitempty"`
	Millis  int64        `json:"ms,omitempty"` // time left; 0 is no deadline
	Cgroup  journal.Text `json:"cg,omitempty"`
	Inode   uint64       `json:"ino,omitempty"`
	Bytes   int64        `json:"bytes,omitempty"`
	Floor   int64        `json:"floor,omitempty"`
	Mix     int64        `json:"mix,omitempty"`  // a cgroup.Swappiness
	Lazy    bool         `json:"lazy,omitempty"` // the answer may linger
	Entry   uint64       `json:"entry,omitempty"`
	Command string       `json:"command,omitempty"`
	Change  *Change      `json:"change,omitempty"`
}

// reply answers request ID; ID 0 is the worker's greeting.
type reply struct {
	ID      uint64        `json:"id"`
	Before  int64         `json:"before,omitempty"`
	After   int64         `json:"after,omitempty"`
	Took    time.Duration `json:"took,omitempty"`
	FailCnt uint64        `json:"fail,omitempty"`
	Busy    bool          `json:"busy,omitempty"`
	By      string        `json:"by,omitempty"`
	Mix     int64         `json:"mix,omitempty"`
	Entry   uint64        `json:"entry,omitempty"`
	Device  journal.Text  `json:"device,omitempty"`
	CPU     time.Duration `json:"cpu,omitempty"`
	MaxRSS  int64         `json:"rss,omitempty"`
	Entries int           `json:"entries,omitempty"`
	Undone  []wireOutcome `json:"undone,omitempty"`
	Notes   []string      `json:"notes,omitempty"` // about the journal, in the greeting
	Err     *wireError    `json:"err,omitempty"`
	lost    bool          // made up by the client: the worker ended
}

type wireOutcome struct {
	What   journal.Text `json:"what"`
	Old    journal.Text `json:"old,omitempty"`
	Now    journal.Text `json:"now,omitempty"`
	Result string       `json:"result"`
	Err    *wireError   `json:"err,omitempty"`
}

type wireError struct {
	Kind errkind.Kind `json:"kind"`
	Text journal.Text `json:"text"`
	Hint journal.Text `json:"hint,omitempty"`
	Is   []string     `json:"is,omitempty"`
}

// sentinels are the errors that keep their identity across the pipe.
var sentinels = []struct {
	name string
	err  error
}{
	{"gone", cgroup.ErrGone},
	{"foreign", cgroup.ErrForeign},
	{"deadline", context.DeadlineExceeded},
	{"canceled", context.Canceled},
	{"inflight", ErrInFlight},
	{"unsupported", errors.ErrUnsupported},
	{"exist", fs.ErrExist},
	{"notexist", fs.ErrNotExist},
	{"permission", fs.ErrPermission},
	{"nospace", sys.ENOSPC},
	{"readonly", sys.EROFS},
	{"busy", sys.EBUSY},
	{"nomem", sys.ENOMEM},
}

func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	w := &wireError{Kind: errkind.Of(err), Text: journal.Text(clip(err.Error())), Hint: journal.Text(clip(errkind.HintOf(err)))}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			w.Is = append(w.Is, s.name)
		}
	}
	return w
}

// clip keeps an error that quotes the system's text at length inside a line.
func clip(s string) string {
	const most = 1 << 10
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// remoteError is an error that happened in the worker.
type remoteError struct {
	text string
	is   []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.is }

// err rebuilds the error; also are further sentinels it matches.
func (w *wireError) err(also ...error) error {
	if w == nil {
		return nil
	}
	e := &remoteError{text: string(w.Text), is: also}
	for _, name := range w.Is {
		for _, s := range sentinels {
			if s.name == name {
				e.is = append(e.is, s.err)
			}
		}
	}
	err := errkind.Wrap(w.Kind, e)
	if w.Hint != "" {
		err = errkind.Hint(err, "%s", string(w.Hint))
	}
	return err
}

func (o Outcome) wire() wireOutcome {
	return wireOutcome{
		What: journal.Text(clip(o.What)), Old: journal.Text(clip(o.Old)), Now: journal.Text(clip(o.Now)),
		Result: o.Result, Err: toWire(o.Err),
	}
}

func (w wireOutcome) outcome() Outcome {
	return Outcome{What: string(w.What), Old: string(w.Old), Now: string(w.Now), Result: w.Result, Err: w.Err.err()}
}

// maxTold bounds the outcomes in one message, each of which is clipped; what is left out is in the worker's log.
const maxTold = 64

// tell puts outcomes into the message, those that failed first.
func (r *reply) tell(out []Outcome) {
	add := func(failed bool) {
		for _, o := range out {
			if (o.Err != nil) == failed && len(r.Undone) < maxTold {
				r.Undone = append(r.Undone, o.wire())
			}
		}
	}
	add(true)
	add(false)
	if more := len(out) - len(r.Undone); more > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d further changes were undone", more))
	}
}

func logOutcome(log *slog.Logger, msg string, o Outcome) {
	if o.Err != nil {
		log.Warn(msg, "what", o.What, "result", o.Result, "err", o.Err)
		return
	}
	log.Info(msg, "what", o.What, "result", o.Result, "old", o.Old, "now", o.Now)
}

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("worker: encode message: %w", err)
	}
	if len(b)+1 > maxLine {
		return nil, errkind.New(errkind.Invalid, "worker: message of %d bytes is above %d", len(b), maxLine)
	}
	return append(b, '\n'), nil
}

// appendStep writes a step request by hand: it is the one message that is frequent, and encoding/json would make
// the stack of each caller's goroutine grow.
func appendStep(b []byte, r *request) ([]byte, error) {
	start := len(b)
	b = append(b, `{"id":`...)
	b = strconv.AppendUint(b, r.ID, 10)
	b = append(b, `,"op":"step","cg":`...)
	b, err := appendText(b, r.Cgroup)
	if err != nil {
		return b, err
	}
	for _, f := range [...]struct {
		key   string
		value int64
	}{{`,"ms":`, r.Millis}, {`,"bytes":`, r.Bytes}, {`,"floor":`, r.Floor}, {`,"mix":`, r.Mix}} {
		b = append(b, f.key...)
		b = strconv.AppendInt(b, f.value, 10)
	}
	b = append(b, `,"ino":`...)
	b = strconv.AppendUint(b, r.Inode, 10)
	if r.Lazy {
		b = append(b, `,"lazy":true`...)
	}
	b = append(b, "}\n"...)
	if n := len(b) - start; n > maxLine {
		return b, errkind.New(errkind.Invalid, "worker: message of %d bytes is above %d", n, maxLine)
	}
	return b, nil
}

func appendText(b []byte, t journal.Text) ([]byte, error) {
	for i := range len(t) {
		if c := t[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(t)
			return append(b, quoted...), err
		}
	}
	b = append(b, '"')
	b = append(b, t...)
	return append(b, '"'), nil
}

// lines reads messages. The bytes a call of next returns are valid until the following one.
type lines struct{ r *bufio.Reader }

func newLines(r io.Reader) *lines { return &lines{bufio.NewReaderSize(r, maxLine)} }

// next returns the next line without its newline, or io.EOF; a fragment before the end counts as the end.
func (l *lines) next() ([]byte, error) {
	b, err := l.r.ReadSlice('\n')
	switch {
	case err == nil:
		return b[:len(b)-1], nil
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("worker: message above %d bytes", maxLine)
	}
	return nil, err
}
