// Package slo reads how fast one service answers: from a Prometheus histogram the service exports, or from probes of
// our own (TCP connect, HTTP GET, Redis PING or GET).
//
// Promise: a Reading is about one window, from the last Read to this one. What could not be measured is a State
// with a reason, never a zero. Only the address in the configuration is spoken to: IP literals or Unix sockets, no
// name is resolved, no redirect followed, no proxy asked. Lengths that a server sends are bounded before memory is
// taken, and every exchange by Config.Timeout.
// Ownership: a Source belongs to one goroutine; a Watcher owns its Source and may be asked by any. Close waits for the
// goroutines that Open started. mu is held for copying figures only.
// Failure: Open refuses a configuration that cannot work. A server that is down, slow or talks nonsense is a State.
// Non-goals: choosing what to do about it (offload/sensitivity), native histograms, summaries (their quantiles cannot
// be cut into windows), authentication.
package slo

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
)

// State says what a Reading is worth.
type State string

const (
	Good     State = "good"
	Starting State = "starting" // no window yet
	Empty    State = "empty"    // no request in the window
	Few      State = "few"      // fewer than MinSamples requests
	Reset    State = "reset"    // the service's counters began anew
	Missing  State = "missing"  // the metric is not there
	Slow     State = "slow"     // it did not answer within the timeout
	Failed   State = "failed"   // it cannot be reached, or talks nonsense
)

// MinSamples is how many requests a window must have for its p99 to mean something: below it the p99 is the slowest
// request of a handful.
const MinSamples = 30

// Reading is what one window was like.
type Reading struct {
	State   State
	Why     string // one phrase, "" when Good
	P50     time.Duration
	P99     time.Duration // > 0 when Good; when Slow it may be the timeout
	AtLeast bool          // the p99 lies above P99 by an unknown amount: past the last bucket, or timed out
	Count   uint64        // requests in the window
	Failed  uint64        // of our own probes
}

// Source measures one service.
type Source interface {
	// Read returns what was seen since the last Read, and takes at most Config.Timeout.
	Read(context.Context) Reading
	// Close ends it and waits until it has.
	Close() error
}

// Config says where the signal comes from. Exactly one of the first four is set.
type Config struct {
	Prometheus *Prometheus `yaml:"prometheus"` // a histogram that the service exports itself; the best signal
	HTTP       *HTTP       `yaml:"http"`       // GET a page
	Redis      *Redis      `yaml:"redis"`      // PING, or GET a key
	TCP        *TCP        `yaml:"tcp"`        // connect; says nothing about the service's memory, only that it accepts
	// Rate of probes a second, 1 to 200. Default 20, and at least MinSamples a window.
	Rate float64 `yaml:"rate"`
	// Timeout of one exchange, 10ms to 10s. Default 1s.
	Timeout time.Duration `yaml:"timeout"`
}

// Prometheus is a classic histogram scraped over HTTP.
type Prometheus struct {
	URL    string            `yaml:"url"`    // http://127.0.0.1:9100/metrics; the host is an IP address
	Metric string            `yaml:"metric"` // its name without _bucket
	Labels map[string]string `yaml:"labels"` // only series with these; all of them are added up
	Unit   time.Duration     `yaml:"unit"`   // what 1 means in its buckets; default 1s
}

// HTTP is a page whose GET is answered with a status below 400.
type HTTP struct {
	URL string `yaml:"url"`
}

// Redis is a server that speaks RESP.
type Redis struct {
	Address string `yaml:"address"` // 127.0.0.1:6379 or unix:/run/redis.sock
	Key     string `yaml:"key"`     // GET this key; "" sends PING, which touches no data
}

// TCP is a listener.
type TCP struct {
	Address string `yaml:"address"` // 127.0.0.1:5432 or unix:/run/postgresql/.s.PGSQL.5432
}

// Resolved fills what is unset with its default for windows of the given length, and refuses what cannot work.
func (c Config) Resolved(window time.Duration) (Config, error) {
	bad := func(hint, format string, a ...any) (Config, error) {
		return c, errkind.Hint(errkind.New(errkind.Invalid, "slo: "+format, a...), "%s", hint)
	}
	n := 0
	var where error
	if c.Prometheus != nil {
		n++
		p := *c.Prometheus // the caller's stays as it is
		p.Unit = cmp.Or(p.Unit, time.Second)
		c.Prometheus = &p
		if where = checkURL(p.URL); where == nil && !metricName.MatchString(p.Metric) {
			return bad("write the histogram's name without _bucket, for example http_request_duration_seconds", "metric %.80q is not a metric's name", p.Metric)
		}
		if strings.HasSuffix(p.Metric, "_bucket") {
			return bad("leave _bucket out", "metric %.80q is a histogram's series, not its name", p.Metric)
		}
		if p.Unit < time.Nanosecond || p.Unit > time.Hour {
			return bad("1s is the default; write 1ms for a histogram in milliseconds", "unit %v is outside 1ns to 1h", p.Unit)
		}
	}
	if c.HTTP != nil {
		n++
		where = checkURL(c.HTTP.URL)
	}
	if c.Redis != nil {
		n++
		_, _, where = splitAddress(c.Redis.Address)
		if len(c.Redis.Key) > 1024 {
			return bad("choose a key of at most 1 KiB", "redis key of %d bytes", len(c.Redis.Key))
		}
	}
	if c.TCP != nil {
		n++
		_, _, where = splitAddress(c.TCP.Address)
	}
	if n != 1 {
		return bad("give one of prometheus, http, redis and tcp", "%d sources given, one is needed", n)
	}
	if where != nil {
		return c, where
	}
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	if c.Timeout < 10*time.Millisecond || c.Timeout > 10*time.Second {
		return bad("1s is the default", "timeout %v is outside 10ms to 10s", c.Timeout)
	}
	if c.Prometheus == nil {
		least := (MinSamples * 1.5) / window.Seconds() // a window's edges may cut some off
		c.Rate = cmp.Or(c.Rate, min(max(20, least), 200))
		if !(c.Rate >= 1 && c.Rate <= 200) {
			return bad("20 is the default", "rate %v is outside 1 to 200 probes a second", c.Rate)
		}
		if c.Rate < least {
			return bad("leave rate out, or raise it or offload.period", "rate %v gives %.0f probes in a period of %v, fewer than the %d a p99 needs",
				c.Rate, c.Rate*window.Seconds(), window, MinSamples)
		}
	}
	return c, nil
}

var metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]{0,199}$`)

// checkURL allows what a root daemon may be sent to by its own configuration: an address, not a name.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil {
		port, noPort := strconv.ParseUint(u.Port(), 10, 16)
		if _, err = netip.ParseAddr(u.Hostname()); err == nil && (u.Port() == "" || noPort == nil && port > 0) {
			return nil
		}
	}
	return errkind.Hint(errkind.New(errkind.Invalid, "slo: url %.120q is not http:// or https:// with an IP address and a port from 1 to 65535", text),
		"write it like http://127.0.0.1:9100/metrics; names are not resolved, so that nobody else decides where probes go")
}

// splitAddress reads "IP:PORT" or "unix:/PATH".
func splitAddress(s string) (network, address string, err error) {
	if p, ok := strings.CutPrefix(s, "unix:"); ok && strings.HasPrefix(p, "/") && len(p) < 108 {
		return "unix", p, nil
	}
	if a, err := netip.ParseAddrPort(s); err == nil && a.Port() > 0 {
		return "tcp", a.String(), nil
	}
	return "", "", errkind.Hint(errkind.New(errkind.Invalid, "slo: address %.120q is neither IP:PORT nor unix:/PATH", s),
		"write it like 127.0.0.1:6379 or unix:/run/redis.sock; names are not resolved, so that nobody else decides where probes go")
}

// String says where the signal comes from, for people.
func (c Config) String() string {
	switch {
	case c.Prometheus != nil:
		return "prometheus " + c.Prometheus.Metric + " at " + c.Prometheus.URL
	case c.HTTP != nil:
		return "http GET " + c.HTTP.URL
	case c.Redis != nil && c.Redis.Key != "":
		return "redis GET at " + c.Redis.Address
	case c.Redis != nil:
		return "redis PING at " + c.Redis.Address
	case c.TCP != nil:
		return "tcp connect to " + c.TCP.Address
	}
	return "none"
}

// Open makes the source and begins probing, if it is one that probes. window is how far apart Reads will be.
func Open(c Config, window time.Duration) (Source, error) {
	c, err := c.Resolved(window)
	if err != nil {
		return nil, err
	}
	if c.Prometheus != nil {
		return newScraper(*c.Prometheus, c.Timeout), nil
	}
	var one exchange
	switch {
	case c.HTTP != nil:
		one = newPage(c.HTTP.URL)
	case c.Redis != nil:
		one, err = newRedis(*c.Redis)
	default:
		one, err = newConnect(*c.TCP)
	}
	if err != nil {
		return nil, err
	}
	p := newProber(one, time.Duration(float64(time.Second)/c.Rate), c.Timeout)
	p.begin()
	return p, nil
}

// dial connects to an address that splitAddress read.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}
