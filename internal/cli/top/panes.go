package top

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/cli"
)

// helpLines is the help pane.
func helpLines() []string {
	lines := []string{styleTitle.Render("spillway top: keys"), ""}
	for _, k := range [][2]string{
		{"↑ ↓ j k", "choose a cgroup; pgup, pgdn, home and end jump"},
		{"enter", "explain the chosen cgroup: targets, signals, decisions"},
		{"/", "filter by part of the name or class; esc clears"},
		{"s", "next sort column; the same as a column's own key:"},
		{"  o n c u m", "offloaded, name, class, used, resident"},
		{"  v p f d", "saving, memory pressure, refaults, decision"},
		{"r", "turn the order round"},
		{"space", "pause and go on"},
		{"q ctrl+c", "quit"},
	} {
		lines = append(lines, fmt.Sprintf("  %-12s %s", k[0], k[1]))
	}
	return append(lines, "",
		styleTitle.Render("words"), "",
		"  used          resident + offloaded",
		"  resident      in DRAM now",
		"  offloaded     in a cheaper tier, before compression",
		"  saving        DRAM no longer used, net of the compressed pool",
		"  mem psi       share of time some task waited for memory;",
		"                n/a: the kernel does not say it for this cgroup",
		"  refault/s     pages that had to come back",
		"  ×             before a name: its pages do not shrink; compressed",
		"                pools are no place for them",
		"  ·             nothing")
}

// explainLines is the explain pane: what the daemon knows about one cgroup, newest decision first.
func (m *model) explainLines() []string {
	e := m.explain
	c := e.Cgroup
	lines := wrap(styleTitle.Render(cli.Escape(c.Path)), m.width)
	if mark := m.state(); mark != "" {
		lines = append(lines, mark)
	}
	if m.explainErr != nil {
		return append(lines, "", styleBad.Render(cli.Escape(m.explainErr.Error())))
	}
	verb := "only observed"
	if c.Managed {
		verb = "managed"
	}
	body := []string{"", fmt.Sprintf("%s, class %s: %s", verb, cli.Escape(c.Class), cli.Escape(c.Why))}
	body = append(body, fmt.Sprintf("used %s = resident %s + offloaded %s%s", amount(used(&c)), amount(c.Usage),
		amount(offloaded(&c)), byTier(c)))
	body = append(body, fmt.Sprintf("saving %s net, floor %s, largest seen %s", amount(c.Saving), amount(c.Floor), amount(c.Peak)))
	if c.PSI {
		body = append(body, fmt.Sprintf("pressure: memory %s, io %s", percent(c.MemSome), percent(c.IOSome)))
	} else {
		body = append(body, "pressure: not available, "+cli.Escape(c.PSIWhy))
	}
	body = append(body, fmt.Sprintf("refaults %.1f/s, major faults %.1f/s", c.Refaults, c.Faults))
	body = append(body, learnt(&c)...)
	if len(e.Params) > 0 {
		body = append(body, "", styleTitle.Render("targets of its class"))
		for _, k := range slices.Sorted(maps.Keys(e.Params)) {
			text := fmt.Sprintf("%g", e.Params[k])
			if strings.HasSuffix(k, "_bytes") {
				text = amount(int64(e.Params[k]))
			}
			body = append(body, fmt.Sprintf("  %-14s %s", cli.Escape(k), text))
		}
	}
	body = append(body, "", styleTitle.Render("decisions, newest first"))
	if len(e.Decisions) == 0 {
		body = append(body, "  none yet")
	}
	for i := range e.Decisions {
		body = append(body, m.decisionLines(&e.Decisions[i])...)
	}
	var all []string
	for _, l := range body {
		all = append(all, wrap(l, m.width)...)
	}
	return append(lines, m.scrolled(all, len(lines))...)
}

// learnt is what the daemon found out about a cgroup besides its sizes; an older daemon says none of it.
func learnt(c *admin.Cgroup) (lines []string) {
	if c.Anon > 0 || c.File > 0 {
		lines = append(lines, fmt.Sprintf("resident: anonymous %s, file cache %s", amount(c.Anon), amount(c.File)))
	}
	if c.Mix != "" {
		lines = append(lines, "the last step "+cli.Escape(c.Mix))
	}
	if c.Incompressible {
		lines = append(lines, styleWarn.Render(poorMark+" incompressible: its pages do not shrink and are kept out of compressed pools"))
	}
	if c.Written > 0 {
		lines = append(lines, amount(c.Written)+" written to drives")
	}
	if s := c.SLO; s != nil {
		lines = append(lines, fmt.Sprintf("slo: %s, %s, multiplier %.3g× after %d blocks", cli.Escape(s.Source), sloSignal(s), s.Multiplier, s.Blocks))
		if s.Holds {
			lines = append(lines, styleWarn.Render("slo holds: nothing is taken now"))
		}
	}
	return lines
}

// sloSignal is the last window of a signal.
func sloSignal(s *admin.SLO) string {
	switch {
	case s.P99 <= 0:
		return cli.Escape(s.State + ": " + s.StateWhy)
	case s.MaxP99 > 0:
		return fmt.Sprintf("p99 %s of at most %s", short(time.Duration(s.P99)), short(time.Duration(s.MaxP99)))
	}
	return "p99 " + short(time.Duration(s.P99))
}

// scrolled is what of lines shows below taken fixed ones, after scroll was stopped at the end.
func (m *model) scrolled(lines []string, taken int) []string {
	room := max(m.height-1-taken, 1)
	m.scroll = max(min(m.scroll, len(lines)-room), 0)
	return lines[m.scroll:]
}

func (m *model) decisionLines(d *admin.Decision) []string {
	what := "took nothing"
	if d.Step > 0 {
		what = fmt.Sprintf("asked for %s, took %s in %s", amount(d.Step), amount(d.Reclaimed), short(time.Duration(d.Took)))
	}
	lines := []string{fmt.Sprintf("  %s  %-11s %s", d.Time.Local().Format("15:04:05"), cli.Escape(d.Reason), what)}
	if d.Detail != "" {
		lines = append(lines, "            "+styleDim.Render(cli.Escape(d.Detail)))
	}
	for _, in := range d.Inputs {
		lines = append(lines, styleDim.Render(fmt.Sprintf("            %-14s %s of target %s", cli.Escape(in.Signal), percent(in.Value), percent(in.Target))))
	}
	if d.Error != "" {
		lines = append(lines, "            "+styleBad.Render(cli.Escape(d.Error)))
	}
	return lines
}

func byTier(c admin.Cgroup) string {
	var parts []string
	for _, t := range slices.Sorted(maps.Keys(c.Offloaded)) {
		parts = append(parts, fmt.Sprintf("%s in %s", amount(c.Offloaded[t]), cli.Escape(t)))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// wrap breaks a line, styled or not, and indents what follows like its beginning.
func wrap(s string, width int) []string {
	plain := ansi.Strip(s)
	indent := len(plain) - len(strings.TrimLeft(plain, " "))
	if indent > width/2 {
		indent = 0
	}
	lines := strings.Split(lipgloss.Wrap(s, max(width-indent, 1), "/"), "\n")
	for i := range lines[1:] {
		lines[i+1] = strings.Repeat(" ", indent) + lines[i+1]
	}
	return lines
}
