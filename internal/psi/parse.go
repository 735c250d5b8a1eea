package psi

import (
	"bytes"
	"fmt"

	"github.com/spillway-io/spillway/internal/proc"
)

// Parse reads the text of a pressure file. A line that a kernel does not have (full for CPU before 5.13,
// some for IRQ) leaves its total at zero; a text with neither line is proc.ErrFormat. It allocates nothing.
func Parse(b []byte) (Totals, error) {
	var t Totals
	found := false
	for len(b) > 0 {
		var line []byte
		line, b = proc.Line(b)
		kind, rest := proc.Field(line)
		var dst *uint64
		switch string(kind) {
		case "some":
			dst = &t.Some
		case "full":
			dst = &t.Full
		default:
			continue
		}
		n, ok := total(rest)
		if !ok {
			return Totals{}, fmt.Errorf("psi: parse line %q: %w", string(line), proc.ErrFormat)
		}
		*dst, found = n, true
	}
	if !found {
		return Totals{}, fmt.Errorf("psi: parse: neither some nor full: %w", proc.ErrFormat)
	}
	return t, nil
}

var totalKey = []byte("total=")

func total(b []byte) (uint64, bool) {
	for {
		var field []byte
		field, b = proc.Field(b)
		if len(field) == 0 {
			return 0, false
		}
		if value, ok := bytes.CutPrefix(field, totalKey); ok {
			return proc.Uint(value)
		}
	}
}
