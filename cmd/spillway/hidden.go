package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/internal/daemon"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/demo"
	"github.com/spillway-io/spillway/offload/tier"
)

// The hidden commands are the bodies of processes that Spillway starts itself; they talk JSON on their pipes.

func (a *app) workerCommand() *cobra.Command {
	var stateDir string
	c := &cobra.Command{
		Use:     "worker",
		Short:   "The process that changes the machine and undoes it (started by spillway up)",
		Example: "  spillway worker --state-dir /var/lib/spillway",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewTextHandler(a.err, nil))
			return worker.Main(cmd.Context(), a.in, a.out, worker.MainConfig{StateDir: stateDir, Log: log})
		},
	}
	c.Flags().StringVar(&stateDir, "state-dir", daemon.DefaultStateDir, "where the journal is")
	return c
}

func (a *app) canaryCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "canary",
		Short:   "The process whose pages measure the tiers (started by spillway up)",
		Example: "  spillway canary",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return tier.CanaryMain(cmd.Context(), a.in, a.out)
		},
	}
}

func (a *app) demoPartCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "demo-part NAME",
		Short:   "A process of the demo (started by spillway demo)",
		Example: "  spillway demo-part kv",
		Hidden:  true,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return demo.Part(cmd.Context(), args[0], a.in, a.out)
		},
	}
}
