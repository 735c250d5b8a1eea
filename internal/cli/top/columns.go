package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cli"
)

// sortKey is what the table is ordered by.
type sortKey int

const (
	sortOffloaded sortKey = iota
	sortName
	sortClass
	sortUsed
	sortResident
	sortSaving
	sortPressure
	sortRefaults
	sortDecision
	sortKeys // how many there are
)

// sorts gives each order its key, its column and its comparison: numbers largest first, names from A.
var sorts = [sortKeys]struct {
	key, column string
	compare     func(a, b *admin.Cgroup) int
}{
	sortOffloaded: {"o", "OFFLOADED", func(a, b *admin.Cgroup) int { return cmp.Compare(offloaded(b), offloaded(a)) }},
	sortName:      {"n", "CGROUP", func(a, b *admin.Cgroup) int { return strings.Compare(a.Path, b.Path) }},
	sortClass:     {"c", "CLASS", func(a, b *admin.Cgroup) int { return strings.Compare(className(a), className(b)) }},
	sortUsed:      {"u", "USED", func(a, b *admin.Cgroup) int { return cmp.Compare(used(b), used(a)) }},
	sortResident:  {"m", "RESIDENT", func(a, b *admin.Cgroup) int { return cmp.Compare(b.Usage, a.Usage) }},
	sortSaving:    {"v", "SAVING", func(a, b *admin.Cgroup) int { return cmp.Compare(b.Saving, a.Saving) }},
	sortPressure:  {"p", "MEM PSI", func(a, b *admin.Cgroup) int { return cmp.Compare(b.MemSome, a.MemSome) }},
	sortRefaults:  {"f", "REFAULT/S", func(a, b *admin.Cgroup) int { return cmp.Compare(b.Refaults, a.Refaults) }},
	sortDecision: {"d", "LAST DECISION", func(a, b *admin.Cgroup) int {
		return strings.Compare(decision(a), decision(b))
	}},
}

func (s sortKey) compare(a, b *admin.Cgroup) int { return sorts[s].compare(a, b) }

func sortOf(key string) (sortKey, bool) {
	i := slices.IndexFunc(sorts[:], func(s struct {
		key, column string
		compare     func(a, b *admin.Cgroup) int
	}) bool {
		return s.key == key
	})
	return sortKey(i), i >= 0
}

// column is one column of the table. keep orders what stays when the terminal is narrow, 0 first.
type column struct {
	name  string
	width int
	keep  int
	left  bool
	cell  func(*admin.Cgroup) string
}

// nameColumn and lastColumn share what the numbers leave free.
const (
	nameColumn = "CGROUP"
	lastColumn = "LAST DECISION"
	maxLast    = 44
)

// minimums are the least widths of the two: on a wide terminal other columns give way to them.
func minimums(width int) (name, last int) {
	if width < 100 {
		return 18, 14
	}
	return 26, 20
}

// columns are those that fit into width, in the order they are shown, their widths decided.
func columns(width int, tiers []string) []column {
	minName, minLast := minimums(width)
	all := []column{
		{name: nameColumn, width: minName, keep: 0, left: true, cell: func(c *admin.Cgroup) string { return c.Path }},
		{name: "CLASS", width: 10, keep: 6, left: true, cell: className},
		{name: "USED", width: 10, keep: 7, cell: func(c *admin.Cgroup) string { return size(used(c)) }},
		{name: "RESIDENT", width: 10, keep: 1, cell: func(c *admin.Cgroup) string { return size(c.Usage) }},
		{name: "OFFLOADED", width: 10, keep: 2, cell: func(c *admin.Cgroup) string { return size(offloaded(c)) }},
	}
	for i, t := range tiers {
		all = append(all, column{name: tierLabel(t, tiers), width: max(10, len(tierLabel(t, tiers))), keep: 9 + i,
			cell: func(c *admin.Cgroup) string { return size(c.Offloaded[t]) }})
	}
	all = append(all,
		column{name: "SAVING", width: 10, keep: 8, cell: func(c *admin.Cgroup) string { return size(c.Saving) }},
		column{name: "MEM PSI", width: 7, keep: 3, cell: func(c *admin.Cgroup) string { return pressure(c, c.MemSome) }},
		column{name: "IO PSI", width: 7, keep: 20, cell: func(c *admin.Cgroup) string { return pressure(c, c.IOSome) }},
		column{name: "REFAULT/S", width: 9, keep: 4, cell: func(c *admin.Cgroup) string { return rate(c, c.Refaults) }},
		column{name: "MAJFLT/S", width: 8, keep: 21, cell: func(c *admin.Cgroup) string { return rate(c, c.Faults) }},
		column{name: lastColumn, width: minLast, keep: 5, left: true, cell: decision},
	)
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(all[a].keep, all[b].keep) })
	free := width - markWidth + gapAt(width) // the first column has no gap before it
	var take []int
	for _, i := range order {
		need := all[i].width + gapAt(width)
		if need > free {
			break // what is less important does not jump the queue
		}
		take = append(take, i)
		free -= need
	}
	slices.Sort(take)
	out := make([]column, 0, len(take))
	for _, i := range take {
		out = append(out, all[i])
	}
	return widen(out, free, maxLast-minLast)
}

// markWidth is the left edge: which row is selected, and whether its pages do not shrink.
const markWidth = 2

// poorMark stands before an incompressible cgroup: a column of its own would cost another one at 100 cells.
const poorMark = "×"

// gapAt is the space between columns: one cell when every cell counts.
func gapAt(width int) int {
	if width < 120 {
		return 1
	}
	return 2
}

// widen gives the free cells to the name and the decision.
func widen(cols []column, free, most int) []column {
	if free <= 0 || len(cols) == 0 {
		return cols
	}
	if last := &cols[len(cols)-1]; last.name == lastColumn {
		more := min(free/2, most)
		last.width += more
		free -= more
	}
	cols[0].width += free
	return cols
}

// tierNames are the tiers with a column: those the daemon lists as usable, then others that hold something.
func tierNames(s snapshot) []string {
	var names []string
	for _, t := range s.status.Tiers {
		if t.State != "off" {
			names = append(names, t.Name)
		}
	}
	extra := map[string]bool{}
	for i := range s.cgroups {
		for t := range s.cgroups[i].Offloaded {
			if !slices.Contains(names, t) {
				extra[t] = true
			}
		}
	}
	names = append(names, slices.Sorted(maps.Keys(extra))...)
	return names[:min(len(names), 4)]
}

// tierLabel is a heading: the kind where it is unambiguous, else its place in the list.
func tierLabel(name string, all []string) string {
	kind, _, _ := strings.Cut(name, ":")
	same, place := 0, 0
	for _, t := range all {
		if k, _, _ := strings.Cut(t, ":"); k == kind {
			same++
			if t == name {
				place = same
			}
		}
	}
	label := ansi.Truncate(strings.ToUpper(cli.Escape(kind)), 10, "")
	if same > 1 {
		return fmt.Sprintf("%s#%d", label, place)
	}
	return label
}

func offloaded(c *admin.Cgroup) (sum int64) {
	for _, n := range c.Offloaded {
		sum += n
	}
	return sum
}

// used is what the cgroup would occupy if nothing were offloaded.
func used(c *admin.Cgroup) int64 { return c.Usage + offloaded(c) }

// size leaves a cell empty rather than repeating "0 B" down the screen.
func size(n int64) string {
	if n == 0 {
		return "·"
	}
	return amount(n)
}

// amount drops a decimal that says nothing: sizes beside each other line up better.
func amount(n int64) string { return strings.Replace(bytesize.Size(n).String(), ".0 ", " ", 1) }

func className(c *admin.Cgroup) string {
	if !c.Managed {
		return "observed"
	}
	return c.Class
}

func pressure(c *admin.Cgroup, v float64) string {
	if !c.PSI {
		if !c.Managed {
			return "·"
		}
		return "n/a"
	}
	return percent(v)
}

func percent(v float64) string {
	switch {
	case v == 0:
		return "0%"
	case v < 0.1:
		return fmt.Sprintf("%.2f%%", v*100)
	}
	return fmt.Sprintf("%.0f%%", v*100)
}

func rate(c *admin.Cgroup, v float64) string {
	switch {
	case !c.Managed && v == 0:
		return "·"
	case v > 0 && v < 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// decision is the last decision in a few words; for a cgroup that is only observed, why.
func decision(c *admin.Cgroup) string {
	switch d := c.Last; {
	case d == nil && !c.Managed:
		return c.Why
	case d == nil:
		return "none yet"
	case d.Error != "":
		return "failed: " + d.Error
	case d.Step > 0 && d.Reclaimed == 0:
		return fmt.Sprintf("%s: asked %s", d.Reason, size(d.Step))
	case d.Step > 0:
		return fmt.Sprintf("%s: took %s", d.Reason, size(d.Reclaimed))
	default:
		return d.Reason + ": nothing"
	}
}
