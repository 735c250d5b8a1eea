package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/internal/daemon"
	"github.com/spillway-io/spillway/internal/errkind"
)

// app carries the streams and the global flags to every command.
type app struct {
	in       io.Reader
	out, err io.Writer

	output cli.Output
	json   bool
	socket string
}

// client is the daemon's API at --socket.
func (a *app) client() *admin.Client { return admin.Dial(a.socket) }

// print answers in the format that was asked for.
func (a *app) print(v any, table func(io.Writer) error) error {
	if a.json {
		return cli.OutJSON.Print(a.out, v, table)
	}
	return a.output.Print(a.out, v, table)
}

// wantsJSON reports whether the answer is to be JSON.
func (a *app) wantsJSON() bool { return a.json || a.output.JSON() }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "spillway",
		Short: "Move cold memory to cheaper tiers, and take it back before anybody notices",
		Long: `Spillway takes memory that nobody touches out of cgroups, keeps it compressed or on swap,
and lets it come back before the service notices.`,
		Example: `  sudo spillway up --dry-run          look at this machine, change nothing
  sudo spillway up --root /batch      offload the cgroups below /batch
  spillway top                        watch it`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"}) // `spillway COMMAND --help` is the one way
	flags := root.PersistentFlags()
	flags.VarP(&a.output, "output", "o", "format of the answer")
	flags.BoolVar(&a.json, "json", false, "the same as -o json")
	flags.StringVar(&a.socket, "socket", daemon.DefaultSocket, "the daemon's admin socket")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(cmd, err)
	})
	root.AddCommand(a.commands()...)
	for _, c := range root.Commands() {
		checkArgs(c)
	}
	return root
}

// usage makes an error of kind Invalid (exit code 2) that says where the help is.
func usage(cmd *cobra.Command, err error) error {
	return errkind.Hint(errkind.Wrap(errkind.Invalid, err), "see %s --help", cmd.CommandPath())
}

func unknownCommand(cmd *cobra.Command, name string) error {
	err := errkind.New(errkind.Invalid, "unknown command %q after %q", name, cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if s := cmd.SuggestionsFor(name); len(s) > 0 {
		return errkind.Hint(err, "did you mean %s?", strings.Join(s, " or "))
	}
	return errkind.Hint(err, "see %s --help", cmd.CommandPath())
}

// checkArgs gives wrong arguments exit code 2 for c and what is below it, and makes a bare group print its help.
func checkArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usage(cmd, err)
			}
			return nil
		}
	}
	if c.RunE == nil && c.HasSubCommands() {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		}
	}
	for _, sub := range c.Commands() {
		checkArgs(sub)
	}
}
