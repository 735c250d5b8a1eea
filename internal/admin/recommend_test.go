package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/errkind"
)

// sizing is a source that recommends.
type sizing struct {
	source
	wanted string
}

func (s *sizing) Recommend(cg string) ([]Recommendation, error) {
	s.wanted = cg
	if cg == "/gone" {
		return nil, errkind.New(errkind.NotFound, "offload: no cgroup %q", cg)
	}
	return []Recommendation{{Cgroup: "/a", Resources: Resources{Requests{"190Mi"}}, Request: 190 << 20, Level: "high"}}, nil
}

func TestRecommendRequests(t *testing.T) {
	src := &sizing{}
	h := NewServer(src, nil, nil)
	for _, c := range []struct {
		target string
		code   int
		want   string
		asked  string
	}{
		{"/v1/recommend", 200, `"resources":{"requests":{"memory":"190Mi"}}`, ""},
		{"/v1/recommend?cgroup=/a", 200, `"request_bytes":199229440`, "/a"},
		{"/v1/recommend?cgroup=/gone", 404, "no cgroup", "/gone"},
		{"/v1/recommend?cgroup=a", 400, "does not start with /", ""},
		{"/v1/recommend?limit=3", 400, "unknown parameter", ""},
	} {
		src.wanted = ""
		w := ask(h, http.MethodGet, c.target, "")
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) || src.wanted != c.asked {
			t.Errorf("%s: %d %s, asked for %q", c.target, w.Code, w.Body, src.wanted)
		}
	}
	if w := ask(h, http.MethodPost, "/v1/recommend", ""); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	if w := ask(NewServer(&source{}, nil, nil), http.MethodGet, "/v1/recommend", ""); w.Code != 501 || !strings.Contains(w.Body.String(), "recommends nothing") {
		t.Errorf("a source that cannot: %d %s", w.Code, w.Body)
	}
}
