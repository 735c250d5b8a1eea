package admin

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
)

// Limits of a request.
const (
	MaxDecisions     = 1000    // decisions in one answer
	defaultDecisions = 100     // when no limit is given
	maxBody          = 1 << 20 // bytes
	maxPath          = 4096    // bytes of a cgroup path, the kernel's PATH_MAX
)

// params reads the query; it knows exactly the names given and refuses the rest, because a misspelt limit
// that is ignored is an answer to another question.
func params(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, errkind.New(errkind.Invalid, "admin: read query of %s: %w", r.URL.Path, err)
	}
	for name, vals := range q {
		if !slices.Contains(known, name) {
			err := errkind.New(errkind.Invalid, "admin: %s: unknown parameter %q", r.URL.Path, name)
			if len(known) == 0 {
				return nil, errkind.Hint(err, "%s takes no parameter", r.URL.Path)
			}
			return nil, errkind.Hint(err, "it takes %s", strings.Join(known, ", "))
		}
		if len(vals) != 1 {
			return nil, errkind.New(errkind.Invalid, "admin: %s: parameter %q given %d times", r.URL.Path, name, len(vals))
		}
	}
	return q, nil
}

// cgroupParam is a cgroup path or "".
func cgroupParam(q url.Values) (string, error) {
	p := q.Get("cgroup")
	switch {
	case p == "":
		return "", nil
	case len(p) > maxPath:
		return "", errkind.New(errkind.Invalid, "admin: cgroup path has %d bytes, more than %d", len(p), maxPath)
	case strings.ContainsRune(p, 0):
		return "", errkind.New(errkind.Invalid, "admin: cgroup path contains a NUL byte")
	case p[0] != '/':
		return "", errkind.Hint(errkind.New(errkind.Invalid, "admin: cgroup path %q does not start with /", p),
			"write it from the memory controller's mount on: /kubepods/…")
	}
	return p, nil
}

func limitParam(q url.Values) (int, error) {
	s := q.Get("limit")
	if s == "" && !q.Has("limit") {
		return defaultDecisions, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > MaxDecisions {
		return 0, errkind.New(errkind.Invalid, "admin: limit %q is not a number from 1 to %d", s, MaxDecisions)
	}
	return n, nil
}

func sinceParam(q url.Values) (time.Time, error) {
	s := q.Get("since")
	if s == "" && !q.Has("since") {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, errkind.New(errkind.Invalid, "admin: since %q is not a time like 2026-01-02T15:04:05Z", s)
	}
	return t, nil
}

// noBody refuses a request that carries something: none of ours takes a body, so one that comes is a mistake.
func noBody(w http.ResponseWriter, r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	n, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody))
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		return errkind.New(errkind.Invalid, "admin: %s: body larger than %d bytes", r.URL.Path, big.Limit)
	case err != nil:
		return errkind.New(errkind.Invalid, "admin: %s: read body: %w", r.URL.Path, err)
	case n > 0:
		return errkind.New(errkind.Invalid, "admin: %s takes no body, got %d bytes", r.URL.Path, n)
	}
	return nil
}

// asShown is p as a JSON reader sees it: each byte that is not UTF-8 replaced by U+FFFD.
func asShown(p string) string { return string([]rune(p)) }
