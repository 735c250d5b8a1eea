package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/cli"
)

// headerLines is what stands above the rows: three lines about the node and the column heads.
const headerLines = 4

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen = true
	v.WindowTitle = "spillway top"
	return v
}

// screen is the whole picture, exactly height lines, none wider than width.
func (m *model) screen() string {
	var lines []string
	switch {
	case m.pane == paneHelp:
		lines = m.scrolled(helpLines(), 0)
	case m.pane == paneExplain:
		lines = m.explainLines()
	default:
		lines = append(m.header(), m.table()...)
	}
	body := max(m.height-1, 1)
	if len(lines) > body {
		lines = lines[:body]
	}
	for len(lines) < body {
		lines = append(lines, "")
	}
	if m.height > 1 {
		lines = append(lines, m.footer())
	}
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// pageSize is how many rows fit.
func (m *model) pageSize() int { return max(m.height-headerLines-1, 1) }

// header is the node: saving and its course, memory, tiers; and what is wrong, if anything is.
func (m *model) header() []string {
	if !m.have {
		state := "asking the daemon…"
		if m.err != nil {
			state = styleBad.Render(cli.Escape(m.err.Error()))
		}
		do := ""
		if m.err != nil {
			do = "do: " + cli.Escape(cli.Advice(m.err)) + "; this table waits for it"
		}
		return []string{styleTitle.Render("spillway top"), state, do, ""}
	}
	s := m.snap.status
	saving := styleGood.Render(amount(s.Host.SavingNet))
	if s.Host.SavingNet < 0 {
		saving = styleWarn.Render(amount(s.Host.SavingNet))
	}
	first := []string{styleTitle.Render("spillway") + "  saving " + saving + " net",
		m.state(),
		sparkline(m.snap.history, min(max(m.width/5, 8), 32)),
		fmt.Sprintf("%d managed, %d observed", s.Managed, s.Observed),
		fmt.Sprintf("law %s every %s", cli.Escape(s.Law), time.Duration(s.Period))}
	second := []string{
		fmt.Sprintf("%s of %s memory available", amount(s.Host.MemAvailable), amount(s.Host.MemTotal)),
		hostPressure(s.Host), pool(s.Host), swap(s.Host)}
	return []string{fitParts(first, m.width), fitParts(second, m.width), fitParts(withFlash(tierParts(s.Tiers), s.Endurance), m.width)}
}

// state is one mark: stale before paused before what the daemon itself says.
func (m *model) state() string {
	s := m.snap.status
	switch {
	case m.err != nil:
		age := m.now.Sub(m.snap.at).Round(time.Second)
		if m.width < 100 {
			return styleBad.Render(fmt.Sprintf("STALE %s, trying again", age))
		}
		return styleBad.Render(fmt.Sprintf("STALE %s: the daemon does not answer, trying again", age))
	case m.width < 100:
		return styleWarn.Render(shortState(m.paused, s))
	case m.paused:
		return styleWarn.Render("PAUSED, space goes on")
	case s.Paused != "":
		return styleWarn.Render("OFFLOADING STOPPED: " + cli.Escape(s.Paused))
	case s.DryRun:
		return styleWarn.Render("DRY RUN: nothing is taken")
	}
	return ""
}

// shortState is the mark where there is no room for its reason.
func shortState(paused bool, s admin.Status) string {
	switch {
	case paused:
		return "PAUSED"
	case s.Paused != "":
		return "OFFLOADING STOPPED"
	case s.DryRun:
		return "DRY RUN"
	}
	return ""
}

func hostPressure(h admin.Host) string {
	if !h.PSI {
		return "pressure unavailable"
	}
	return fmt.Sprintf("stalled on memory %s, io %s", percent(h.MemSome), percent(h.IOSome))
}

func pool(h admin.Host) string {
	if h.PoolBytes <= 0 || h.StoredBytes <= 0 {
		return ""
	}
	return fmt.Sprintf("%s held in a %s pool (%.1f×)", amount(h.StoredBytes), amount(h.PoolBytes),
		float64(h.StoredBytes)/float64(h.PoolBytes))
}

func swap(h admin.Host) string {
	if h.SwapTotal == 0 {
		return styleWarn.Render("no swap")
	}
	return fmt.Sprintf("swap %s of %s", amount(h.SwapUsed), amount(h.SwapTotal))
}

func tierParts(tiers []admin.Tier) (parts []string) {
	for _, t := range tiers {
		if t.State == "off" {
			continue
		}
		p := cli.Escape(t.Name) + " " + cli.Escape(t.State)
		if t.P50 > 0 {
			p += fmt.Sprintf(" p50 %s p99 %s", short(time.Duration(t.P50)), short(time.Duration(t.P99)))
		} else {
			p += ", not measured"
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return []string{styleWarn.Render("no tier: there is nowhere to put cold memory")}
	}
	return parts
}

// withFlash adds how much of the budget for writing to flash is gone: first when it stops steps, else last.
func withFlash(parts []string, e *admin.Endurance) []string {
	switch {
	case e == nil || len(e.Drives) == 0 || e.Price < 0.005 && e.Left > 0:
		return parts
	case e.Price >= 1 || e.Left <= 0:
		return append([]string{styleWarn.Render("flash budget spent: no step writes to a drive")}, parts...)
	}
	return append(parts, fmt.Sprintf("flash budget %s gone", percent(e.Price)))
}

// short prints a latency with three digits at most.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return d.Round(100 * time.Nanosecond).String()
	case d < 10*time.Millisecond:
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// fitParts joins what fits into width; later parts are left out first, empty ones always.
func fitParts(parts []string, width int) string {
	line := ""
	for _, p := range parts {
		switch {
		case p == "":
		case line == "":
			line = p
		case lipgloss.Width(line)+3+lipgloss.Width(p) <= width:
			line += "   " + p
		}
	}
	return line
}

// table is the heads and the rows on the screen.
func (m *model) table() []string {
	if !m.have {
		return nil
	}
	cols := columns(m.width, m.tiers)
	g := strings.Repeat(" ", gapAt(m.width))
	head := strings.Repeat(" ", markWidth)
	for i, c := range cols {
		if i > 0 {
			head += g
		}
		cell := fit(c, c.name)
		if c.name == sorts[m.sort].column {
			head += styleSort.Render(cell)
		} else {
			head += styleHead.Render(cell)
		}
	}
	lines := []string{head}
	if len(m.rows) == 0 {
		return append(lines, "", "  "+m.emptyReason())
	}
	for i := m.offset; i < min(m.offset+m.pageSize(), len(m.rows)); i++ {
		lines = append(lines, m.row(cols, g, i))
	}
	return lines
}

func (m *model) emptyReason() string {
	if m.filter != "" {
		return fmt.Sprintf("no cgroup matches %q; esc clears the filter", cli.Escape(m.filter))
	}
	return "the daemon sees no memory cgroup"
}

func (m *model) row(cols []column, g string, i int) string {
	c := &m.snap.cgroups[m.rows[i]]
	cells := make([]string, len(cols))
	for j, col := range cols {
		cells[j] = fit(col, cli.Escape(col.cell(c)))
	}
	line := strings.Join(cells, g)
	mark := " "
	if c.Incompressible {
		mark = poorMark
	}
	switch {
	case i == m.cursor:
		return ">" + mark + styleRow.Render(line)
	case !c.Managed:
		return " " + mark + styleDim.Render(line)
	case c.Last != nil && c.Last.Error != "":
		return " " + mark + styleBad.Render(line)
	}
	return " " + mark + line
}

func fit(c column, s string) string {
	if c.left {
		if c.name == nameColumn {
			return cli.Fit(s, c.width)
		}
		return cli.FitEnd(s, c.width)
	}
	return cli.FitLeft(s, c.width)
}

// footer is the filter being typed, or the keys.
func (m *model) footer() string {
	switch {
	case m.typing:
		return "filter: " + cli.Escape(m.filter) + "█   enter keeps it, esc clears it"
	case m.pane == paneExplain:
		return styleDim.Render("↑↓ scroll   esc back   ? help")
	case m.pane == paneHelp:
		return styleDim.Render("↑↓ scroll   any other key goes back   q quits")
	case !m.have:
		return styleDim.Render("? help   q quit")
	}
	left := fmt.Sprintf("%d of %d", min(m.cursor+1, len(m.rows)), len(m.rows))
	if m.filter != "" {
		left += fmt.Sprintf(" matching %q", cli.Escape(m.filter))
	}
	keys := []string{left, "enter explain", "/ filter", "s sort", "r reverse", "space pause", "? help", "q quit"}
	return styleDim.Render(fitParts(keys, m.width))
}

// bars are the eight heights of a sparkline.
var bars = []rune("▁▂▃▄▅▆▇█")

// sparkline draws the node's saving over the history, the newest at the right; "" without two points.
func sparkline(points []admin.Point, width int) string {
	if len(points) < 2 {
		return ""
	}
	width = min(width, len(points))
	low, high := points[0].Saving, points[0].Saving
	for _, p := range points {
		low, high = min(low, p.Saving), max(high, p.Saving)
	}
	low = min(low, 0)
	var b strings.Builder
	for i := range width {
		p := points[(i+1)*len(points)/width-1]
		level := 0
		if high > low {
			level = int((p.Saving - low) * int64(len(bars)-1) / (high - low))
		}
		b.WriteRune(bars[level])
	}
	return b.String()
}
