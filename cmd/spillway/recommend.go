package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/internal/errkind"
)

// recommendOutput is the global formats and YAML, which is what a manifest wants.
type recommendOutput string

func (o *recommendOutput) String() string {
	if *o == "" {
		return "table"
	}
	return string(*o)
}

func (o *recommendOutput) Set(s string) error {
	switch s {
	case "table", "json", "yaml":
		*o = recommendOutput(s)
		return nil
	}
	return errkind.New(errkind.Invalid, "output %q is none of table, json and yaml", s)
}

func (*recommendOutput) Type() string { return "table|json|yaml" }

func (a *app) recommendCommand() *cobra.Command {
	var out recommendOutput
	c := &cobra.Command{
		Use:   "recommend [CGROUP...]",
		Short: "Memory requests that fit, from what each cgroup needed while it was offloaded",
		Long: `What each managed cgroup should request: the 98th percentile of what it used while the law rested, or
the size the law found safe if that is more, plus a tenth, and never less than its floor. Each comes
with a confidence, its reason, and what would raise it. While the law still takes memory and nothing
comes back the answer is an upper bound and is marked with ≤.

-o yaml prints resources.requests.memory as a container's spec has it.`,
		Example:           "  spillway offload recommend\n  spillway offload recommend /kubepods/burstable/pod7/app -o yaml",
		ValidArgsFunction: a.completeCgroups,
		RunE: func(cmd *cobra.Command, args []string) error {
			rs, err := a.recommendations(cmd, args)
			if err != nil {
				return err
			}
			switch {
			case out == "yaml" && !a.json:
				return writeRecommendYAML(a.out, rs)
			case out == "json" || a.json:
				return cli.OutJSON.Print(a.out, rs, nil)
			}
			return writeRecommendations(a.out, rs)
		},
	}
	c.Flags().VarP(&out, "output", "o", "format of the answer")
	return c
}

func (a *app) recommendations(cmd *cobra.Command, paths []string) ([]admin.Recommendation, error) {
	if len(paths) == 0 {
		return a.client().Recommend(cmd.Context(), "")
	}
	var all []admin.Recommendation
	for _, p := range paths {
		rs, err := a.client().Recommend(cmd.Context(), cgroupPath(p))
		if err != nil {
			return nil, err
		}
		all = append(all, rs...)
	}
	return all, nil
}

// plainName is a cgroup that YAML takes as it stands.
var plainName = regexp.MustCompile(`^/[A-Za-z0-9_./@-]*$`)

// writeRecommendYAML goes through JSON, so that both have the same keys. Names are other people's text: the library
// writes a control character or a quote into them as it is, so those names are quoted here.
func writeRecommendYAML(w io.Writer, rs []admin.Recommendation) error {
	rs = slices.Clone(rs)
	var quoted []string // old, new, old, new, …
	for i := range rs {
		if name := rs[i].Cgroup; !plainName.MatchString(name) {
			rs[i].Cgroup = fmt.Sprintf("/name.%d", i)
			quoted = append(quoted, "- cgroup: "+rs[i].Cgroup+"\n", "- cgroup: "+strconv.QuoteToASCII(name)+"\n")
		}
	}
	b, err := json.Marshal(rs)
	if err == nil {
		b, err = yaml.JSONToYAML(b)
	}
	if err != nil {
		return fmt.Errorf("recommend: write yaml: %w", err)
	}
	_, err = strings.NewReplacer(quoted...).WriteString(w, string(b))
	return err
}

func writeRecommendations(w io.Writer, rs []admin.Recommendation) error {
	if len(rs) == 0 {
		_, err := fmt.Fprintln(w, "no cgroup is managed: name one with --root or offload.roots")
		return err
	}
	t := cli.NewTable("CGROUP", ">REQUEST", ">USED P98", ">NEEDED P98", ">SAFE", ">SAVING", ">REFAULTS", ">WATCHED", "CONFIDENCE")
	for _, r := range rs {
		bound := ""
		if r.UpperBound {
			bound = "≤ "
		}
		sure := fmt.Sprintf("%s (%.2f): %s", r.Level, r.Confidence, r.Why)
		if r.Raise != "" {
			sure += "; " + r.Raise
		}
		t.Row(r.Cgroup, bound+r.Resources.Requests.Memory, bytesize.Size(r.Usage).String(), orDash(r.Need), orDash(r.Safe), bytesize.Size(r.Saving).String(),
			fmt.Sprintf("%.3f%%", 100*r.RefaultCost), time.Duration(r.Watched).Round(time.Second).String(), sure)
	}
	return t.Write(w)
}

// orDash is a size, or a dash when there is none yet.
func orDash(n int64) string {
	if n == 0 {
		return "-"
	}
	return bytesize.Size(n).String()
}

// enduranceLines say how the write budget and the drives stand.
func enduranceLines(e *admin.Endurance) []string {
	if e == nil {
		return nil
	}
	what := "by swapping"
	if e.Whole {
		what = "to each drive by anybody"
	}
	lines := []string{fmt.Sprintf("%v a day may be written %s; %.0f%% of ten minutes' worth is gone, %v since start", bytesize.Size(e.Budget), what, 100*e.Price, bytesize.Size(e.Written))}
	for _, d := range e.Drives {
		lines = append(lines, d.Forecast)
	}
	return lines
}
