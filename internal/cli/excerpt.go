package cli

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// source is a configuration text being checked.
type source struct {
	name  string
	lines []string
}

// FileError is a mistake in a configuration file. Line and Column count from 1; both are 0 when unknown.
type FileError struct {
	Name         string
	Line, Column int
	excerpt      string
	err          error
}

// Error is one line: config: FILE:LINE:COLUMN: what is wrong.
func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("config: %s: %v", e.Name, e.err)
	}
	return fmt.Sprintf("config: %s:%d:%d: %v", e.Name, e.Line, e.Column, e.err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.err }

// Excerpt is the line with a caret under the mistake and the line above, escaped, "" when unknown.
func (e *FileError) Excerpt() string { return e.excerpt }

func (s source) excerpt(line, column int) string {
	if line < 1 || line > len(s.lines) {
		return ""
	}
	var b strings.Builder
	for n := max(1, line-1); n <= line; n++ {
		mark := " "
		if n == line {
			mark = ">"
		}
		fmt.Fprintf(&b, "%s %4d | %s\n", mark, n, Escape(untab(s.lines[n-1])))
	}
	before := []rune(s.lines[line-1])
	before = before[:min(max(column-1, 0), len(before))]
	fmt.Fprintf(&b, "       | %s^", strings.Repeat(" ", ansi.StringWidth(Escape(untab(string(before))))))
	return b.String()
}

func untab(s string) string { return strings.ReplaceAll(strings.TrimSuffix(s, "\r"), "\t", "  ") }

// suggest says what the key may have meant, or which keys exist.
func suggest(key string, known map[string]reflect.Type) string {
	names := slices.Sorted(maps.Keys(known))
	if len(names) == 0 {
		return ""
	}
	best := slices.MinFunc(names, func(a, b string) int {
		return cmp.Compare(distance(key, a), distance(key, b))
	})
	if distance(key, best) <= 1+len(best)/4 {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "possible here: " + strings.Join(names, ", ")
}

// distance is the Levenshtein distance of two short keys.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			sub := diag
			if a[i] != b[j] {
				sub++
			}
			diag = row[j+1]
			row[j+1] = min(sub, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
