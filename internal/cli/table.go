package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Table collects rows and writes them in aligned columns. Cells are escaped by Row. The zero value without
// a head is usable; it is not safe for concurrent use.
type Table struct {
	head  []string
	right []bool
	rows  [][]string
}

// NewTable names the columns. A name beginning with ">" is right-aligned, as numbers should be.
func NewTable(head ...string) *Table {
	t := &Table{}
	for _, h := range head {
		name, right := strings.CutPrefix(h, ">")
		t.head = append(t.head, Escape(name))
		t.right = append(t.right, right)
	}
	return t
}

// Row adds one row; missing cells are empty.
func (t *Table) Row(cells ...string) {
	row := make([]string, max(len(cells), len(t.head)))
	for i, c := range cells {
		row[i] = Escape(c)
	}
	t.rows = append(t.rows, row)
}

// maxAligned is the widest cell that others are aligned to: one name of 4 KiB must not push every row away.
const maxAligned = 120

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Write prints the table, two blanks between columns, without trailing blanks.
func (t *Table) Write(w io.Writer) error {
	var width []int
	all := t.rows
	if len(t.head) > 0 {
		all = append([][]string{t.head}, t.rows...)
	}
	for _, row := range all {
		for i, c := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], min(ansi.StringWidth(c), maxAligned))
		}
	}
	for _, row := range all {
		var b strings.Builder
		for i, c := range row {
			if i > 0 {
				b.WriteString("  ")
			}
			gap := strings.Repeat(" ", max(width[i]-ansi.StringWidth(c), 0))
			if i < len(t.right) && t.right[i] {
				b.WriteString(gap + c)
			} else {
				b.WriteString(c + gap)
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return fmt.Errorf("cli: write table: %w", err)
		}
	}
	return nil
}
