package proc

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// ParseSwaps reads the text of /proc/swaps. Paths are unescaped; an area whose file was removed keeps the
// kernel's " (deleted)" at the end of its path.
func ParseSwaps(b []byte) ([]SwapArea, error) {
	header, b := Line(b)
	if !bytes.HasPrefix(header, []byte("Filename")) {
		return nil, fmt.Errorf("proc: parse swaps: no header: %w", ErrFormat)
	}
	var areas []SwapArea
	for len(b) > 0 {
		var line []byte
		line, b = Line(b)
		area, ok := parseSwap(line)
		if !ok {
			return nil, fmt.Errorf("proc: parse swaps line %q: %w", line, ErrFormat)
		}
		areas = append(areas, area)
	}
	return areas, nil
}

func parseSwap(line []byte) (a SwapArea, ok bool) {
	path, rest := Field(line)
	kind, rest := Field(rest)
	size, rest := Field(rest)
	used, rest := Field(rest)
	priority, rest := Field(rest)
	if extra, _ := Field(rest); len(extra) > 0 {
		return a, false
	}
	sizeKiB, okSize := Uint(size)
	usedKiB, okUsed := Uint(used)
	prio, err := strconv.Atoi(string(priority))
	a = SwapArea{Path: unescape(path), File: string(kind) == "file", Priority: prio}
	if !okSize || !okUsed || err != nil || prio > math.MaxInt16 || prio < math.MinInt32 {
		return a, false
	}
	if a.Size, ok = kibibytes(sizeKiB); !ok {
		return a, false
	}
	a.Used, ok = kibibytes(usedKiB)
	return a, ok
}

// unescape undoes the kernel's octal escapes (\040 for a blank) in a path.
func unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+3 < len(b) && octal(b[i+1]) && b[i+1] < '4' && octal(b[i+2]) && octal(b[i+3]) {
			out = append(out, (b[i+1]-'0')<<6|(b[i+2]-'0')<<3|(b[i+3]-'0'))
			i += 3
			continue
		}
		out = append(out, b[i])
	}
	return string(out)
}

func octal(c byte) bool { return c >= '0' && c <= '7' }
