package rightsize

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
)

// Now is what the history does not hold.
type Now struct {
	Floor  int64 // bytes below which the workload is never taken, and which a request never goes below
	Safe   int64 // the law's safe size, 0 when it has none yet
	Saving int64 // bytes saved, net and sustained
	Pool   int64 // bytes it holds in a compressed pool that it is not charged for
}

// Recommendation is a right-sized memory request with what it rests on. Sizes are bytes.
type Recommendation struct {
	Request    int64
	UpperBound bool    // the need is not known yet: a smaller request may do
	Usage      int64   // 98th percentile of the usage, recent time counting more
	Need       int64   // 98th percentile of the usage while the law rested; 0 when it never did
	Safe       int64   // the law's safe size; 0 when it has none
	Saving     int64   // net, sustained
	Cost       float64 // mean share of time spent on refaults at that size
	Watched    time.Duration
	Resting    time.Duration // of that
	Confidence float64       // in [0,1]
	Level      string        // "low", "medium", "high"
	Why        string        // what the confidence is limited by
	Raise      string        // what would raise it, "" at its highest
}

// Recommend never fails; what it does not know lowers the confidence.
func (h *History) Recommend(n Now) Recommendation {
	r := Recommendation{
		Usage: h.usage.percentile(rank), Need: h.need.percentile(rank), Safe: max(n.Safe, 0),
		Saving: n.Saving, Watched: h.watched, Resting: h.resting,
	}
	if h.need.total > 0 {
		r.Cost = h.cost / h.need.total
	}
	size := r.Need
	if h.resting < enoughRest {
		size, r.UpperBound = r.Usage, true
	}
	size = max(size, r.Safe)
	want := float64(size+max(n.Pool, 0)) * margin
	r.Request = max(roundUp(want), max(n.Floor, 0))
	r.Confidence, r.Why, r.Raise = h.confidence(r)
	switch {
	case r.Confidence >= 0.75:
		r.Level = "high"
	case r.Confidence >= 0.4:
		r.Level = "medium"
	default:
		r.Level = "low"
	}
	return r
}

// enoughRest is how long the law must have rested before the usage then counts as the need.
const enoughRest = 10 * time.Minute

func roundUp(want float64) int64 {
	const mib = int64(bytesize.MiB)
	if want >= math.MaxInt64/2 {
		return math.MaxInt64 / mib * mib
	}
	return (int64(want) + mib - 1) / mib * mib
}

// confidence is the smallest of four shares, each of which says what it wants: a chain is as strong as its weakest
// link.
func (h *History) confidence(r Recommendation) (share float64, why, raise string) {
	const day, rest = 24 * time.Hour, 2 * time.Hour
	share = 1
	weigh := func(s float64, because, remedy string) {
		if s = math.Min(1, math.Max(0, s)); s < share {
			share, why, raise = s, because, remedy
		}
	}
	weigh(float64(h.watched)/float64(day), fmt.Sprintf("watched for %s", span(h.watched)), "watch a whole day, so that its peaks are seen")
	weigh(float64(h.resting)/float64(rest), restText(h.resting), "let the law go on until it rests for two hours: only then is the usage what the workload needs")
	if r.Safe == 0 {
		weigh(0.7, "the law has found no safe size", "a law that learns one (composite), or more time below the present size")
	}
	if r.Need > 0 {
		low := h.need.percentile(0.5)
		spread := float64(r.Need-low) / float64(r.Need)
		weigh(1-spread, fmt.Sprintf("the need varies: half of the time it is under %v, at most %v", bytesize.Size(low), bytesize.Size(r.Need)),
			"nothing but watching longer, if the workload itself is unsteady")
	}
	if share >= 0.95 { // nothing worth asking for
		raise = ""
		why = "watched for " + span(h.watched) + ", at rest for " + span(h.resting)
	}
	return share, why, raise
}

func restText(d time.Duration) string {
	if d == 0 {
		return "the law has not rested yet, so the usage is only an upper bound of the need"
	}
	return "the law has rested for " + span(d) + " only"
}

// span is a duration for people.
func span(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	case d >= time.Hour:
		return fmt.Sprintf("%.1f hours", d.Hours())
	case d >= time.Minute:
		return plural(d.Minutes(), "minute")
	}
	return plural(d.Seconds(), "second")
}

func plural(n float64, unit string) string {
	text := fmt.Sprintf("%.0f %s", n, unit)
	if text == "1 "+unit {
		return text
	}
	return text + "s"
}

// Kube is n bytes as Kubernetes writes a quantity: whole MiB.
func Kube(n int64) string {
	const mib = int64(bytesize.MiB)
	return fmt.Sprintf("%dMi", (max(n, 0)+mib-1)/mib)
}
