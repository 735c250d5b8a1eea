package slo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spillway-io/spillway/offload/demo/load"
)

// connect opens a connection and closes it.
type connect struct{ network, address string }

func newConnect(c TCP) (*connect, error) {
	network, address, err := splitAddress(c.Address)
	return &connect{network, address}, err
}

func (c *connect) do(ctx context.Context) error {
	conn, err := dial(ctx, c.network, c.address)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return conn.Close()
}

func (*connect) close() {}

// most of a page is read, so that the connection can be used again; the rest costs a connection.
const most = 64 << 10

// page is one HTTP page.
type page struct {
	client *http.Client
	url    string
}

func newPage(url string) *page { return &page{client: newClient(), url: url} }

// newClient speaks to the address it is given and to nothing else.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DisableCompression: true, MaxResponseHeaderBytes: most, MaxIdleConns: 1, MaxConnsPerHost: 1,
			DialContext: dial, Proxy: nil,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (p *page) do(ctx context.Context) error {
	resp, err := get(ctx, p.client, p.url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, io.LimitReader(resp.Body, most)); err != nil {
		return fmt.Errorf("http: read answer: %w", err)
	}
	return nil
}

func (p *page) close() { p.client.CloseIdleConnections() }

// get answers with a response of status 2xx or 3xx.
func get(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	req.Header.Set("User-Agent", "spillway")
	req.Header.Set("Accept", "text/plain;version=0.0.4, */*;q=0.1")
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		resp.Body.Close()
		return nil, fmt.Errorf("http: answered with status %d", resp.StatusCode)
	}
	return resp, nil
}

// redis keeps one connection. After any error it is closed: a late answer must not be taken for the next one.
type redis struct {
	network, address string
	command          []byte
	conn             net.Conn
	dec              *load.Decoder
}

func newRedis(c Redis) (*redis, error) {
	network, address, err := splitAddress(c.Address)
	command := load.AppendCommand(nil, []byte("PING"))
	if c.Key != "" {
		command = load.AppendCommand(nil, []byte("GET"), []byte(c.Key))
	}
	return &redis{network: network, address: address, command: command}, err
}

func (r *redis) do(ctx context.Context) error {
	err := r.ask(ctx)
	if err != nil {
		r.close()
	}
	return err
}

func (r *redis) ask(ctx context.Context) error {
	if r.conn == nil {
		conn, err := dial(ctx, r.network, r.address)
		if err != nil {
			return fmt.Errorf("redis: connect: %w", err)
		}
		r.conn, r.dec = conn, load.NewDecoder(conn)
	}
	conn := r.conn
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	err := r.converse()
	if !stop() && err == nil { // the deadline in the past may come any moment and would hit the next exchange
		r.close()
	}
	return err
}

func (r *redis) converse() error {
	if _, err := r.conn.Write(r.command); err != nil {
		return fmt.Errorf("redis: send: %w", err)
	}
	reply, err := r.dec.Reply()
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("redis: closed the connection")
	case err != nil:
		return fmt.Errorf("redis: receive: %w", err)
	case reply.Kind == load.Failure:
		return fmt.Errorf("redis: answered %.100q", reply.Data)
	}
	return nil
}

func (r *redis) close() {
	if r.conn != nil {
		r.conn.Close()
		r.conn, r.dec = nil, nil
	}
}
