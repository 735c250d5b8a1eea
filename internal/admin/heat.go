package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
)

// HeatReader is a Reader that also knows how recently memory was touched. A daemon without one answers that it cannot.
type HeatReader interface {
	// Heat returns the newest reading of one cgroup. Kinds of its errors: NotFound, no such cgroup; Unsupported,
	// nobody tracks it here; Unknown, it is tracked and there is no reading yet.
	Heat(cgroup string) (Heat, error)
}

// Heat is GET /v1/heat?cgroup=PATH: how recently the memory of one cgroup was touched.
type Heat struct {
	Cgroup     string    `json:"cgroup"`
	Time       time.Time `json:"time"`
	Source     string    `json:"source"` // "mglru", "idle-bitmap", "clear-refs"
	Span       Duration  `json:"span"`   // how long it has been watched; nothing can look colder
	Scan       Duration  `json:"scan"`   // distance of two scans, the resolution of ages
	Seen       int64     `json:"seen_bytes"`
	WorkingSet int64     `json:"working_set_bytes"` // touched within 120 s
	// Curve is memory that was not touched for 1, 2, 5, 15 and 60 minutes.
	Curve []HeatPoint `json:"curve"`
	// Cold is resident memory by idle age: a bucket reaches up to the next one's idle.
	Cold []HeatAge `json:"cold"`
	// Promoted is what was touched again, bytes a minute, by the age it had reached; null where the source cannot see
	// it.
	Promoted []HeatAge `json:"promoted_per_minute"`
	// ScanCPU is the processor time of the newest scan, of all tracked cgroups together.
	ScanCPU Duration `json:"scan_cpu"`
}

// HeatPoint is one point of the cold curve. Known is false where nobody has watched for that long.
type HeatPoint struct {
	Idle  Duration `json:"idle"`
	Bytes int64    `json:"bytes"`
	Known bool     `json:"known"`
}

// HeatAge is memory of one age.
type HeatAge struct {
	Idle  Duration `json:"idle"`
	Bytes int64    `json:"bytes"`
}

// Heat asks how recently a cgroup's memory was touched; see HeatReader for the kinds of errors.
func (c *Client) Heat(ctx context.Context, cgroup string) (h Heat, err error) {
	return h, c.do(ctx, http.MethodGet, "/v1/heat", url.Values{"cgroup": {cgroup}}, &h)
}

func (a *reads) heat(w http.ResponseWriter, r *http.Request) error {
	cg, err := oneCgroup(r)
	if err != nil {
		return err
	}
	if cg == "" {
		return errkind.New(errkind.Invalid, "admin: heat needs the parameter cgroup")
	}
	src, ok := a.src.(HeatReader)
	if !ok {
		return errkind.New(errkind.Unsupported, "admin: this daemon does not track access")
	}
	h, err := src.Heat(a.resolve(cg))
	if err != nil {
		return err
	}
	h.Curve, h.Cold = orEmpty(h.Curve), orEmpty(h.Cold)
	writeJSON(w, r, a.log, h)
	return nil
}
