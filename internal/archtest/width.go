package archtest

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// A comment has a line of its own and is read, not scanned; code may be as wide as it must.
const (
	maxWidth = 120 // columns
	tabWidth = 4
)

// CommentWidth checks that comments fit the screen they are read on.
func CommentWidth(m *Module) (out []Finding) {
	m.files(func(_ *Package, f *File) {
		for _, line := range f.wide {
			out = append(out, f.at(line, "a comment is wider than %d columns (a tab is %d); wrap it", maxWidth, tabWidth))
		}
	})
	return out
}

// wideComments lists the lines of f that hold nothing but comment and are too wide. Directives (//go:…) and a single
// long word, such as an address, cannot be wrapped. Comments behind code are not looked at.
func wideComments(f *File, src []byte) (wide []int) {
	lines := bytes.Split(src, []byte("\n"))
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			first, last := f.line(c.Pos()), f.line(c.End()-1)
			if strings.HasPrefix(c.Text, "//go:") || strings.TrimSpace(string(lines[first-1][:f.fset.Position(c.Pos()).Column-1])) != "" {
				continue
			}
			for n := first; n <= last; n++ {
				line := bytes.TrimRight(lines[n-1], "\r")
				if columns(line) > maxWidth && len(bytes.Fields(bytes.TrimLeft(line, "\t /*"))) > 1 {
					wide = append(wide, n)
				}
			}
		}
	}
	return wide
}

func columns(line []byte) (n int) {
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if line = line[size:]; r == '\t' {
			n += tabWidth - n%tabWidth
		} else {
			n++
		}
	}
	return n
}
