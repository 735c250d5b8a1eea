package main

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/deploy"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/internal/daemon"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload"
	"github.com/spillway-io/spillway/offload/class"
)

// fileConfig is the whole configuration file.
type fileConfig struct {
	daemon.Config `yaml:",inline"`
	Offload       offload.Config `yaml:"offload"`
}

// check fills the daemon's defaults and refuses what cannot work.
func (c *fileConfig) check() (err error) {
	if c.Config, err = c.Config.WithDefaults(); err != nil {
		return err
	}
	if err = c.Offload.Check(); err != nil && errkind.HintOf(err) == "" { // what to do is then in the text
		err = errkind.Hint(err, "spillway config example prints every key with its unit, default and reason")
	}
	return err
}

// loadConfig reads path; "" is the zero configuration, which works.
func loadConfig(path string) (c fileConfig, err error) {
	if path != "" {
		err = cli.LoadYAML(path, &c)
	}
	return c, err
}

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "config",
		Short:   "Check a configuration file, or print a commented example",
		Example: "  spillway config example > /etc/spillway/spillway.yaml\n  spillway config check /etc/spillway/spillway.yaml",
	}
	c.AddCommand(a.configCheckCommand(), a.configExampleCommand())
	return c
}

func (a *app) configExampleCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "example",
		Short:   "Print the example configuration: every knob with unit, default and reason",
		Example: "  spillway config example > spillway.yaml\n  spillway config example | spillway config check -",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.out, deploy.Example)
			return err
		},
	}
}

func (a *app) configCheckCommand() *cobra.Command {
	var (
		strict  bool
		sysroot string
	)
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file against this machine, change nothing",
		Long: `Check a configuration file: keys, units, ranges, and whether its roots and class globs match
a cgroup that exists now. A glob that matches nothing is a warning, because its cgroup may come
later; --strict makes it a failure. FILE - is standard input.`,
		Example: "  spillway config check /etc/spillway/spillway.yaml\n  spillway config check --strict /etc/spillway/spillway.yaml && systemctl reload spillway",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var (
				cfg fileConfig
				err error
			)
			name := args[0]
			if name == "-" {
				name = "standard input"
				var data []byte
				if data, err = io.ReadAll(a.in); err == nil {
					err = cli.DecodeYAML(name, data, &cfg)
				}
			} else {
				cfg, err = loadConfig(name)
			}
			if err != nil {
				return err
			}
			if err := cfg.check(); err != nil {
				return err
			}
			warnings := configWarnings(cfg, sysroot)
			answer := struct {
				File     string   `json:"file"`
				Warnings []string `json:"warnings"`
			}{name, warnings}
			if err := a.print(answer, func(w io.Writer) error {
				for _, l := range warnings {
					fmt.Fprintln(w, "warning:", cli.Escape(l))
				}
				_, err := fmt.Fprintf(w, "%s: good, %s\n", cli.Escape(name), count(len(warnings), "warning"))
				return err
			}); err != nil {
				return err
			}
			if strict && len(warnings) > 0 {
				return errkind.Hint(errors.New("config: "+count(len(warnings), "warning")+", and --strict"),
					"mend the lines above, or leave --strict out")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&strict, "strict", false, "warnings are failures")
	addSysroot(c, &sysroot)
	return c
}

// configWarnings compares roots and globs with the cgroups that exist below sysroot.
func configWarnings(cfg fileConfig, sysroot string) []string {
	warnings := []string{}
	h, err := cgroup.Discover(sysroot)
	if err != nil {
		return append(warnings, "roots and globs not compared with this machine: "+err.Error())
	}
	entries, err := h.List()
	if err != nil {
		return append(warnings, "roots and globs not compared with this machine: "+err.Error())
	}
	exists := make(map[string]bool, len(entries))
	paths := make([]string, 0, len(entries))
	for _, e := range entries {
		exists[e.Path] = true
		paths = append(paths, e.Path)
	}
	for _, r := range cfg.Offload.Roots {
		if r = path.Clean(r); !exists[r] { // as the agent reads it
			warnings = append(warnings, fmt.Sprintf("root %s does not exist (yet): nothing below it can be offloaded until it does", r))
		}
	}
	set, err := class.Compile(cfg.Offload.Classes)
	if err != nil {
		return append(warnings, err.Error()) // offload.Config.Check refused it before
	}
	for _, g := range set.Unused(paths) {
		warnings = append(warnings, fmt.Sprintf("class glob %q matches none of the %d cgroups here: it has no effect; * stays within one path segment, ** crosses them", g, len(paths)))
	}
	return warnings
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if n == 0 {
		return "no " + what + "s"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// addSysroot is a testing aid: every kernel file is opened below DIR instead of /.
func addSysroot(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "sysroot", "/", "testing aid: directory that holds proc and sys; another than / only looks")
	_ = c.Flags().MarkHidden("sysroot") // fails for unknown flags only
}
