// Package client speaks the protocols of the servers that the workloads put under load: memcached's text
// protocol, Redis', HTTP and PostgreSQL's, each over a unix socket.
//
// Promise: an answer that is not exactly the value that was stored, as far as its size tells, is an error.
// Ownership: a client belongs to one goroutine, which closes it. Failure: a broken stream ends the client; it
// is not dialled again. Non-goals: pools, retries, anything a server can do beyond what the workloads need.
package client

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/offload/demo/load"
)

// The kinds of targets.
const (
	Memcached = "memcached"
	Redis     = "redis"
	HTTP      = "http"
	Postgres  = "postgres"
)

// Dial connects to a target of any kind. It is a drive.Dial.
func Dial(ctx context.Context, t drive.Target) (drive.Client, error) {
	switch t.Kind {
	case Memcached:
		return stream(ctx, t, func(c net.Conn) drive.Client { return NewMemcache(c) })
	case Redis:
		return stream(ctx, t, func(c net.Conn) drive.Client { return NewRESP(c) })
	case HTTP:
		return NewWeb(t.Addr), nil
	case Postgres:
		return DialSQL(ctx, t.Addr)
	}
	return nil, fmt.Errorf("client: no kind is called %q", t.Kind)
}

func stream(ctx context.Context, t drive.Target, make func(net.Conn) drive.Client) (drive.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c, err := load.Dialer{Network: "unix", Addr: t.Addr}.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return make(c), nil
}

// bounded ends whatever the connection is blocked in when ctx ends.
func bounded(ctx context.Context, c net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
}
