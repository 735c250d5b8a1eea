package slo

import (
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
)

func TestResolved(t *testing.T) {
	prom := func(url, metric string) Config { return Config{Prometheus: &Prometheus{URL: url, Metric: metric}} }
	for _, c := range []struct {
		name string
		in   Config
		err  string // part of it; "" for none
	}{
		{"a histogram", prom("http://127.0.0.1:9100/metrics", "http_seconds"), ""},
		{"IPv6", prom("http://[::1]:9100/metrics", "a:b"), ""},
		{"a page", Config{HTTP: &HTTP{"https://10.0.0.7/healthz"}}, ""},
		{"redis on a socket", Config{Redis: &Redis{Address: "unix:/run/redis.sock", Key: "a\r\nb"}}, ""},
		{"tcp", Config{TCP: &TCP{"127.0.0.1:5432"}, Rate: 50, Timeout: 200 * time.Millisecond}, ""},
		{"nothing", Config{}, "0 sources given"},
		{"two", Config{TCP: &TCP{"127.0.0.1:1"}, HTTP: &HTTP{"http://127.0.0.1/"}}, "2 sources given"},
		{"a name", prom("http://localhost:9100/metrics", "x"), "with an IP address"},
		{"another scheme", prom("file:///etc/shadow", "x"), "with an IP address"},
		{"a password", Config{HTTP: &HTTP{"http://u:p@127.0.0.1/"}}, "with an IP address"},
		{"no metric", prom("http://127.0.0.1/", ""), "is not a metric's name"},
		{"a metric with a line break", prom("http://127.0.0.1/", "a\nb"), "is not a metric's name"},
		{"a relative socket", Config{TCP: &TCP{"unix:run/x"}}, "neither IP:PORT nor unix:/PATH"},
		{"a named host", Config{Redis: &Redis{Address: "redis:6379"}}, "neither IP:PORT nor unix:/PATH"},
		{"port 0", Config{TCP: &TCP{"127.0.0.1:0"}}, "neither IP:PORT nor unix:/PATH"},
		{"a page at port 0", Config{HTTP: &HTTP{"http://127.0.0.1:0/"}}, "a port from 1 to 65535"},
		{"a page at a port past the last", prom("http://127.0.0.1:99999/", "x"), "a port from 1 to 65535"},
		{"a series for a name", prom("http://127.0.0.1/", "http_seconds_bucket"), "not its name"},
		{"too few probes for a p99", Config{TCP: &TCP{"127.0.0.1:1"}, Rate: 2}, "fewer than the 30"},
		{"a flood", Config{TCP: &TCP{"127.0.0.1:1"}, Rate: 1e6}, "outside 1 to 200"},
		{"timeout", Config{TCP: &TCP{"127.0.0.1:1"}, Timeout: time.Hour}, "timeout 1h0m0s is outside"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.in.Resolved(6 * time.Second)
			switch {
			case c.err == "" && err != nil:
				t.Fatal(err)
			case c.err == "":
				if got.Timeout == 0 || got.Prometheus == nil && got.Rate < 7.5 || got.String() == "none" {
					t.Errorf("%+v: %v", got, got)
				}
			case err == nil || !strings.Contains(err.Error(), c.err):
				t.Fatalf("error %v, want %q", err, c.err)
			case errkind.Of(err) != errkind.Invalid || errkind.HintOf(err) == "":
				t.Errorf("kind %v, hint %q", errkind.Of(err), errkind.HintOf(err))
			}
		})
	}
	one, err := Config{TCP: &TCP{"127.0.0.1:1"}}.Resolved(time.Second)
	if err != nil || one.Rate != 1.5*MinSamples {
		t.Errorf("at a period of 1s the rate is %v, %v", one.Rate, err)
	}
}
