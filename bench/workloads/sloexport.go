package workloads

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spillway-io/spillway/bench/workloads/client"
	"github.com/spillway-io/spillway/bench/workloads/drive"
)

// exportMetric is the histogram a generator exports of what it measures, one series a target.
const exportMetric = "bench_request_duration_seconds"

// exportTask is a generator that also exports its latencies as a service would. A second JSON value on its input ends
// the exporting and nothing else.
type exportTask struct {
	Load   drive.Spec `json:"load"`
	Listen string     `json:"listen"` // IP:port
}

// exportMain is the body of partExport. Its seconds are to be read with load.Follow.
func exportMain(ctx context.Context, in io.Reader, out io.Writer) error {
	var task exportTask
	ctx, rest, cancel, err := drive.Begin(ctx, in, &task)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer cancel()
	ln, err := net.Listen("tcp", task.Listen)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	handler, observe := newExport(task.Load.Targets)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	defer func() { server.Close(); <-served }()
	go func() {
		dec := json.NewDecoder(rest)
		var word json.RawMessage
		if dec.Decode(&word) == nil {
			server.Close()
			io.Copy(io.Discard, io.MultiReader(dec.Buffered(), rest))
		}
		cancel()
	}()
	task.Load.Observe = observe
	return drive.Report(ctx, cancel, task.Load, out, client.Dial)
}

// newExport makes the metrics page, and what counts a request into it. A bucket is a tenth wider than the one before,
// from 20 µs to 2 s, and the reader interpolates within it: far finer than the p99 of a second's requests scatters.
func newExport(targets []drive.Target) (http.Handler, func(target int, took time.Duration)) {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: exportMetric, Help: "From when a request was due to its answer.", Buckets: prometheus.ExponentialBuckets(20e-6, 1.1, 121),
	}, []string{"twin"})
	var series []prometheus.Observer
	for _, t := range targets {
		series = append(series, vec.WithLabelValues(t.Name))
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(vec)
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{}), func(i int, took time.Duration) { series[i].Observe(took.Seconds()) }
}

// freePort is a loopback address that nobody listens on now.
func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}
