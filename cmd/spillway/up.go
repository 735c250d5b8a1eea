package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/internal/cli/preflight"
	"github.com/spillway-io/spillway/internal/daemon"
	"github.com/spillway-io/spillway/internal/errkind"
)

// upFlags are the flags of `spillway up`; they win over the file.
type upFlags struct {
	config   string
	roots    []string
	dryRun   bool
	listen   string
	stateDir string
	sysroot  string
	verbose  bool

	socket string // the global flag, "" when it was not given
}

func (a *app) upCommand() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Run the node daemon in the foreground",
		Long: `Run the node daemon. It prints what it found and what it will and will not do, then works until
SIGINT or SIGTERM and puts everything back. SIGHUP reads the configuration again.

Without a configuration and without --root it observes every cgroup and acts only below kubepods.`,
		Example: `  sudo spillway up --dry-run
  sudo spillway up --root /batch --root /system.slice/app.service
  sudo spillway up --config /etc/spillway/spillway.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("socket") {
				f.socket = a.socket
			}
			ctx, stop := daemon.SignalContext(cmd.Context())
			defer stop()
			return a.up(ctx, f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.config, "config", "", "configuration file (default: none, the built-in defaults)")
	fl.StringArrayVar(&f.roots, "root", nil, "offload the cgroups below this `CGROUP`; may be repeated, adds to the file's")
	fl.BoolVar(&f.dryRun, "dry-run", false, "decide and explain, change nothing")
	fl.StringVar(&f.listen, "listen", "", "the dashboard's loopback address, or off (default "+daemon.DefaultListen+")")
	fl.StringVar(&f.stateDir, "state-dir", "", "where journal and lock live (default "+daemon.DefaultStateDir+")")
	fl.BoolVar(&f.verbose, "verbose", false, "log every step")
	addSysroot(c, &f.sysroot)
	return c
}

// settings joins file and flags.
func (f upFlags) settings() (fileConfig, error) {
	cfg, err := loadConfig(f.config)
	if err != nil {
		return cfg, err
	}
	for _, r := range f.roots {
		if !slices.Contains(cfg.Offload.Roots, r) {
			cfg.Offload.Roots = append(cfg.Offload.Roots, r)
		}
	}
	if f.listen != "" {
		cfg.Listen = f.listen
	}
	if f.socket != "" {
		cfg.Socket = f.socket
	}
	if f.stateDir != "" {
		cfg.StateDir = f.stateDir
	}
	// A tree of made-up files has no kernel behind it: acting on it would only pretend.
	cfg.Offload.DryRun = cfg.Offload.DryRun || f.dryRun || f.sysroot != "/"
	return cfg, cfg.check()
}

// up runs the daemon until ctx ends.
func (a *app) up(ctx context.Context, f upFlags) error {
	cfg, err := f.settings()
	if err != nil {
		return err
	}
	if !cfg.Offload.DryRun {
		if err := preflight.MayAct(f.sysroot, os.Geteuid()); err != nil {
			return err
		}
	}
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
	n, err := openNode(ctx, f, cfg, log)
	if err != nil {
		return lookOnly(cfg, unlessAsked(ctx, err))
	}
	defer n.release()
	if err := a.report(n, cfg, f.sysroot); err != nil {
		return errors.Join(err, n.close())
	}
	err = unlessAsked(ctx, n.run(ctx))
	return errors.Join(err, n.close()) // what could not be undone is an error also when we were asked to stop
}

// unlessAsked is err, or nil when it only says that a signal asked us to stop.
func unlessAsked(ctx context.Context, err error) error {
	var s *daemon.Signaled
	if errors.As(err, &s) && errors.Is(context.Cause(ctx), s) {
		return nil
	}
	return err
}

// report is the first thing a person sees: what was found, what will and will not be done.
func (a *app) report(n *node, cfg fileConfig, sysroot string) error {
	s := n.agent.Status()
	return a.print(s, func(w io.Writer) error {
		if err := writeStatus(w, s); err != nil {
			return err
		}
		for _, l := range configWarnings(cfg, sysroot) {
			fmt.Fprintln(w, "warning:", cli.Escape(l))
		}
		_, err := fmt.Fprintf(w, "admin socket %s; watch it with: spillway top%s\n", cli.Escape(cfg.Socket), socketArg(cfg.Socket))
		return err
	})
}

func socketArg(socket string) string {
	if socket == daemon.DefaultSocket {
		return ""
	}
	return " --socket " + cli.Escape(socket)
}

// lookOnly gives a user who only wants to look the advice that fits: places of his own, not root.
func lookOnly(cfg fileConfig, err error) error {
	if cfg.Offload.DryRun && errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		return errkind.Hint(err, "a dry run needs no root, but a place: add --socket FILE --state-dir DIR in a folder of yours")
	}
	return err
}
