package main

import (
	"os"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/internal/cli/top"
	"github.com/spillway-io/spillway/internal/errkind"
)

func (a *app) topCommand() *cobra.Command {
	var (
		once  bool
		count int
		every time.Duration
	)
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch every cgroup live: used, resident, offloaded, pressure, last decision",
		Long: `A live table of every cgroup. Press ? in it for the keys. When standard output is not a
terminal, or with --once, the whole table is printed once.`,
		Example: "  spillway top\n  spillway top --every 5s\n  spillway top --once | sort -k3",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return usage(cmd, errkind.New(errkind.Invalid, "top: --every %v is shorter than 100ms", every))
			}
			if count < 0 || count > 1 {
				return usage(cmd, errkind.New(errkind.Invalid, "top: -n %d: only 1 is possible, it prints the table once", count))
			}
			if a.wantsJSON() {
				cgroups, err := a.client().Cgroups(cmd.Context())
				if err != nil {
					return err
				}
				return a.print(cgroups, nil)
			}
			out, isFile := a.out.(*os.File)
			if once || count == 1 || !isFile || !term.IsTerminal(out.Fd()) {
				return top.Once(cmd.Context(), a.client(), a.out)
			}
			return top.Run(cmd.Context(), top.Config{Client: a.client(), Every: every, In: a.in, Out: a.out, Env: os.Environ()})
		},
	}
	c.Flags().BoolVar(&once, "once", false, "print the table once and exit")
	c.Flags().IntVarP(&count, "count", "n", 0, "1: the same as --once")
	c.Flags().DurationVar(&every, "every", time.Second, "time between two reads")
	return c
}
