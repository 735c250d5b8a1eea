package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
)

// FileSize is the size of every file of the static tree, in bytes: a picture or a script.
const FileSize = 32 << 10

// FilePath is where file number i lies below the tree's root: 256 to a folder.
func FilePath(i int) string { return fmt.Sprintf("d%03d/f%05d.txt", i/256, i) }

// Web is one keep-alive connection to a web server.
type Web struct {
	http *http.Client
	buf  []byte
}

// NewWeb dials socket at the first request.
func NewWeb(socket string) *Web {
	var d net.Dialer
	return &Web{buf: make([]byte, 64<<10), http: &http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) },
		DisableCompression:  true, // the tree is served as it is
		MaxConnsPerHost:     1,
		MaxIdleConnsPerHost: 1,
	}}}
}

// Do gets one file.
func (w *Web) Do(ctx context.Context, key int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://bench/"+FilePath(key), nil)
	if err != nil {
		return fmt.Errorf("client: get file %d: %w", key, err)
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return fmt.Errorf("client: get file %d: %w", key, err)
	}
	defer resp.Body.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, w.buf)
	if err == nil && (resp.StatusCode != http.StatusOK || n != FileSize) {
		err = fmt.Errorf("status %d, %d bytes", resp.StatusCode, n)
	}
	if err != nil {
		return fmt.Errorf("client: get file %d: %w", key, err)
	}
	return nil
}

// Read gets files 0 to n-1 once each.
func (w *Web) Read(ctx context.Context, n int) error { return each(ctx, w, n) }

// Close ends the connection.
func (w *Web) Close() error {
	w.http.CloseIdleConnections()
	return nil
}
