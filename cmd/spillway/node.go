package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/daemon"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload"
	"github.com/spillway-io/spillway/web"
)

// closePatience is how long undoing may take at the end: swapoff reads everything back. The unit's
// TimeoutStopSec is longer.
const closePatience = 90 * time.Second

// node is one running daemon: lock, listeners, worker and agent.
type node struct {
	log      *slog.Logger
	registry *prometheus.Registry
	agent    *offload.Agent
	worker   *worker.Client // nil in a dry run
	socket   net.Listener
	web      net.Listener // nil when off
	unlock   func()
}

// openNode opens everything, or nothing. Listeners come before the worker: an address that is taken must not
// cost a start of the worker.
func openNode(ctx context.Context, f upFlags, cfg fileConfig, log *slog.Logger) (n *node, err error) {
	n = &node{log: log, registry: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
			n.release()
			n = nil
		}
	}()
	if n.unlock, err = daemon.Lock(cfg.StateDir); err != nil {
		return n, err
	}
	if n.socket, err = admin.Listen(cfg.Socket); err != nil {
		return n, err
	}
	if n.web, err = cfg.ListenWeb(); err != nil {
		return n, err
	}
	b := buildInfo()
	deps := offload.Deps{
		Root: f.sysroot, Registry: n.registry, Version: b.Version, Commit: b.Commit, StateDir: cfg.StateDir,
		Reload: func() (offload.Config, error) {
			fresh, err := f.settings()
			if err == nil && fresh.Config != cfg.Config {
				err = errkind.Hint(errkind.New(errkind.Invalid, "up: reload: listen, socket or state_dir changed"),
					"these are fixed at start: restart the daemon to apply them")
			}
			return fresh.Offload, err
		},
	}
	if n.web != nil {
		deps.Dashboard = web.URL(n.web)
	}
	if !cfg.Offload.DryRun {
		if n.worker, err = worker.Start(ctx, worker.Config{StateDir: cfg.StateDir, Log: log}); err != nil {
			return n, err
		}
		deps.Worker = n.worker
	}
	cfg.Offload.Log = log
	if n.agent, err = offload.New(cfg.Offload, deps); err != nil {
		return n, err
	}
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return n, n.agent.Prepare(ctx)
}

// run serves and works until ctx ends or a part fails, and returns the cause.
func (n *node) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	serve, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	part := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				cancel(err)
			}
		})
	}
	part(func() error { return admin.NewServer(n.agent, n.registry, n.log).Serve(serve, n.socket) })
	if n.web != nil {
		h := web.Handler(n.agent, web.Options{Metrics: admin.Metrics(n.registry), Version: buildInfo().Version, Log: n.log})
		part(func() error { return admin.RunHTTP(serve, web.Server(h, n.log), n.web) })
	}
	part(func() error { n.reloads(ctx); return nil })
	part(func() error { return daemon.RunWatchdog(ctx, n.alive) })
	n.tell(daemon.Ready + "\n" + daemon.Status("offloading"))

	err := n.agent.Run(ctx)
	n.tell(daemon.Stopping)
	cancel(err)
	stopServing() // after the agent: the last answers still come from a live source
	wg.Wait()
	return err
}

// reloads reads the configuration again on every SIGHUP.
func (n *node) reloads(ctx context.Context) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, sys.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		n.tell(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.Reloading, sys.MonotonicNow().Microseconds()))
		if err := n.agent.Reload(ctx); err != nil {
			n.log.Error("configuration not reloaded; the old one stays in force", "error", err, "hint", errkind.HintOf(err))
		}
		n.tell(daemon.Ready)
	}
}

// alive says whether the agent's loop still turns: its history grows every period.
func (n *node) alive() bool {
	s, points := n.agent.Status(), n.agent.History()
	last := s.Started
	if len(points) > 0 {
		last = points[len(points)-1].Time
	}
	return time.Since(last) < max(3*time.Duration(s.Period), 30*time.Second)
}

func (n *node) tell(state string) {
	if err := daemon.Notify(state); err != nil {
		n.log.Warn("service manager not told", "state", state, "error", err)
	}
}

// close undoes what the worker changed and closes the listeners.
func (n *node) close() error {
	var err error
	if n.worker != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		err = n.worker.Close(ctx)
	}
	for _, ln := range []net.Listener{n.socket, n.web} {
		if ln != nil {
			ln.Close() // a second time after Serve; harmless
		}
	}
	return err
}

// release gives the lock back, last of all.
func (n *node) release() {
	if n.unlock != nil {
		n.unlock()
	}
}
