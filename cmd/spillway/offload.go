package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/internal/errkind"
)

func (a *app) offloadCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "offload",
		Short:   "Why memory is offloaded or not, how cold it is, what to request, how to tune",
		Example: "  spillway offload explain /kubepods/burstable/pod7/app\n  spillway offload heat /kubepods/burstable/pod7/app\n  spillway offload recommend",
	}
	c.AddCommand(a.explainCommand(), a.decisionsCommand(), a.heatCommand(), a.recordCommand(), a.tuneCommand(), a.recommendCommand())
	return c
}

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "explain CGROUP",
		Short:             "Why one cgroup is treated as it is: class, targets, signals, newest decisions",
		Example:           "  spillway offload explain /kubepods/burstable/pod7/app\n  spillway offload explain /batch/job1 -o json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeCgroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := a.client().Explain(cmd.Context(), cgroupPath(args[0]))
			if err != nil {
				return err
			}
			return a.print(e, func(w io.Writer) error { return writeExplanation(w, e) })
		},
	}
}

// cgroupPath is a cgroup as a person writes it, the way the daemon names it: with a slash before it and none behind.
func cgroupPath(arg string) string { return "/" + strings.Trim(arg, "/") }

// completeCgroup offers the cgroups a running daemon knows; without one it offers nothing.
func (a *app) completeCgroup(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeCgroups(cmd, args, prefix)
}

// completeCgroups is completeCgroup for commands that take several.
func (a *app) completeCgroups(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	cgroups, err := a.client().Cgroups(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range cgroups {
		if strings.HasPrefix(c.Path, prefix) && c.Path == cli.Escape(c.Path) {
			names = append(names, c.Path)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) decisionsCommand() *cobra.Command {
	var (
		cgroup string
		limit  int
	)
	c := &cobra.Command{
		Use:     "decisions",
		Short:   "The newest decisions: steps, and every change of mind",
		Example: "  spillway offload decisions --limit 20\n  spillway offload decisions --cgroup /batch/job1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > admin.MaxDecisions {
				return usage(cmd, errkind.New(errkind.Invalid, "offload: decisions: --limit %d is outside 1 to %d", limit, admin.MaxDecisions))
			}
			if cgroup != "" {
				cgroup = cgroupPath(cgroup)
			}
			ds, err := a.client().Decisions(cmd.Context(), cgroup, limit)
			if err != nil {
				return err
			}
			return a.print(ds, func(w io.Writer) error {
				if len(ds) == 0 {
					_, err := fmt.Fprintln(w, "no decision yet")
					return err
				}
				return writeDecisions(w, ds)
			})
		},
	}
	c.Flags().StringVar(&cgroup, "cgroup", "", "only this cgroup, every period")
	c.Flags().IntVar(&limit, "limit", 50, "how many, newest first")
	return c
}

func writeExplanation(w io.Writer, e admin.Explanation) error {
	c := e.Cgroup
	t := cli.NewTable()
	verb := "only observed"
	if c.Managed {
		verb = "managed"
	}
	t.Row("cgroup", c.Path)
	t.Row("state", verb+": "+c.Why)
	t.Row("class", c.Class)
	t.Row("resident", fmt.Sprintf("%v, largest seen %v, floor %v", bytesize.Size(c.Usage), bytesize.Size(c.Peak), bytesize.Size(c.Floor)))
	t.Row("of which", fmt.Sprintf("%v anonymous, %v of files", bytesize.Size(c.Anon), bytesize.Size(c.File)))
	var off []string
	for _, tier := range slices.Sorted(maps.Keys(c.Offloaded)) {
		off = append(off, fmt.Sprintf("%v in %s", bytesize.Size(c.Offloaded[tier]), tier))
	}
	if len(off) == 0 {
		off = []string{"nothing"}
	}
	t.Row("offloaded", strings.Join(off, ", "))
	t.Row("saving", bytesize.Size(c.Saving).String()+" net")
	if c.PSI {
		t.Row("pressure", fmt.Sprintf("memory %.3f%%, io %.3f%%", 100*c.MemSome, 100*c.IOSome))
	} else {
		t.Row("pressure", "not available: "+c.PSIWhy)
	}
	t.Row("refaults", fmt.Sprintf("%.1f/s, major faults %.1f/s", c.Refaults, c.Faults))
	var targets []string
	for _, k := range slices.Sorted(maps.Keys(e.Params)) {
		text := fmt.Sprintf("%g", e.Params[k])
		if strings.HasSuffix(k, "_bytes") {
			text = bytesize.Size(e.Params[k]).String()
		}
		targets = append(targets, k+" "+text)
	}
	rows(t, "targets", targets)
	rows(t, "slo", sloLines(c.SLO))
	if err := t.Write(w); err != nil {
		return err
	}
	if len(e.Decisions) == 0 {
		_, err := fmt.Fprintln(w, "\nno decision yet")
		return err
	}
	fmt.Fprintln(w)
	if err := writeDecisions(w, e.Decisions[:min(len(e.Decisions), mostExplained)]); err != nil {
		return err
	}
	if n := len(e.Decisions) - mostExplained; n > 0 {
		_, err := fmt.Fprintf(w, "and %d older: spillway offload decisions --cgroup %s --limit %d\n", n, cli.Escape(c.Path), len(e.Decisions))
		return err
	}
	return nil
}

// mostExplained is how many decisions a person reads; hold and steady ones repeat.
const mostExplained = 12

func writeDecisions(w io.Writer, ds []admin.Decision) error {
	t := cli.NewTable("TIME", "CGROUP", ">STEP", ">TAKEN", ">TOOK", "REASON", "WHY")
	for _, d := range ds {
		why := d.Detail
		if d.Error != "" {
			why = "failed: " + d.Error
		}
		t.Row(d.Time.Local().Format(time.TimeOnly), d.Cgroup, bytesize.Size(d.Step).String(), bytesize.Size(d.Reclaimed).String(),
			time.Duration(d.Took).Round(time.Millisecond).String(), d.Reason, why)
	}
	return t.Write(w)
}
