package cli

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Escape makes text from the system safe to show on a terminal: control characters, invisible and
// direction-changing characters and invalid UTF-8 become \n, \x1b or \u202e. Printable text, a backslash
// included, stays as it is, because systemd's own names contain \x2d. The result is one line.
func Escape(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r) // '\n', '\x1b', '\u202e'
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	return b.String()
}

func clean(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// escapeLines escapes every line and keeps the line breaks.
func escapeLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = Escape(l)
	}
	return strings.Join(lines, "\n")
}

// Fit returns s in exactly width cells: cut in the middle with "…" when too long, so that both the slice and
// the leaf of a cgroup path stay readable, padded on the right when too short. s must be escaped already.
func Fit(s string, width int) string {
	w := ansi.StringWidth(s)
	switch {
	case width <= 0:
		return ""
	case w <= width:
		return s + strings.Repeat(" ", width-w)
	case width < 8:
		return pad(ansi.Truncate(s, width, "…"), width)
	}
	head := (width - 1) / 3
	return pad(ansi.Truncate(s, head, "")+"…"+ansi.TruncateLeft(s, w-(width-1-head), ""), width)
}

// FitLeft is Fit for numbers: padded on the left, cut at the end.
func FitLeft(s string, width int) string {
	w := ansi.StringWidth(s)
	if w > width {
		return pad(ansi.Truncate(s, max(width, 0), "…"), width)
	}
	return strings.Repeat(" ", width-w) + s
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

// FitEnd is Fit that cuts at the end: for sentences, whose beginning matters most.
func FitEnd(s string, width int) string {
	return pad(ansi.Truncate(s, max(width, 0), "…"), width)
}
