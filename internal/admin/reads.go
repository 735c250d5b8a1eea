package admin

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spillway-io/spillway/internal/errkind"
)

// Reads serves the read-only half of the API, GET and HEAD under /v1/; every other path is a JSON 404.
// A nil log discards. The unix socket and the dashboard serve this same handler.
func Reads(src Reader, log *slog.Logger) http.Handler {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a := &reads{src: src, log: log}
	mux := http.NewServeMux()
	mux.Handle("/v1/status", get(a.status))
	mux.Handle("/v1/cgroups", get(a.cgroups))
	mux.Handle("/v1/decisions", get(a.decisions))
	mux.Handle("/v1/history", get(a.history))
	mux.Handle("/v1/explain", get(a.explain))
	mux.Handle("/v1/heat", get(a.heat))
	mux.Handle("/v1/recommend", get(a.recommend))
	mux.HandleFunc("/", notFound)
	return mux
}

type reads struct {
	src Reader
	log *slog.Logger
}

func notFound(w http.ResponseWriter, r *http.Request) {
	WriteError(w, errkind.Hint(errkind.New(errkind.NotFound, "admin: no such page: %s", r.URL.Path),
		"there are /v1/status, /v1/cgroups, /v1/decisions, /v1/history, /v1/explain, /v1/heat, /v1/recommend and /metrics"))
}

// get admits GET and HEAD without a body, and turns a returned error into an answer.
func get(h func(http.ResponseWriter, *http.Request) error) http.Handler {
	return only(h, http.MethodGet, http.MethodHead)
}

func only(h func(http.ResponseWriter, *http.Request) error, methods ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(methods, r.Method) {
			MethodNotAllowed(w, r, methods...)
			return
		}
		if err := noBody(w, r); err != nil {
			WriteError(w, err)
			return
		}
		if err := h(w, r); err != nil {
			WriteError(w, err)
		}
	})
}

func (a *reads) status(w http.ResponseWriter, r *http.Request) error {
	if _, err := params(r); err != nil {
		return err
	}
	writeJSON(w, r, a.log, a.src.Status())
	return nil
}

func (a *reads) cgroups(w http.ResponseWriter, r *http.Request) error {
	if _, err := params(r); err != nil {
		return err
	}
	writeJSON(w, r, a.log, orEmpty(a.src.Cgroups()))
	return nil
}

func (a *reads) decisions(w http.ResponseWriter, r *http.Request) error {
	q, err := params(r, "cgroup", "limit")
	if err != nil {
		return err
	}
	cg, err := cgroupParam(q)
	if err != nil {
		return err
	}
	limit, err := limitParam(q)
	if err != nil {
		return err
	}
	ds := a.src.Decisions(a.resolve(cg), limit)
	writeJSON(w, r, a.log, orEmpty(ds[:min(len(ds), limit)]))
	return nil
}

// history takes since, so that a poller fetches only what it lacks.
func (a *reads) history(w http.ResponseWriter, r *http.Request) error {
	q, err := params(r, "since")
	if err != nil {
		return err
	}
	since, err := sinceParam(q)
	if err != nil {
		return err
	}
	ps := a.src.History()
	if !since.IsZero() {
		i := slices.IndexFunc(ps, func(p Point) bool { return p.Time.After(since) })
		if i < 0 {
			i = len(ps)
		}
		ps = ps[i:]
	}
	writeJSON(w, r, a.log, orEmpty(ps))
	return nil
}

// oneCgroup reads the parameters of a request that takes a cgroup and nothing else; "" when it is not given.
func oneCgroup(r *http.Request) (string, error) {
	q, err := params(r, "cgroup")
	if err != nil {
		return "", err
	}
	return cgroupParam(q)
}

func (a *reads) explain(w http.ResponseWriter, r *http.Request) error {
	cg, err := oneCgroup(r)
	if err != nil {
		return err
	}
	if cg == "" {
		return errkind.New(errkind.Invalid, "admin: explain needs the parameter cgroup")
	}
	ex, err := a.src.Explain(a.resolve(cg))
	if err != nil {
		return err
	}
	writeJSON(w, r, a.log, ex)
	return nil
}

// resolve finds the cgroup whose name a JSON reader could only see with replacement characters: cgroup names
// are bytes, JSON strings are not, and what one sees one must be able to ask for.
func (a *reads) resolve(cg string) string {
	if !strings.ContainsRune(cg, utf8.RuneError) {
		return cg
	}
	for _, c := range a.src.Cgroups() {
		if !utf8.ValidString(c.Path) && asShown(c.Path) == cg {
			return c.Path
		}
	}
	return cg
}

// orEmpty keeps "nothing" a JSON list instead of null.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
