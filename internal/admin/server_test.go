package admin

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-io/spillway/internal/errkind"
)

// source is a daemon made of values.
type source struct {
	status    Status
	cgroups   []Cgroup
	decisions []Decision
	history   []Point
	reload    func() error
	asked     string // the cgroup of the last Decisions or Explain
	limit     int
}

func (s *source) Status() Status    { return s.status }
func (s *source) Cgroups() []Cgroup { return s.cgroups }
func (s *source) History() []Point  { return s.history }
func (s *source) Decisions(cg string, limit int) []Decision {
	s.asked, s.limit = cg, limit
	return s.decisions
}

func (s *source) Explain(cg string) (Explanation, error) {
	s.asked = cg
	for _, c := range s.cgroups {
		if c.Path == cg {
			return Explanation{Cgroup: c}, nil
		}
	}
	return Explanation{}, errkind.Hint(errkind.New(errkind.NotFound, "offload: explain: no cgroup %q", cg), "see spillway top")
}

func (s *source) Reload(context.Context) error {
	if s.reload == nil {
		return nil
	}
	return s.reload()
}

// ask sends one request straight to the handler.
func ask(h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w
}

func TestRequests(t *testing.T) {
	src := &source{cgroups: []Cgroup{{Path: "/kubepods/a"}}}
	h := NewServer(src, prometheus.NewRegistry(), nil)
	long := strings.Repeat("a", maxPath)
	for _, c := range []struct {
		name, method, target, body string
		status                     int
		kind, text                 string // of the error
	}{
		{"status", "GET", "/v1/status", "", 200, "", ""},
		{"head", "HEAD", "/v1/status", "", 200, "", ""},
		{"cgroups", "GET", "/v1/cgroups", "", 200, "", ""},
		{"metrics", "GET", "/metrics", "", 200, "", ""},
		{"history since", "GET", "/v1/history?since=2026-01-02T03:04:05.123Z", "", 200, "", ""},
		{"decisions", "GET", "/v1/decisions?cgroup=/kubepods/a&limit=1000", "", 200, "", ""},
		{"explain", "GET", "/v1/explain?cgroup=/kubepods/a", "", 200, "", ""},
		{"root page", "GET", "/", "", 404, "not found", "no such page"},
		{"nearly", "GET", "/v1/status/", "", 404, "not found", "no such page"},
		{"unknown parameter", "GET", "/v1/decisions?cgrup=/a", "", 400, "invalid", `unknown parameter "cgrup"`},
		{"parameter where none is", "GET", "/v1/status?x=1", "", 400, "invalid", "unknown parameter"},
		{"metrics parameter", "GET", "/metrics?name[]=x", "", 400, "invalid", "unknown parameter"},
		{"twice", "GET", "/v1/decisions?limit=1&limit=2", "", 400, "invalid", "given 2 times"},
		{"bad escape", "GET", "/v1/decisions?cgroup=%zz", "", 400, "invalid", "read query"},
		{"limit 0", "GET", "/v1/decisions?limit=0", "", 400, "invalid", "1 to 1000"},
		{"limit 1001", "GET", "/v1/decisions?limit=1001", "", 400, "invalid", "1 to 1000"},
		{"limit empty", "GET", "/v1/decisions?limit=", "", 400, "invalid", "1 to 1000"},
		{"limit huge", "GET", "/v1/decisions?limit=99999999999999999999", "", 400, "invalid", "1 to 1000"},
		{"relative cgroup", "GET", "/v1/decisions?cgroup=kubepods", "", 400, "invalid", "does not start with /"},
		{"NUL", "GET", "/v1/explain?cgroup=/a%00b", "", 400, "invalid", "NUL"},
		{"long cgroup", "GET", "/v1/explain?cgroup=/" + long, "", 400, "invalid", "4097 bytes"},
		{"explain nothing", "GET", "/v1/explain", "", 400, "invalid", "needs the parameter"},
		{"explain unknown", "GET", "/v1/explain?cgroup=/nope", "", 404, "not found", "no cgroup"},
		{"since nonsense", "GET", "/v1/history?since=yesterday", "", 400, "invalid", "not a time"},
		{"body on GET", "GET", "/v1/status", "x", 400, "invalid", "takes no body, got 1 bytes"},
		{"large body", "GET", "/v1/status", strings.Repeat("x", maxBody+1), 400, "invalid", "larger than 1048576"},
		{"wrong method", "DELETE", "/v1/cgroups", "", 405, "invalid", "does not answer DELETE"},
		{"reload by GET", "GET", "/v1/reload", "", 405, "invalid", "does not answer GET"},
		{"reload by nobody known", "POST", "/v1/reload", "", 403, "denied", "only root"},
		{"post metrics", "POST", "/metrics", "", 405, "invalid", "does not answer POST"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ask(h, c.method, c.target, c.body)
			if w.Code != c.status {
				t.Fatalf("status %d, want %d: %s", w.Code, c.status, w.Body)
			}
			if c.kind == "" {
				return
			}
			var e errorBody
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
				t.Fatalf("refusal is no JSON: %v: %s", err, w.Body)
			}
			if e.Kind != c.kind || !strings.Contains(e.Error, c.text) {
				t.Errorf("refused with %+v, want kind %q and %q", e, c.kind, c.text)
			}
		})
	}
	if w := ask(h, "PUT", "/v1/reload", ""); w.Header().Get("Allow") != "POST" {
		t.Errorf("Allow %q, want POST", w.Header().Get("Allow"))
	}
}

func TestParametersReachSource(t *testing.T) {
	src := &source{decisions: make([]Decision, 50)}
	h := NewServer(src, nil, nil)
	var got []Decision
	if err := json.Unmarshal(ask(h, "GET", "/v1/decisions?cgroup=%2Fa%20b&limit=7", "").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if src.asked != "/a b" || src.limit != 7 || len(got) != 7 {
		t.Errorf("asked %q limit %d, got %d decisions; want \"/a b\", 7, 7 whatever the source returns", src.asked, src.limit, len(got))
	}
	if ask(h, "GET", "/metrics", "").Code != 404 {
		t.Error("without a registry there is no /metrics")
	}
	ask(h, "GET", "/v1/decisions", "")
	if src.limit != defaultDecisions {
		t.Errorf("default limit %d, want %d", src.limit, defaultDecisions)
	}
}

func TestEmptyIsListNotNull(t *testing.T) {
	h := NewServer(&source{}, nil, nil)
	for _, p := range []string{"/v1/cgroups", "/v1/decisions", "/v1/history"} {
		if got := strings.TrimSpace(ask(h, "GET", p, "").Body.String()); got != "[]" {
			t.Errorf("%s: %s, want []", p, got)
		}
	}
}

func TestHistorySince(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	src := &source{}
	for i := range 10 {
		src.history = append(src.history, Point{Time: at.Add(time.Duration(i) * time.Second), Pool: int64(i)})
	}
	h := NewServer(src, nil, nil)
	for since, want := range map[int]int{-1: 10, 0: 9, 8: 1, 9: 0, 20: 0} {
		var got []Point
		w := ask(h, "GET", "/v1/history?since="+at.Add(time.Duration(since)*time.Second).Format(time.RFC3339Nano), "")
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if len(got) != want {
			t.Errorf("since point %d: %d points, want %d", since, len(got), want)
		}
	}
}

func TestHostileNames(t *testing.T) {
	names := []string{"/a\nb", "/\x1b[31m", "/<script>", "/\u2028", `/"\`, "/bad\xff\xfe", "/" + strings.Repeat("é", 2000)}
	src := &source{}
	for _, n := range names {
		src.cgroups = append(src.cgroups, Cgroup{Path: n})
	}
	h := NewServer(src, nil, nil)
	w := ask(h, "GET", "/v1/cgroups", "")
	for _, bad := range []string{"<script>", "\x1b", "\u2028", "\xff"} {
		if strings.Contains(w.Body.String(), bad) {
			t.Errorf("answer contains %q raw", bad)
		}
	}
	var got []Cgroup
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for i, c := range got {
		// What a reader sees it can ask for, and it gets the one it saw.
		w := ask(h, "GET", "/v1/explain?cgroup="+urlEscape(c.Path), "")
		if w.Code != 200 || src.asked != names[i] {
			t.Errorf("explain %q: status %d, source was asked for %q", c.Path, w.Code, src.asked)
		}
	}
}

func TestAnswersAreSmallAndCached(t *testing.T) {
	src := &source{}
	for i := range 2000 {
		d := Decision{Cgroup: fmt.Sprintf("/kubepods/burstable/pod%d", i), Reason: "steady", Detail: "all signals are below their targets", Inputs: make([]Input, 3)}
		src.cgroups = append(src.cgroups, Cgroup{Path: d.Cgroup, Last: &d, Offloaded: map[string]int64{"zswap": int64(i)}})
	}
	h := NewServer(src, nil, nil)
	plain := ask(h, "GET", "/v1/cgroups", "")
	if plain.Header().Get("Content-Encoding") != "" {
		t.Error("compressed for somebody who did not ask")
	}
	r := httptest.NewRequest("GET", "/v1/cgroups", nil)
	r.Header.Set("Accept-Encoding", "br, gzip")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	size := w.Body.Len()
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil || string(b) != strings.TrimSpace(plain.Body.String()) {
		t.Errorf("compressed answer differs (%v)", err)
	}
	t.Logf("2000 cgroups: %d KiB plain, %d KiB compressed", plain.Body.Len()>>10, size>>10)
	if size > 200<<10 {
		t.Errorf("2000 cgroups cost %d KiB", size>>10)
	}
	r.Header.Set("If-None-Match", w.Header().Get("ETag"))
	again := httptest.NewRecorder()
	h.ServeHTTP(again, r)
	if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("unchanged: status %d with %d bytes, want 304 with none", again.Code, again.Body.Len())
	}
	src.cgroups[7].Usage++
	again = httptest.NewRecorder()
	h.ServeHTTP(again, r)
	if again.Code != 200 {
		t.Errorf("changed: status %d, want 200", again.Code)
	}
}

func TestUnwritableAnswerIsAnError(t *testing.T) {
	h := NewServer(&source{status: Status{Host: Host{MemSome: math.NaN()}}}, nil, nil)
	w := ask(h, "GET", "/v1/status", "")
	if w.Code != 500 || !strings.Contains(w.Body.String(), "internal") {
		t.Errorf("status %d %s, want 500 with kind internal", w.Code, w.Body)
	}
}

// running serves src on a socket in a temporary folder as if the peer had that uid.
func running(t *testing.T, src Source, uid uint32) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.sock")
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(src, nil, slog.New(slog.DiscardHandler))
	if uid != uint32(os.Getuid()) {
		s.peer = func(net.Conn) (uint32, error) { return uid, nil }
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Error("the socket is left behind")
		}
	})
	return Dial(path)
}

func TestClientServer(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	src := &source{
		status:    Status{Version: "v", Period: Duration(6 * time.Second), Now: at, Tiers: []Tier{{Name: "zswap", P50: Duration(11 * time.Microsecond)}}},
		cgroups:   []Cgroup{{Path: "/a", Offloaded: map[string]int64{"zswap": 5}, Last: &Decision{Reason: "steady", Took: Duration(25 * time.Millisecond)}}},
		decisions: []Decision{{Cgroup: "/a"}},
		history:   []Point{{Time: at, Pool: 3}},
	}
	c := running(t, src, 0)
	ctx := t.Context()
	if s, err := c.Status(ctx); err != nil || s.Period != Duration(6*time.Second) || s.Tiers[0].P50 != Duration(11*time.Microsecond) || !s.Now.Equal(at) {
		t.Errorf("Status: %+v, %v", s, err)
	}
	if cs, err := c.Cgroups(ctx); err != nil || len(cs) != 1 || cs[0].Offloaded["zswap"] != 5 || cs[0].Last.Took != Duration(25*time.Millisecond) {
		t.Errorf("Cgroups: %+v, %v", cs, err)
	}
	if ds, err := c.Decisions(ctx, "/a", 5); err != nil || len(ds) != 1 || src.asked != "/a" || src.limit != 5 {
		t.Errorf("Decisions: %+v, %v", ds, err)
	}
	if ps, err := c.History(ctx); err != nil || len(ps) != 1 || ps[0].Pool != 3 {
		t.Errorf("History: %+v, %v", ps, err)
	}
	if ex, err := c.Explain(ctx, "/a"); err != nil || ex.Cgroup.Path != "/a" {
		t.Errorf("Explain: %+v, %v", ex, err)
	}
	_, err := c.Explain(ctx, "/none")
	if errkind.Of(err) != errkind.NotFound || errkind.HintOf(err) != "see spillway top" || err.Error() != `offload: explain: no cgroup "/none"` {
		t.Errorf("error over the socket: %v (%v, hint %q)", err, errkind.Of(err), errkind.HintOf(err))
	}
	src.reload = func() error { return errkind.New(errkind.Invalid, "config: bad") }
	if err := c.Reload(ctx); errkind.Of(err) != errkind.Invalid {
		t.Errorf("Reload: %v, want kind invalid", err)
	}
	src.reload = nil
	if err := c.Reload(ctx); err != nil {
		t.Errorf("Reload: %v", err)
	}
}

func TestOnlyRootWrites(t *testing.T) {
	src := &source{reload: func() error { t.Error("reloaded for uid 1000"); return nil }}
	c := running(t, src, 1000)
	err := c.Reload(t.Context())
	if errkind.Of(err) != errkind.Denied || !strings.Contains(errkind.HintOf(err), "sudo") {
		t.Errorf("Reload as uid 1000: %v (hint %q), want denied", err, errkind.HintOf(err))
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Errorf("Status as uid 1000: %v", err)
	}
}

func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	_, err := Dial(filepath.Join(dir, "none.sock")).Status(t.Context())
	if errkind.Of(err) != errkind.Unavailable || errkind.HintOf(err) != "start it: spillway up" {
		t.Errorf("%v (%v, hint %q)", err, errkind.Of(err), errkind.HintOf(err))
	}
	if strings.Contains(err.Error(), "http://") {
		t.Errorf("the made-up URL shows: %v", err)
	}
	// Dead: the file is there, nobody behind it.
	dead := leftover(t, dir)
	if _, err := Dial(dead).Status(t.Context()); errkind.Of(err) != errkind.Unavailable {
		t.Errorf("dead socket: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(dead).Status(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
