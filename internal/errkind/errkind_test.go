package errkind_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/spillway-io/spillway/internal/errkind"
)

func TestOf(t *testing.T) {
	inner := errkind.New(errkind.NotFound, "cgroup: open %q: %w", "/a", fs.ErrNotExist)
	for _, c := range []struct {
		err  error
		want errkind.Kind
		exit int
	}{
		{nil, errkind.Internal, 0},
		{errors.New("x"), errkind.Internal, 1},
		{inner, errkind.NotFound, 1},
		{fmt.Errorf("offload: step: %w", inner), errkind.NotFound, 1},
		{errkind.Wrap(errkind.Unavailable, inner), errkind.Unavailable, 1}, // the outermost one
		{errors.Join(errors.New("x"), inner), errkind.NotFound, 1},
		{fmt.Errorf("x: %w", errors.ErrUnsupported), errkind.Unsupported, 3},
		{errkind.Wrap(errkind.Invalid, errors.ErrUnsupported), errkind.Invalid, 2},
		{&os.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission}, errkind.Denied, 1},
		{errkind.New(errkind.Unknown, "x"), errkind.Unknown, 4},
		{context.Canceled, errkind.Internal, 1},
	} {
		if got := errkind.Of(c.err); got != c.want {
			t.Errorf("%v: kind %v, want %v", c.err, got, c.want)
		}
		if got := errkind.ExitCode(c.err); got != c.exit {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.exit)
		}
	}
	if !errors.Is(inner, fs.ErrNotExist) || inner.Error() != `cgroup: open "/a": file does not exist` {
		t.Errorf("the kind hides the error: %v", inner)
	}
	if !errors.Is(errkind.New(errkind.Unsupported, "x"), errors.ErrUnsupported) || errors.Is(inner, errors.ErrUnsupported) {
		t.Error("Unsupported and errors.ErrUnsupported disagree")
	}
	if errkind.Wrap(errkind.Invalid, nil) != nil || errkind.Hint(nil, "x") != nil {
		t.Error("nil did not stay nil")
	}
}

func TestHint(t *testing.T) {
	err := errkind.Hint(errkind.New(errkind.Denied, "cgroup: write"), "run as %s", "root")
	outer := errkind.Hint(fmt.Errorf("offload: %w", err), "start it: spillway up")
	for want, err := range map[string]error{"run as root": fmt.Errorf("x: %w", err), "start it: spillway up": outer, "": errors.New("x")} {
		if got := errkind.HintOf(err); got != want {
			t.Errorf("%v: hint %q, want %q", err, got, want)
		}
	}
	if errkind.Of(outer) != errkind.Denied || outer.Error() != "offload: cgroup: write" {
		t.Errorf("the hint changed the error: %v %v", errkind.Of(outer), outer)
	}
}

func TestEveryKindHasANameAndAStatus(t *testing.T) {
	seen := map[string]bool{}
	for k := errkind.Internal; k <= errkind.Unknown; k++ {
		if name := k.String(); name == "" || seen[name] {
			t.Errorf("kind %d is called %q", k, name)
		} else {
			seen[name] = true
		}
		if s := errkind.HTTPStatus(k); s < 400 || s > 599 {
			t.Errorf("%v: status %d", k, s)
		}
	}
	if got := errkind.Kind(200).String(); got != "kind 200" {
		t.Error(got)
	}
}
