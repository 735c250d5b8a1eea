package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
)

// Endurance is how the write budget of the drives behind swap stands.
type Endurance struct {
	Budget  int64   `json:"budget_bytes_per_day"`
	Whole   bool    `json:"whole_drive"`            // every write on a drive counts, not only swap's
	Rating  int64   `json:"rating_bytes,omitempty"` // what a drive is rated for; 0 unknown
	Price   float64 `json:"price"`                  // share of the budget that is gone, in [0,1]
	Left    int64   `json:"left_bytes"`             // that steps may still write now
	Written int64   `json:"written_bytes"`          // by swapping, since the daemon started
	Drives  []Drive `json:"drives"`
}

// Drive is how one drive behind swap wears, whoever writes to it.
type Drive struct {
	Device   string    `json:"device"`
	Written  int64     `json:"written_bytes"` // since Since
	Since    time.Time `json:"since"`
	Ten      float64   `json:"ten_minutes_bytes_per_s"`
	Hour     float64   `json:"hour_bytes_per_s"`
	Day      float64   `json:"day_bytes_per_s"`
	Years    float64   `json:"years,omitempty"` // the rating lasts at the day's rate
	Forecast string    `json:"forecast"`        // the same as a sentence, or why there is none
}

// Recommendation is one row of GET /v1/recommend: a right-sized memory request and what it rests on.
type Recommendation struct {
	Cgroup      string    `json:"cgroup"`
	Class       string    `json:"class"`
	Resources   Resources `json:"resources"` // as in a pod's container
	Request     int64     `json:"request_bytes"`
	UpperBound  bool      `json:"upper_bound"` // a smaller request may do
	Usage       int64     `json:"usage_p98_bytes"`
	Need        int64     `json:"need_p98_bytes"`  // of the usage while the law rested; 0 when it never did
	Safe        int64     `json:"safe_size_bytes"` // what the law found not to hurt; 0 when it found none
	Floor       int64     `json:"floor_bytes"`
	Saving      int64     `json:"saving_net_bytes"`
	RefaultCost float64   `json:"refault_cost"` // share of time spent on refaults at that size
	Watched     Duration  `json:"watched"`
	Resting     Duration  `json:"resting"`
	Confidence  float64   `json:"confidence"` // in [0,1]
	Level       string    `json:"level"`      // "low", "medium", "high"
	Why         string    `json:"why"`
	Raise       string    `json:"raise,omitempty"` // what would raise the confidence
}

// Resources is the part of a container's spec that is recommended.
type Resources struct {
	Requests Requests `json:"requests"`
}

// Requests holds quantities as Kubernetes writes them.
type Requests struct {
	Memory string `json:"memory"`
}

// Recommender is what a Reader may be able to do besides: of one cgroup, or of all managed ones when cgroup is "".
// NotFound when the daemon does not know the cgroup, Unavailable when it only observes it.
type Recommender interface {
	Recommend(cgroup string) ([]Recommendation, error)
}

func (a *reads) recommend(w http.ResponseWriter, r *http.Request) error {
	cg, err := oneCgroup(r)
	if err != nil {
		return err
	}
	rec, ok := a.src.(Recommender)
	if !ok {
		return errkind.New(errkind.Unsupported, "admin: this daemon recommends nothing")
	}
	rs, err := rec.Recommend(a.resolve(cg))
	if err != nil {
		return err
	}
	writeJSON(w, r, a.log, orEmpty(rs))
	return nil
}

// Recommend asks for right-sized memory requests, of one cgroup or of all managed ones when cgroup is "".
func (c *Client) Recommend(ctx context.Context, cgroup string) (rs []Recommendation, err error) {
	q := url.Values{}
	if cgroup != "" {
		q.Set("cgroup", cgroup)
	}
	return rs, c.do(ctx, http.MethodGet, "/v1/recommend", q, &rs)
}
