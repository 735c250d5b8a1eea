package main

import (
	"errors"
	"os"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/internal/daemon"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload/demo"
)

// demoStallsCommand is what `make bench-offload GOAL=G2` runs.
func (a *app) demoStallsCommand() *cobra.Command {
	var (
		results string
		quick   bool
	)
	c := &cobra.Command{
		Use:     "demo-stalls",
		Short:   "Inject refault stalls under both laws and compare them at rest (half an hour, quick about fifteen minutes)",
		Example: "  spillway demo-stalls --quick --results stalls.json",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			ctx, stop := daemon.SignalContext(cmd.Context())
			defer stop()
			return demo.Stalls(ctx, demo.Config{Exe: exe, Out: a.out, In: a.in, JSONPath: results}, quick)
		},
	}
	c.Flags().StringVar(&results, "results", "", "write the numbers as JSON to this file")
	c.Flags().BoolVar(&quick, "quick", false, "one block of each law instead of three")
	return c
}

func (a *app) demoCommand() *cobra.Command {
	var (
		results string
		redis   string
		listen  string
		keep    bool
	)
	run := func(cmd *cobra.Command, _ []string) error {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		ctx, stop := daemon.SignalContext(cmd.Context())
		defer stop()
		out, isFile := a.out.(*os.File)
		err = demo.Run(ctx, demo.Config{
			Exe: exe, RedisServer: redis, Out: a.out, In: a.in, JSONPath: results, Listen: listen, Keep: keep,
			Terminal: isFile && term.IsTerminal(out.Fd()),
		})
		var s *daemon.Signaled
		if errors.As(err, &s) {
			return errkind.New(errkind.Internal, "demo: %v before its end; nothing was left behind", s)
		}
		return err
	}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the main job on this machine and measure it (root, about four minutes)",
		Long: `Run two key-value servers under the same load, offload one of them, then the other, and print
what was saved and what it cost. Everything it makes is removed at the end, however it ends.`,
		Example: "  sudo spillway demo\n  sudo spillway demo offload --results demo.json",
		Args:    cobra.NoArgs,
		RunE:    run,
	}
	sub := &cobra.Command{
		Use:     "offload",
		Short:   "The demo of offloading, the only one so far",
		Example: "  sudo spillway demo offload --results demo.json",
		Args:    cobra.NoArgs,
		RunE:    run,
	}
	for _, f := range []*cobra.Command{c, sub} {
		f.Flags().StringVar(&results, "results", "", "write the numbers as JSON to this file")
		f.Flags().StringVar(&redis, "redis-server", "", "the redis-server to use (default: the one in PATH, else the built-in server)")
		f.Flags().StringVar(&listen, "listen", "", "the dashboard's address (default "+daemon.DefaultListen+", or any free port)")
		f.Flags().BoolVar(&keep, "keep", false, "keep everything running at the end until a signal")
	}
	c.AddCommand(sub)
	return c
}
