package slo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scraper reads one histogram from a metrics page.
type scraper struct {
	cfg     Prometheus
	timeout time.Duration
	client  *http.Client
	before  map[string]buckets // by labels; nil: no scrape yet
}

func newScraper(cfg Prometheus, timeout time.Duration) *scraper {
	return &scraper{cfg: cfg, timeout: timeout, client: newClient()}
}

const (
	// maxPage is how much of a metrics page is read. Large exporters have a few MiB.
	maxPage = 32 << 20
	// maxKept is how much of it may be about our metric: some 2,500 buckets. Only this much is held in memory.
	maxKept = 256 << 10
	// maxLine is the longest line about our metric.
	maxLine = 16 << 10
)

var errMissing = errors.New("the metric is not there")

// Read scrapes once and returns what was added since the last scrape that worked.
func (s *scraper) Read(ctx context.Context) Reading {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	now, err := s.scrape(ctx)
	switch {
	case errors.Is(err, errMissing):
		s.before = nil
		return Reading{State: Missing, Why: fmt.Sprintf("no histogram %s with these labels on the page", s.cfg.Metric)}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		s.before = nil // two windows would be mixed into one
		return Reading{State: Slow, Why: fmt.Sprintf("no metrics page within %v", s.timeout)}
	case err != nil:
		s.before = nil
		return Reading{State: Failed, Why: fmt.Sprintf("%.200s", err)}
	}
	before := s.before
	s.before = now
	return window(now, before, s.cfg.Unit)
}

// window compares two scrapes, series by series.
func window(now, before map[string]buckets, unit time.Duration) Reading {
	if before == nil {
		return Reading{State: Starting, Why: "the second scrape makes the first window"}
	}
	var sum buckets
	for labels, b := range now {
		prev, known := before[labels]
		if !known {
			continue // what it counted before we saw it is not of this window
		}
		d, ok := b.since(prev)
		if !ok {
			return Reading{State: Reset, Why: "the service's counters began anew"}
		}
		var err error
		if sum, err = sum.plus(d); err != nil {
			return Reading{State: Failed, Why: err.Error()}
		}
	}
	if sum.bounds == nil {
		return Reading{State: Reset, Why: "no series is the same as in the last scrape"}
	}
	return sum.reading(unit)
}

func (s *scraper) scrape(ctx context.Context) (map[string]buckets, error) {
	resp, err := get(ctx, s.client, s.cfg.URL)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("http: answered with status %d, which is no metrics page; redirects are not followed", resp.StatusCode)
	}
	return decode(resp.Body, s.cfg.Metric, s.cfg.Labels)
}

func (s *scraper) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// decode reads a metrics page and returns the series of one histogram whose labels include want, by their labels.
func decode(page io.Reader, metric string, want map[string]string) (map[string]buckets, error) {
	kept, err := keep(page, metric)
	if err != nil {
		return nil, err
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(kept))
	if err != nil {
		return nil, fmt.Errorf("metrics page: %w", err)
	}
	out := map[string]buckets{}
	for _, m := range families[metric].GetMetric() {
		if m.GetHistogram() == nil || !has(m.GetLabel(), want) {
			continue
		}
		b := fromProto(m.GetHistogram())
		if err := b.check(); err != nil {
			return nil, fmt.Errorf("metrics page: %w", err)
		}
		name := seriesName(m.GetLabel())
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("metrics page: a series is there twice")
		}
		out[name] = b
	}
	if len(out) == 0 {
		return nil, errMissing
	}
	return out, nil
}

// keep reads the page line by line and keeps the samples of one histogram, so that a page of any size costs no more
// memory than they do. The parser below would build an object of some hundred bytes for every line.
func keep(page io.Reader, metric string) ([]byte, error) {
	kept := []byte("# TYPE " + metric + " histogram\n")
	limited := &io.LimitedReader{R: page, N: maxPage}
	r := bufio.NewReaderSize(limited, maxLine)
	names := [][]byte{[]byte(metric + "_bucket"), []byte(metric + "_count"), []byte(metric + "_sum")}
	for {
		line, err := r.ReadSlice('\n')
		ours := slices.ContainsFunc(names, func(n []byte) bool {
			rest, ok := bytes.CutPrefix(line, n)
			return ok && len(rest) > 0 && (rest[0] == '{' || rest[0] == ' ' || rest[0] == '\t')
		})
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && ours:
			return nil, fmt.Errorf("metrics page: a line of %s is longer than %d bytes", metric, maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			for errors.Is(err, bufio.ErrBufferFull) { // the rest of a foreign line
				_, err = r.ReadSlice('\n')
			}
		case ours:
			if len(kept)+len(line)+1 > maxKept {
				return nil, fmt.Errorf("metrics page: more than %d KiB of %s; narrow the metric", maxKept>>10, metric)
			}
			kept = append(kept, line...)
		}
		switch {
		case errors.Is(err, io.EOF) && limited.N <= 0:
			return nil, fmt.Errorf("metrics page: longer than %d MiB", maxPage>>20)
		case errors.Is(err, io.EOF):
			return append(kept, '\n'), nil
		case err != nil:
			return nil, fmt.Errorf("metrics page: %w", err)
		}
	}
}

func has(labels []*dto.LabelPair, want map[string]string) bool {
	n := 0
	for _, l := range labels {
		if v, asked := want[l.GetName()]; asked && v == l.GetValue() {
			n++
		}
	}
	return n == len(want)
}

// seriesName tells a histogram's series apart.
func seriesName(labels []*dto.LabelPair) string {
	parts := make([]string, 0, len(labels))
	for _, l := range labels {
		parts = append(parts, fmt.Sprintf("%q=%q", l.GetName(), l.GetValue()))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func fromProto(h *dto.Histogram) (b buckets) {
	for _, x := range h.GetBucket() {
		c := float64(x.GetCumulativeCount())
		if f := x.GetCumulativeCountFloat(); f != 0 {
			c = f
		}
		b.bounds, b.counts = append(b.bounds, x.GetUpperBound()), append(b.counts, c)
	}
	if n := len(b.bounds); n > 0 && !math.IsInf(b.bounds[n-1], 1) { // the count is what +Inf would say
		c := float64(h.GetSampleCount())
		if f := h.GetSampleCountFloat(); f != 0 {
			c = f
		}
		b.bounds, b.counts = append(b.bounds, math.Inf(1)), append(b.counts, c)
	}
	return b
}
