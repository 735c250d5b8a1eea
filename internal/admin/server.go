package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// Server answers the API. NewServer starts nothing; Serve runs until its context ends.
type Server struct {
	src  Source
	log  *slog.Logger
	mux  *http.ServeMux
	peer func(net.Conn) (uid uint32, err error) // who is on the other end; a test replaces it
}

// NewServer makes a server over src and reg. A nil reg gives a server without /metrics; a nil log discards.
func NewServer(src Source, reg prometheus.Gatherer, log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{src: src, log: log, mux: http.NewServeMux(), peer: peerUID}
	s.mux.Handle("/", Reads(src, log))
	s.mux.Handle("/v1/reload", only(s.reload, http.MethodPost))
	if reg != nil {
		s.mux.Handle("/metrics", Metrics(reg))
	}
	return s
}

// Metrics is GET /metrics over reg. It answers with an error, not with half of the metrics, when one of them
// cannot be collected.
func Metrics(reg prometheus.Gatherer) http.Handler {
	h := promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
	return get(func(w http.ResponseWriter, r *http.Request) error {
		if _, err := params(r); err != nil {
			return err
		}
		h.ServeHTTP(w, r)
		return nil
	})
}

// ServeHTTP answers one request; who asks is known only for connections that Serve accepted, all others may read.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

type peerKey struct{}

// peerInfo is what the kernel says about the other end of a connection.
type peerInfo struct {
	uid uint32
	err error
}

// Serve accepts on ln until ctx ends, then lets running answers finish for at most 2 s. It closes ln and
// returns nil after ctx ended, else why it stopped. The caller waits for it before it tears the Source down.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler: s,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			uid, err := s.peer(c)
			return context.WithValue(ctx, peerKey{}, peerInfo{uid, err})
		},
		// A request is a line and a few headers; the largest is a 4 KiB path with every byte escaped.
		MaxHeaderBytes:    32 << 10,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	return RunHTTP(ctx, srv, ln)
}

// RunHTTP serves srv on ln until ctx ends, then lets running answers finish for at most 2 s. It returns nil
// after ctx ended. The dashboard's listener runs the same way.
func RunHTTP(ctx context.Context, srv *http.Server, ln net.Listener) error {
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		ln.Close()
		return errkind.New(errkind.Unavailable, "admin: serve on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		srv.Close() // cut the ones that do not finish
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return errkind.New(errkind.Unavailable, "admin: serve on %s: %w", ln.Addr(), err)
	}
	return nil
}

func (s *Server) reload(w http.ResponseWriter, r *http.Request) error {
	if _, err := params(r); err != nil {
		return err
	}
	p, known := r.Context().Value(peerKey{}).(peerInfo)
	if !known || p.err != nil || p.uid != 0 {
		s.log.Warn("admin refused a reload", "uid", p.uid, "peer_known", known, "error", p.err)
		return errkind.Hint(errkind.New(errkind.Denied, "admin: reload: only root may change the daemon"), "run it as root or with sudo")
	}
	if err := s.src.Reload(r.Context()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// peerUID asks the kernel who opened the connection; the answer cannot be forged by the peer.
func peerUID(c net.Conn) (uint32, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, errkind.New(errkind.Denied, "admin: peer of a %T is not known", c)
	}
	uid, _, _, err := sys.PeerCred(u)
	return uid, err
}
