package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/internal/daemon"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/worker"
)

func (a *app) restoreCommand() *cobra.Command {
	var (
		stateDir string
		config   string
		dryRun   bool
	)
	c := &cobra.Command{
		Use:   "restore",
		Short: "Undo what a daemon that died left behind",
		Long: `Undo what the journal in the state directory says is still changed: limits, settings, swap
files, zram, cgroups. A value that somebody else changed since is left alone and named. Running
it twice, or with nothing to do, is harmless. While a worker runs it refuses.`,
		Example: "  sudo spillway restore --dry-run\n  sudo spillway restore",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("state-dir") && stateDir == "" {
				return usage(cmd, errkind.New(errkind.Invalid, "restore: --state-dir is empty"))
			}
			var unreadable error
			if !cmd.Flags().Changed("state-dir") && config != "" {
				// A file that was broken after the daemon's start must not keep its changes from being undone:
				// the default directory is looked at all the same, and the error is the result.
				cfg, err := loadConfig(config)
				if err == nil && cfg.StateDir != "" {
					stateDir = cfg.StateDir
				}
				if err != nil {
					unreadable = fmt.Errorf("restore: looked in %s, because the configuration does not say where else: %w", stateDir, err)
				}
			}
			outcomes, err := worker.Restore(cmd.Context(), stateDir, dryRun, slog.New(slog.NewTextHandler(a.err, nil)))
			if err != nil {
				return errors.Join(unreadable, err)
			}
			failed := []error{unreadable}
			type line struct {
				What   string `json:"what"`
				Old    string `json:"old"`
				Now    string `json:"now"`
				Result string `json:"result"`
				Error  string `json:"error,omitempty"`
			}
			lines := make([]line, 0, len(outcomes))
			for _, o := range outcomes {
				l := line{What: o.What, Old: o.Old, Now: o.Now, Result: o.Result}
				if o.Err != nil {
					l.Error = o.Err.Error()
					failed = append(failed, o.Err)
				}
				lines = append(lines, l)
			}
			perr := a.print(lines, func(w io.Writer) error {
				if len(lines) == 0 {
					_, err := fmt.Fprintln(w, "nothing to restore")
					return err
				}
				t := cli.NewTable("WHAT", "OLD", "NOW", "RESULT")
				for _, l := range lines {
					result := l.Result
					if l.Error != "" {
						result += ": " + l.Error
					}
					t.Row(l.What, l.Old, l.Now, result)
				}
				return t.Write(w)
			})
			return errors.Join(append(failed, perr)...)
		},
	}
	c.Flags().StringVar(&stateDir, "state-dir", daemon.DefaultStateDir, "where the daemon kept its journal")
	c.Flags().StringVar(&config, "config", "", "take the state directory from this configuration file")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be undone, change nothing")
	return c
}
