// Package errkind gives an error a kind and a piece of advice, so that the command line, the admin API and
// the logs agree on what happened without comparing texts.
//
// Promise: a kind never hides the error it wraps; errors.Is and errors.As see through. Kinds say what the
// caller may do about it, not where it happened. Pure: no system call, no state.
package errkind

import (
	"errors"
	"fmt"
	"io/fs"
)

// Kind says what sort of failure an error is.
type Kind uint8

// The kinds. Internal is the zero value: an error nobody classified is our fault until shown otherwise.
const (
	Internal    Kind = iota
	Invalid          // the request, flag or configuration is wrong; repeating it cannot help
	NotFound         // the named thing does not exist, or no longer
	Exhausted        // no room: memory, swap, disk, ports
	Unavailable      // not now; the same request may work later
	Unsupported      // this kernel or machine cannot do it
	Lost             // data is nowhere any more
	Denied           // the caller may not
	Unknown          // cannot tell: the answer itself is missing
)

var names = [...]string{"internal", "invalid", "not found", "exhausted", "unavailable", "unsupported", "lost", "denied", "unknown"}

// String returns the kind's name in lower case, as it appears in JSON and logs.
func (k Kind) String() string {
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

type kinded struct {
	kind Kind
	err  error
}

func (e *kinded) Error() string { return e.err.Error() }
func (e *kinded) Unwrap() error { return e.err }

// Is makes an Unsupported error one in the sense of the standard library, too.
func (e *kinded) Is(target error) bool {
	return target == errors.ErrUnsupported && e.kind == Unsupported
}

// New is fmt.Errorf (including %w) with a kind.
func New(k Kind, format string, a ...any) error {
	return &kinded{k, fmt.Errorf(format, a...)}
}

// Wrap gives err a kind without changing its text; nil stays nil.
func Wrap(k Kind, err error) error {
	if err == nil {
		return nil
	}
	return &kinded{k, err}
}

// Of returns the outermost kind given to err. Without one, errors.ErrUnsupported is Unsupported,
// fs.ErrPermission is Denied and everything else Internal. Of(nil) is Internal; ask err != nil first.
func Of(err error) Kind {
	var k *kinded
	switch {
	case errors.As(err, &k):
		return k.kind
	case errors.Is(err, errors.ErrUnsupported):
		return Unsupported
	case errors.Is(err, fs.ErrPermission):
		return Denied
	}
	return Internal
}

// ExitCode is the status a command ends with: 0 done, 1 failed, 2 usage, 3 unsupported here, 4 cannot tell.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	switch Of(err) {
	case Invalid:
		return 2
	case Unsupported:
		return 3
	case Unknown:
		return 4
	}
	return 1
}

// HTTPStatus is the status of an admin API answer that failed with kind k. The numbers are written out
// because this package must not pull net/http into libraries that only need a kind.
func HTTPStatus(k Kind) int {
	switch k {
	case Invalid:
		return 400
	case Denied:
		return 403
	case NotFound:
		return 404
	case Lost:
		return 410
	case Unsupported:
		return 501
	case Unavailable:
		return 503
	case Exhausted:
		return 507
	}
	return 500
}

type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }
func (e *hinted) Hint() string  { return e.hint }

// Hint attaches what the user can do about err, as one sentence in the imperative; nil stays nil.
// The hint is not part of the error's text, so that a log line stays one line.
func Hint(err error, format string, a ...any) error {
	if err == nil {
		return nil
	}
	return &hinted{err, fmt.Sprintf(format, a...)}
}

// HintOf returns the outermost advice in err's chain, or "". Any error with a method Hint() string counts,
// so that a missing kernel feature carries its own.
func HintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
