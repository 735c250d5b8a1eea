package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"
)

// FuzzRequest: whatever is asked, the answer is JSON, is not a failure of the server, and nothing is reloaded.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{"", "limit=5", "cgroup=/a", "cgroup=%2Fa%0Ab&limit=1", "since=2026-01-02T03:04:05Z", "limit=-1", "cgroup=%ff", "a=b;c=d", "%"} {
		f.Add("GET", "/v1/decisions", s)
		f.Add("GET", "/v1/explain", s)
		f.Add("GET", "/v1/heat", s)
		f.Add("GET", "/v1/history", s)
	}
	f.Add("POST", "/v1/reload", "")
	f.Add("PUT", "/v1/../v1/status", "")
	f.Add("GET", "//v1//status", "x=\x00")
	src := &warm{source: source{cgroups: []Cgroup{{Path: "/a\xff"}, {Path: "/a"}}, history: []Point{{Time: time.Unix(1, 0)}}}}
	src.heat = func(cg string) (Heat, error) { return Heat{Cgroup: cg}, nil }
	src.reload = func() error { panic("reloaded for an unknown peer") }
	h := NewServer(src, nil, nil)
	f.Fuzz(func(t *testing.T, method, path, query string) {
		r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{}, Body: http.NoBody, Host: "x", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 300 && w.Code < 400 {
			return // the mux cleans a path
		}
		if w.Code >= 500 {
			t.Fatalf("%s %q ? %q: status %d: %s", method, path, query, w.Code, w.Body)
		}
		if method != http.MethodHead && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %q ? %q: answer is no JSON: %q", method, path, query, w.Body)
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"0", "1.5", "-3", "1e300", "null", `"1s"`, "NaN", "0.0000000001", "9223372036.9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var d Duration
		if err := d.UnmarshalJSON([]byte(s)); err != nil {
			return
		}
		b, err := d.MarshalJSON()
		if err != nil || !json.Valid(b) {
			t.Fatalf("%q: %v is written as %q, %v", s, d, b, err)
		}
		var again Duration
		if err := again.UnmarshalJSON(b); err != nil {
			t.Fatalf("%q: cannot read back %s: %v", s, b, err)
		}
		// A float64 of seconds is exact to the nanosecond up to 2^53 ns; beyond it loses a 2^-53rd.
		if diff, allowed := max(again-d, d-again), max(d, -d)>>50+1; diff > allowed && d != -1<<63 {
			t.Fatalf("%q: %d read back as %d", s, d, again)
		}
	})
}

func TestDuration(t *testing.T) {
	for d, want := range map[Duration]string{0: "0", Duration(6 * time.Second): "6", Duration(2500 * time.Microsecond): "0.0025", 1: "0.000000001", Duration(-time.Second): "-1"} {
		b, err := json.Marshal(struct{ D Duration }{d})
		if err != nil || string(b) != `{"D":`+want+`}` {
			t.Errorf("%v: %s, %v; want %s", d, b, err, want)
		}
	}
	for _, bad := range []string{`"6s"`, "1e12", "-1e12", "{}"} {
		var d Duration
		if err := json.Unmarshal([]byte(bad), &d); err == nil {
			t.Errorf("%s is read as %v", bad, d)
		}
	}
}
