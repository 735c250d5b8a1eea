package slo

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// histogram writes a metrics page with one series: counts are cumulative, for le 0.001, 0.01, 0.1 and +Inf.
func histogram(counts ...int) string {
	var b strings.Builder
	b.WriteString("# HELP other noise\nother 1\nlat_bucketeer 7\n# TYPE lat histogram\n")
	for i, le := range []string{"0.001", "0.01", "0.1", "+Inf"} {
		fmt.Fprintf(&b, "lat_bucket{code=\"200\",le=%q} %d\n", le, counts[i])
	}
	fmt.Fprintf(&b, "lat_sum{code=\"200\"} 1.5\nlat_count{code=\"200\"} %d\n", counts[3])
	return b.String()
}

// TestScrapes: each case is the pages a scraper sees one after the other, and what the last one says.
func TestScrapes(t *testing.T) {
	const slow, broken, moved = "slow", "broken", "moved"
	long := "lat_bucket{x=\"" + strings.Repeat("y", maxLine) + "\",le=\"1\"} 1\n"
	for _, c := range []struct {
		name  string
		pages []string
		state State
		why   string
		p50   time.Duration
		p99   time.Duration
		count uint64
	}{
		{"one scrape is no window", []string{histogram(0, 50, 100, 100)}, Starting, "second scrape", 0, 0, 0},
		{"two are", []string{histogram(0, 50, 100, 100), histogram(0, 150, 200, 200)}, Good, "", 5500 * time.Microsecond, 9910 * time.Microsecond, 100},
		{"only the difference counts", []string{histogram(0, 0, 1e6, 1e6), histogram(100, 100, 1e6+100, 1e6+100)}, Good, "", 500 * time.Microsecond, 990 * time.Microsecond, 100},
		{"past the last bucket", []string{histogram(0, 0, 0, 0), histogram(0, 0, 90, 100)}, Slow, "past the last bucket", 0, 100 * time.Millisecond, 100},
		{"nobody asked", []string{histogram(1, 2, 3, 3), histogram(1, 2, 3, 3)}, Empty, "no request", 0, 0, 0},
		{"hardly anybody", []string{histogram(1, 2, 3, 3), histogram(1, 2, 9, 9)}, Few, "6 requests", 0, 0, 6},
		{"restarted", []string{histogram(1, 200, 300, 300), histogram(1, 2, 3, 3)}, Reset, "began anew", 0, 0, 0},
		{"after the restart", []string{histogram(1, 200, 300, 300), histogram(1, 2, 3, 3), histogram(1, 102, 103, 103)}, Good, "", 5500 * time.Microsecond, 9910 * time.Microsecond, 100},
		{"another metric", []string{"other 1\n"}, Missing, "no histogram lat", 0, 0, 0},
		{"an empty page", []string{""}, Missing, "no histogram lat", 0, 0, 0},
		{"no answer", []string{histogram(0, 0, 0, 0), slow}, Slow, "no metrics page within", 0, 0, 0},
		{"a gap makes no double window", []string{histogram(0, 0, 0, 0), slow, histogram(0, 100, 100, 100)}, Starting, "second scrape", 0, 0, 0},
		{"an error status", []string{broken}, Failed, "status 500", 0, 0, 0},
		{"elsewhere", []string{moved}, Failed, "redirects are not followed", 0, 0, 0},
		{"nonsense", []string{"lat_bucket{le=\"1\"} many\n"}, Failed, "metrics page", 0, 0, 0},
		{"a count that is none", []string{strings.Replace(histogram(0, 1, 2, 2), "} 1\n", "} NaN\n", 1)}, Failed, "", 0, 0, 0},
		{"a count without end", []string{strings.Replace(histogram(0, 1, 2, 2), "} 1\n", "} +Inf\n", 1)}, Failed, "has a count that is none", 0, 0, 0},
		{"counts that fall", []string{histogram(5, 4, 3, 3)}, Failed, "do not ascend", 0, 0, 0},
		{"a line without end", []string{long}, Failed, "longer than", 0, 0, 0},
		{"a foreign line without end", []string{strings.Replace(long, "lat_", "other_", 1) + histogram(1, 1, 1, 1)}, Starting, "", 0, 0, 0},
		{"endless series", []string{strings.Repeat("lat_bucket{le=\"1\"} 1\n", maxKept/20)}, Failed, "narrow the metric", 0, 0, 0},
		{"a series twice", []string{"lat_bucket{le=\"1\"} 1\nlat_bucket{le=\"1\"} 2\nlat_bucket{le=\"+Inf\"} 2\n"}, Failed, "do not ascend", 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n atomic.Int64 // which page is next; the server's goroutine reads it
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				page := c.pages[n.Load()]
				switch page {
				case slow:
					<-r.Context().Done() // until the client gives up
				case broken:
					w.WriteHeader(http.StatusInternalServerError)
				case moved:
					http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
				default:
					fmt.Fprint(w, page)
				}
			}))
			defer server.Close()
			timeout := 10 * time.Second
			if strings.Contains(strings.Join(c.pages, ","), slow) {
				timeout = 100 * time.Millisecond
			}
			s := newScraper(Prometheus{URL: server.URL, Metric: "lat", Unit: time.Second}, timeout)
			defer s.Close()
			var r Reading
			for i := range c.pages {
				n.Store(int64(i))
				r = s.Read(t.Context())
			}
			if r.State != c.state || !strings.Contains(r.Why, c.why) || r.Count != c.count {
				t.Errorf("%+v, want %s, %q, %d", r, c.state, c.why, c.count)
			}
			if c.p99 > 0 && (r.P99.Round(10*time.Microsecond) != c.p99 || c.p50 > 0 && r.P50.Round(10*time.Microsecond) != c.p50) {
				t.Errorf("p50 %v p99 %v, want %v and %v", r.P50, r.P99, c.p50, c.p99)
			}
		})
	}
}

// The real exporter's page, with labels: two of three series are asked for and added up.
func TestScrapeOfARealExporter(t *testing.T) {
	reg := prometheus.NewRegistry()
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rpc_seconds", Buckets: prometheus.DefBuckets}, []string{"method", "code"})
	reg.MustRegister(h)
	server := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	defer server.Close()
	observe := func(n int, method string, seconds float64) {
		for i := range n {
			h.WithLabelValues(method, fmt.Sprint(200+i%2)).Observe(seconds)
		}
	}
	observe(2, "get", 1)
	observe(2, "put", 1)
	s := newScraper(Prometheus{URL: server.URL, Metric: "rpc_seconds", Labels: map[string]string{"method": "get"}, Unit: time.Second}, 10*time.Second)
	defer s.Close()
	if r := s.Read(t.Context()); r.State != Starting {
		t.Fatalf("%+v", r)
	}
	observe(100, "get", 0.004)
	observe(500, "put", 4)
	r := s.Read(t.Context())
	if r.State != Good || r.Count != 100 || r.P99 <= 0 || r.P99 > 5*time.Millisecond {
		t.Errorf("%+v", r)
	}
}

func TestQuantileIsPrometheusOwn(t *testing.T) {
	b := buckets{[]float64{1, 2, 4, math.Inf(1)}, []float64{10, 30, 40, 40}}
	for q, want := range map[float64]float64{0.25: 1, 0.5: 1.5, 0.75: 2, 0.875: 3, 1: 4} {
		if got, past := b.quantile(q); past || math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v %v, want %v", q, got, past, want)
		}
	}
}

// FuzzDecode: whatever the page holds, what comes out is a histogram, and its quantiles lie within its bounds.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{histogram(1, 2, 3, 4), histogram(4, 3, 2, 1), "lat_bucket{le=\"+Inf\"} 1e300\n", "lat_count 5\n",
		"lat_bucket{le=\"NaN\"} 1\n", "lat_bucket{le=\"-1\"} 1\nlat_bucket{le=\"+Inf\"} 1 # {a=\"b\"} 1\n", "lat_bucket{le=\"1\"} NaN\n",
		"lat_bucket{\"x\\n\"=\"1\",le=\"1\"} 3\n", "{\"lat_bucket\",le=\"1\"} 3\n", "lat_bucket{le=\"1\"} 0.5\nlat_bucket{le=\"+Inf\"} 1.5\n",
		"lat_bucket{le=\".001\"}0\nlat_bucket{le=\".01\"}2\nlat_bucket{le=\"+Inf\"}4\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		series, err := decode(strings.NewReader(string(page)), "lat", nil)
		if (err == nil) != (len(series) > 0) {
			t.Fatalf("%d series, %v", len(series), err)
		}
		for _, b := range series {
			if err := b.check(); err != nil {
				t.Fatal(err)
			}
			d, ok := b.since(b)
			if !ok || d.total() != 0 {
				t.Fatalf("a series differs from itself: %+v", d)
			}
			for _, q := range []float64{0.5, 0.99} {
				if v, _ := b.quantile(q); b.total() > 0 && (math.IsNaN(v) || v > b.bounds[len(b.bounds)-2] && !math.IsInf(v, 0)) {
					t.Fatalf("quantile %v of %+v is %v", q, b, v)
				}
			}
			r := b.reading(time.Second)
			if r.State == Good && (r.P99 <= 0 || r.P50 > r.P99) {
				t.Fatalf("%+v of %+v", r, b)
			}
		}
	})
}
