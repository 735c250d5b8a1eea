package web

import (
	"encoding/json"
	"flag"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-io/spillway/internal/admin"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

func get(h http.Handler, method, host, target string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHost(t *testing.T) {
	h := Handler(demo(), Options{})
	for host, want := range map[string]int{
		"127.0.0.1:9720": 200, "localhost:9720": 200, "[::1]:9720": 200, "127.0.0.1": 200, "localhost": 200, "[::1]": 200, "LOCALHOST:1": 200,
		"localhost:8080": 200, // a tunnel brings its own port
		"":               403, "evil.example": 403, "evil.example:9720": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
		"127.0.0.2": 403, "10.0.0.1:9720": 403, "node-17:9720": 403, "::1": 403, "[::1": 403, "[::2]:1": 403, "localhost:x": 403, "localhost:1:2": 403, "user@localhost": 403, "localhost.": 403,
	} {
		for _, target := range []string{"/", "/v1/status", "/static/style.css", "/metrics", "/nosuch"} {
			w := get(h, "GET", host, target)
			if (w.Code == 403) != (want == 403) {
				t.Errorf("Host %q %s: status %d, want %d", host, target, w.Code, want)
			}
			if w.Code == 403 && (strings.Contains(w.Body.String(), "redis") || !strings.Contains(w.Body.String(), "ssh -L")) {
				t.Errorf("Host %q %s: refusal is %s", host, target, w.Body)
			}
		}
	}
}

func TestEveryAnswerIsGuarded(t *testing.T) {
	h := Handler(demo(), Options{Metrics: admin.Metrics(prometheus.NewRegistry())})
	for _, c := range []struct{ method, host, target string }{
		{"GET", "localhost", "/"}, {"GET", "localhost", "/v1/cgroups"}, {"GET", "localhost", "/metrics"}, {"GET", "localhost", "/static/js/app.js"},
		{"GET", "localhost", "/nosuch"}, {"GET", "localhost", "/v1/nosuch"}, {"POST", "localhost", "/"}, {"GET", "evil.example", "/"},
	} {
		w := get(h, c.method, c.host, c.target)
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s %s: %s is %q, want %q", c.method, c.target, name, got, want)
			}
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || strings.Contains(policy, "*") {
		t.Errorf("policy admits too much: %s", policy)
	}
}

func TestOnlyReads(t *testing.T) {
	h := Handler(demo(), Options{})
	for _, m := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"} {
		for _, target := range []string{"/", "/v1/status", "/v1/reload", "/static/style.css"} {
			w := get(h, m, "localhost", target)
			if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: status %d, Allow %q; want 405", m, target, w.Code, w.Header().Get("Allow"))
			}
		}
	}
	if w := get(h, "GET", "localhost", "/v1/reload"); w.Code != 404 {
		t.Errorf("GET /v1/reload: %d, want 404: the dashboard has no writes", w.Code)
	}
	if w := get(h, "GET", "localhost", "/metrics"); w.Code != 404 {
		t.Errorf("/metrics without a handler: %d, want 404", w.Code)
	}
	if w := get(h, "HEAD", "localhost", "/"); w.Code != 200 {
		t.Errorf("HEAD /: %d", w.Code)
	}
}

func TestAPIHasAdminShapes(t *testing.T) {
	h := Handler(demo(), Options{})
	var s admin.Status
	var cs []admin.Cgroup
	var ex admin.Explanation
	for target, into := range map[string]any{"/v1/status": &s, "/v1/cgroups": &cs, "/v1/explain?cgroup=/kubepods/online/redis-a": &ex} {
		if err := json.Unmarshal(get(h, "GET", "localhost", target).Body.Bytes(), into); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
	if s.Node != "node-17" || len(cs) != 8 || ex.Cgroup.Path != "/kubepods/online/redis-a" {
		t.Errorf("status of %q, %d cgroups, explained %q", s.Node, len(cs), ex.Cgroup.Path)
	}
}

func TestPage(t *testing.T) {
	w := get(Handler(demo(), Options{Version: `1.0 <script>alert(1)</script>`}), "GET", "localhost", "/")
	got := w.Body.String()
	if strings.Contains(got, "<script>alert") {
		t.Error("the version is not escaped")
	}
	const golden = "testdata/page.golden"
	if *update {
		if err := os.WriteFile(golden, w.Body.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("page differs from %s; go test ./web -run TestPage -update rewrites it", golden)
	}
}

// TestNothingInlineNothingForeign reads what the browser gets: the policy would block it, but a page that
// needs what its policy blocks is broken.
func TestNothingInlineNothingForeign(t *testing.T) {
	page := get(Handler(demo(), Options{}), "GET", "localhost", "/").Body.String()
	for what, re := range map[string]string{
		"inline script": `<script(?:\s[^>]*)?>[^<]`, "inline style": `<style|\sstyle=`, "event attribute": `\son[a-z]+=`, "foreign address": `(?:src|href)="(?:https?:)?//`,
	} {
		if m := regexp.MustCompile(re).FindString(page); m != "" {
			t.Errorf("page has an %s: %s", what, m)
		}
	}
	names := regexp.MustCompile(`(?:src|href)="/([^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(names) < 8 {
		t.Fatalf("found only %d assets in the page", len(names))
	}
	h := Handler(demo(), Options{})
	for _, n := range names {
		w := get(h, "GET", "localhost", "/"+n[1])
		if w.Code != 200 || w.Header().Get("ETag") == "" {
			t.Errorf("/%s: status %d, ETag %q", n[1], w.Code, w.Header().Get("ETag"))
		}
	}
	err := fs.WalkDir(files, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(name, "/vendor/") {
			return err
		}
		b, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		for what, re := range map[string]string{
			"markup from text": `innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function`,
			"foreign address":  `https?://|@import|url\(`,
		} {
			if m := regexp.MustCompile(re).FindString(string(b)); m != "" && !strings.Contains(string(b), "http://www.w3.org/2000/svg") {
				t.Errorf("%s has %s: %s", name, what, m)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAssetIsSentOnce(t *testing.T) {
	h := Handler(demo(), Options{})
	first := get(h, "GET", "localhost", "/static/js/app.js")
	if got := first.Header().Get("Content-Type"); got != "text/javascript; charset=utf-8" {
		t.Errorf("type of a script is %q", got)
	}
	r := httptest.NewRequest("GET", "/static/js/app.js", nil)
	r.Host = "localhost"
	r.Header.Set("If-None-Match", first.Header().Get("ETag"))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusNotModified {
		t.Errorf("unchanged asset: %d, want 304", w.Code)
	}
	for _, p := range []string{"/static/", "/static/js", "/static/../web.go", "/static/js/../../web.go", "/static/nosuch.js"} {
		if w := get(h, "GET", "localhost", p); w.Code == 200 {
			t.Errorf("%s: 200", p)
		}
	}
}

func BenchmarkCgroups2000(b *testing.B) {
	h := Handler(crowd(2000), Options{})
	for b.Loop() {
		r := httptest.NewRequest("GET", "/v1/cgroups", nil)
		r.Host = "localhost"
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		b.ReportMetric(float64(w.Body.Len()), "bytes/answer")
	}
}
