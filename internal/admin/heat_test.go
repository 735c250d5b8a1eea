package admin

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
)

// warm is a source that tracks access.
type warm struct {
	source
	heat func(string) (Heat, error)
}

func (w *warm) Heat(cg string) (Heat, error) { return w.heat(cg) }

func TestHeatAnswers(t *testing.T) {
	bad := "/a\xff"
	full := Heat{Cgroup: "/a", Source: "mglru", Scan: Duration(2 * time.Minute), Seen: 7, Curve: []HeatPoint{{Duration(time.Minute), 3, true}},
		Cold: []HeatAge{{0, 4}, {Duration(time.Minute), 3}}, Promoted: []HeatAge{{Duration(time.Minute), 1}}}
	src := &warm{heat: func(cg string) (Heat, error) {
		switch cg {
		case "/a":
			return full, nil
		case bad:
			return Heat{Cgroup: cg}, nil
		case "/soon":
			return Heat{}, errkind.New(errkind.Unknown, "no reading yet")
		}
		return Heat{}, errkind.Hint(errkind.New(errkind.NotFound, "no cgroup %q", cg), "list them")
	}}
	src.cgroups = []Cgroup{{Path: bad}}
	for _, c := range []struct {
		name, target string
		of           Reader
		status       int
		kind, text   string
	}{
		{"known", "/v1/heat?cgroup=/a", src, 200, "", `"known":true`},
		{"as shown", "/v1/heat?cgroup=/a%EF%BF%BD", src, 200, "", `"curve":[],"cold":[],"promoted_per_minute":null`},
		{"no cgroup", "/v1/heat", src, 400, "invalid", "needs the parameter cgroup"},
		{"relative", "/v1/heat?cgroup=a", src, 400, "invalid", "does not start with /"},
		{"misspelt", "/v1/heat?group=/a", src, 400, "invalid", "unknown parameter"},
		{"unknown", "/v1/heat?cgroup=/b", src, 404, "not found", "no cgroup"},
		{"too early", "/v1/heat?cgroup=/soon", src, 500, "unknown", "no reading yet"},
		{"untracked", "/v1/heat?cgroup=/a", &source{}, 501, "unsupported", "does not track"},
	} {
		w := httptest.NewRecorder()
		Reads(c.of, nil).ServeHTTP(w, httptest.NewRequest("GET", c.target, nil))
		body := w.Body.String()
		if w.Code != c.status || !strings.Contains(body, c.text) || c.kind != "" && !strings.Contains(body, `"kind":"`+c.kind+`"`) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %d %s", c.name, w.Code, body)
		}
	}
}

func TestHeatOverTheSocket(t *testing.T) {
	want := Heat{Cgroup: "/a", Time: time.Unix(5, 0).UTC(), Source: "clear-refs", Curve: []HeatPoint{}, Cold: []HeatAge{{Duration(time.Minute), 1}}}
	src := &warm{heat: func(cg string) (Heat, error) {
		if cg != "/a" {
			return Heat{}, errkind.Hint(errkind.New(errkind.Unsupported, "only observed"), "add a root")
		}
		return want, nil
	}}
	sock := filepath.Join(t.TempDir(), "s")
	ln, err := Listen(sock)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- NewServer(src, nil, nil).Serve(ctx, ln) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	got, err := Dial(sock).Heat(t.Context(), "/a")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Dial(sock).Heat(t.Context(), "/b"); errkind.Of(err) != errkind.Unsupported || errkind.HintOf(err) != "add a root" {
		t.Errorf("%v, hint %q", err, errkind.HintOf(err))
	}
}
