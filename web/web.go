// Package web is the dashboard: one page, its assets and the read-only API on a loopback port.
//
// Promise: the page shows what the admin API says, changes nothing, and loads nothing from another host. Every
// answer carries a content policy without inline code; a request under a name that is not this machine's
// loopback is refused, so that a foreign web page cannot rebind its name and read the numbers. Text from the
// system reaches the document only as text.
//
// Ownership: Handler keeps its API and its assets for its life. Locks: none.
// Failure: refusals are JSON with a hint, like the admin API's. An asset that is missing is a bug of the build.
// Not here: login, TLS, writes, history on disk. No build step: static/ is what the browser gets.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/errkind"
)

// API is what the page shows: the reading half of the daemon.
type API = admin.Reader

// Options of Handler; the zero value works.
type Options struct {
	// Metrics is GET /metrics; nil leaves it out.
	Metrics http.Handler
	// Version is shown in the foot of the page; the first paint does not wait for the API.
	Version string
	// Log receives answers that could not be written; nil discards.
	Log *slog.Logger
}

//go:embed static templates
var files embed.FS

// asset is one file as it is sent.
type asset struct {
	body []byte
	kind string
	etag string
}

// Handler serves the dashboard over api. Put it on a loopback listener only; Server does.
func Handler(api API, o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	assets := load()
	page := render(assets, o.Version)

	mux := http.NewServeMux()
	mux.Handle("/v1/", admin.Reads(api, o.Log))
	if o.Metrics != nil {
		mux.Handle("/metrics", o.Metrics)
	}
	mux.HandleFunc("/static/", func(w http.ResponseWriter, r *http.Request) {
		a, ok := assets[strings.TrimPrefix(r.URL.Path, "/")]
		if !ok {
			notFound(w, r)
			return
		}
		a.serve(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			notFound(w, r)
			return
		}
		page.serve(w, r)
	})
	return guard(mux)
}

func notFound(w http.ResponseWriter, r *http.Request) {
	admin.WriteError(w, errkind.Hint(errkind.New(errkind.NotFound, "web: no such page: %s", r.URL.Path),
		"the dashboard is at /, the metrics are at /metrics, the numbers below /v1/"))
}

// Server is an http.Server for Handler with the limits of a port that every local process can reach.
// Run it with admin.RunHTTP.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Handler:           h,
		MaxHeaderBytes:    32 << 10,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// URL is the address to tell a person for a listener.
func URL(ln net.Listener) string { return "http://" + ln.Addr().String() + "/" }

func (a asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "no-cache") // ask each time; a new binary must not meet an old script
	h.Set("ETag", a.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
}

// load reads the embedded files once. They are part of the binary, so a failure is a broken build.
func load() map[string]asset {
	assets := map[string]asset{}
	err := fs.WalkDir(files, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		assets[name] = newAsset(body, contentType(name))
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("web: embedded files: %v", err))
	}
	return assets
}

func newAsset(body []byte, kind string) asset {
	sum := sha256.Sum256(body)
	return asset{body, kind, `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// contentType does not ask the machine's mime.types for what the page needs: with nosniff a wrong answer
// there would leave the page without its scripts.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "text/plain; charset=utf-8"
}

// render makes the page. It is the same for everybody: what changes comes from the API.
func render(assets map[string]asset, version string) asset {
	t := template.Must(template.ParseFS(files, "templates/index.html"))
	var modules []string
	for name := range assets {
		if path.Dir(name) == "static/js" && path.Base(name) != "theme.js" {
			modules = append(modules, "/"+name)
		}
	}
	slices.Sort(modules)
	var b bytes.Buffer
	err := t.Execute(&b, struct {
		Version string
		Modules []string
	}{version, modules})
	if err != nil {
		panic(fmt.Sprintf("web: page: %v", err))
	}
	return newAsset(b.Bytes(), "text/html; charset=utf-8")
}
