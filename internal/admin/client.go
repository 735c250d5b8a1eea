package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
)

// maxAnswer bounds what the client reads: about 60,000 cgroups.
const maxAnswer = 64 << 20

// Client asks a daemon. Safe for concurrent use; it needs no closing.
type Client struct {
	socket string
	http   *http.Client
}

// Dial makes a client for the socket. Nothing is opened before the first question, so it cannot fail.
func Dial(socket string) *Client {
	d := net.Dialer{Timeout: 3 * time.Second}
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		},
		DisableCompression:  true, // a local socket: compressing costs more than it saves
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     30 * time.Second,
	}}}
}

// Status asks what the daemon is and does.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.do(ctx, http.MethodGet, "/v1/status", nil, &s)
}

// Cgroups asks for one row for each cgroup.
func (c *Client) Cgroups(ctx context.Context) (cs []Cgroup, err error) {
	return cs, c.do(ctx, http.MethodGet, "/v1/cgroups", nil, &cs)
}

// Decisions asks for the newest decisions, newest first, of one cgroup or of all when cgroup is "".
// The limit is in [1, MaxDecisions]; 0 leaves it to the daemon.
func (c *Client) Decisions(ctx context.Context, cgroup string, limit int) (ds []Decision, err error) {
	q := url.Values{}
	if cgroup != "" {
		q.Set("cgroup", cgroup)
	}
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return ds, c.do(ctx, http.MethodGet, "/v1/decisions", q, &ds)
}

// History asks for the samples, oldest first.
func (c *Client) History(ctx context.Context) (ps []Point, err error) {
	return ps, c.do(ctx, http.MethodGet, "/v1/history", nil, &ps)
}

// Explain asks why one cgroup is treated as it is; errkind.NotFound when the daemon does not know it.
func (c *Client) Explain(ctx context.Context, cgroup string) (ex Explanation, err error) {
	return ex, c.do(ctx, http.MethodGet, "/v1/explain", url.Values{"cgroup": {cgroup}}, &ex)
}

// Reload has the daemon read its config file again; root only.
func (c *Client) Reload(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/v1/reload", nil, nil)
}

func (c *Client) do(ctx context.Context, method, path string, q url.Values, into any) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
	}
	u := url.URL{Scheme: "http", Host: "spillway", Path: path, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return fmt.Errorf("admin: ask %s: %w", path, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return errkind.New(errkind.Unavailable, "admin: read answer to %s: %w", path, err)
	case len(body) > maxAnswer:
		return errkind.New(errkind.Exhausted, "admin: answer to %s is larger than %d bytes", path, maxAnswer)
	case resp.StatusCode/100 != 2:
		return refusal(path, resp.StatusCode, body)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("admin: read answer to %s: %w", path, err)
	}
	return nil
}

// refusal rebuilds the daemon's error: its text, its kind and its hint.
func refusal(path string, status int, body []byte) error {
	var e errorBody
	if err := json.Unmarshal(body, &e); err != nil || e.Error == "" {
		return fmt.Errorf("admin: %s answered %d %s", path, status, http.StatusText(status))
	}
	err := errkind.Wrap(kindOf(e.Kind), errors.New(e.Error))
	if e.Hint != "" {
		err = errkind.Hint(err, "%s", e.Hint)
	}
	return err
}

// unreachable says why no daemon answered. The URL in net/http's error is made up here, so it is taken off.
func (c *Client) unreachable(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return errkind.New(errkind.Unavailable, "admin: ask daemon at %s: %w", c.socket, err)
	case errors.Is(err, fs.ErrPermission):
		return errkind.Hint(errkind.New(errkind.Denied, "admin: open %s: %w", c.socket, err),
			"the socket belongs to root: run as root or with sudo")
	}
	return errkind.Hint(errkind.New(errkind.Unavailable, "admin: no daemon answers at %s: %w", c.socket, err),
		"start it: spillway up")
}
