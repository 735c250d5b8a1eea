package admin

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"strings"

	"github.com/spillway-io/spillway/internal/errkind"
)

// errorBody is every refusal. Kind is the name of an errkind.Kind.
type errorBody struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
	Kind  string `json:"kind"`
}

// kindOf is the kind with that name on the wire; a name from a newer daemon is Internal.
func kindOf(name string) errkind.Kind {
	for k := errkind.Internal; k <= errkind.Unknown; k++ {
		if k.String() == name {
			return k
		}
	}
	return errkind.Internal
}

// WriteError answers with err's text, hint and kind as JSON and the HTTP status of its kind.
func WriteError(w http.ResponseWriter, err error) {
	k := errkind.Of(err)
	writeError(w, errkind.HTTPStatus(k), errorBody{Error: err.Error(), Hint: errkind.HintOf(err), Kind: k.String()})
}

// MethodNotAllowed answers 405 and says which methods there are.
func MethodNotAllowed(w http.ResponseWriter, r *http.Request, methods ...string) {
	allow := strings.Join(methods, ", ")
	w.Header().Set("Allow", allow)
	writeError(w, http.StatusMethodNotAllowed, errorBody{
		Error: "admin: " + r.URL.Path + " does not answer " + r.Method,
		Hint:  "use " + allow,
		Kind:  errkind.Invalid.String(),
	})
}

func writeError(w http.ResponseWriter, status int, body errorBody) {
	b, err := json.Marshal(body)
	if err != nil {
		// Strings always marshal: invalid UTF-8 becomes U+FFFD.
		panic(fmt.Sprintf("admin: write error: %v", err))
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Del("ETag")
	w.WriteHeader(status)
	w.Write(append(b, '\n')) // the reader left: nobody to tell
}

// gzipFrom is the size from which compressing pays: below it the answer fits a few packets anyway.
const gzipFrom = 4 << 10

// etagSeed makes tags of this process only, which is all a poller of this process needs.
var etagSeed = maphash.MakeSeed()

// writeJSON answers with v: compressed when that is asked for and pays, and as 304 when the asker has exactly
// this already. A dashboard polls; between two periods most answers are the same bytes.
func writeJSON(w http.ResponseWriter, r *http.Request, log *slog.Logger, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		log.Error("admin answer cannot be written as JSON", "path", r.URL.Path, "error", err)
		WriteError(w, fmt.Errorf("admin: write %s: %w", r.URL.Path, err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	tag := fmt.Sprintf(`W/"%x"`, maphash.Bytes(etagSeed, b))
	h.Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if len(b) < gzipFrom || !acceptsGzip(r) {
		w.Write(append(b, '\n'))
		return
	}
	h.Set("Content-Encoding", "gzip")
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		panic(fmt.Sprintf("admin: gzip level: %v", err)) // a constant level
	}
	z.Write(b)
	z.Close()
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" {
			q = strings.ReplaceAll(q, " ", "")
			return q != "q=0" && q != "q=0.0"
		}
	}
	return false
}
