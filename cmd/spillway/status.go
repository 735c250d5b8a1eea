package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cli"
)

func (a *app) statusCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:     "status",
		Short:   "What the daemon sees, does and refuses to do",
		Example: "  spillway status\n  spillway status --all\n  spillway status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.client().Status(cmd.Context())
			if err != nil {
				return err
			}
			if !all {
				return a.print(s, func(w io.Writer) error { return writeStatus(w, s) })
			}
			cgroups, err := a.client().Cgroups(cmd.Context())
			if err != nil {
				return err
			}
			both := struct {
				admin.Status
				Cgroups []admin.Cgroup `json:"cgroups"`
			}{s, cgroups}
			return a.print(both, func(w io.Writer) error {
				if err := writeStatus(w, s); err != nil {
					return err
				}
				fmt.Fprintln(w)
				return writeCgroups(w, cgroups)
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "list every cgroup too")
	return c
}

// writeStatus is the human form, also the first thing `spillway up` prints.
func writeStatus(w io.Writer, s admin.Status) error {
	t := cli.NewTable()
	state := "runs since " + s.Started.Local().Format(time.DateTime)
	switch {
	case s.Paused != "":
		state += "; offloading is stopped: " + s.Paused
	case s.DryRun:
		state += "; dry run"
	}
	commit := ""
	if s.Commit != "" {
		commit = ", commit " + s.Commit[:min(len(s.Commit), 12)]
	}
	t.Row("spillway", fmt.Sprintf("%s%s, pid %d, %s", s.Version, commit, s.PID, state))
	t.Row("kernel", s.Kernel)
	t.Row("cgroups", fmt.Sprintf("%s, actuator %s, %d managed, %d observed", s.CgroupMode, s.Actuator, s.Managed, s.Observed))
	t.Row("law", fmt.Sprintf("%s, every %v", s.Law, time.Duration(s.Period)))
	roots := "none"
	if len(s.Roots) > 0 {
		roots = strings.Join(s.Roots, " ")
	}
	t.Row("roots", roots)
	h := s.Host
	t.Row("memory", fmt.Sprintf("%v, %v available", bytesize.Size(h.MemTotal), bytesize.Size(h.MemAvailable)))
	t.Row("swap", swapLine(h))
	if h.PSI {
		t.Row("pressure", fmt.Sprintf("memory %.2f%%, io %.2f%%", 100*h.MemSome, 100*h.IOSome))
	}
	t.Row("saving", fmt.Sprintf("%v net; pools hold %v in %v", bytesize.Size(h.SavingNet), bytesize.Size(h.StoredBytes), bytesize.Size(h.PoolBytes)))
	rows(t, "tier", tierLines(s.Tiers))
	if l := fileLine(s); l != "" {
		t.Row("file cache", l)
	}
	rows(t, "slo", sloStatus(s.SLO))
	rows(t, "endurance", enduranceLines(s.Endurance))
	rows(t, "will", s.Will)
	rows(t, "will not", s.Wont)
	rows(t, "advice", s.Advice)
	t.Row("costs", fmt.Sprintf("%.1f%% of a core and %.1f%% for the worker, %v resident", 100*s.Self.CPU, 100*s.Self.WorkerCPU, bytesize.Size(s.Self.RSS)))
	dashboard := s.Dashboard
	if dashboard == "" {
		dashboard = "off"
	}
	t.Row("dashboard", dashboard)
	return t.Write(w)
}

// rows writes lines under one label.
func rows(t *cli.Table, label string, lines []string) {
	for i, l := range lines {
		if i > 0 {
			label = ""
		}
		t.Row(label, l)
	}
}

func swapLine(h admin.Host) string {
	if h.SwapTotal == 0 {
		return "none"
	}
	return fmt.Sprintf("%v, %v used, %v written to disk", bytesize.Size(h.SwapTotal), bytesize.Size(h.SwapUsed), bytesize.Size(h.DiskWritten))
}

func tierLines(tiers []admin.Tier) (lines []string) {
	for _, t := range tiers {
		l := fmt.Sprintf("%s (%s), %s", t.Name, t.Kind, t.State)
		if t.Size > 0 {
			l += fmt.Sprintf(", %v of %v used", bytesize.Size(t.Used), bytesize.Size(t.Size))
		}
		if t.Compression > 0 {
			l += fmt.Sprintf(", %.1f× compressed", t.Compression)
		}
		if t.P50 > 0 {
			l += fmt.Sprintf(", p50 %v p99 %v", time.Duration(t.P50).Round(100*time.Nanosecond), time.Duration(t.P99).Round(100*time.Nanosecond))
		}
		if t.Ours {
			l += ", ours"
		}
		if t.Detail != "" {
			l += ", " + t.Detail
		}
		lines = append(lines, l)
	}
	if len(lines) == 0 {
		lines = []string{"none"}
	}
	return lines
}

// fileLine says what bringing file cache back costs; "" before the canary has looked.
func fileLine(s admin.Status) string {
	f := s.FileRefault
	if f == nil {
		if s.FileRefaultWhy == "" {
			return ""
		}
		return "cost of a refault unknown: " + s.FileRefaultWhy
	}
	l := fmt.Sprintf("a page alone p50 %v p99 %v, in order %v each (%s, %s)", time.Duration(f.P50).Round(100*time.Nanosecond),
		time.Duration(f.P99).Round(100*time.Nanosecond), time.Duration(f.InOrder).Round(100*time.Nanosecond), f.FileSystem, f.Dir)
	if f.Note != "" {
		l += ", " + f.Note
	}
	return l
}

func writeCgroups(w io.Writer, cgroups []admin.Cgroup) error {
	t := cli.NewTable("CGROUP", "CLASS", ">RESIDENT", ">OFFLOADED", ">SAVING", "MANAGED", "WHY")
	for _, c := range cgroups {
		var off int64
		for _, n := range c.Offloaded {
			off += n
		}
		managed := "no"
		if c.Managed {
			managed = "yes"
		}
		t.Row(c.Path, c.Class, bytesize.Size(c.Usage).String(), bytesize.Size(off).String(), bytesize.Size(c.Saving).String(), managed, c.Why)
	}
	return t.Write(w)
}
