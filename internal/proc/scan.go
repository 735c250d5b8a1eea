package proc

import (
	"bytes"
	"errors"
	"math"
)

// ErrFormat says that a kernel file does not look like any version of it known to this package.
var ErrFormat = errors.New("not in the expected format")

// Line cuts the first line off b. Nothing is copied.
func Line(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// Field cuts the first run of non-blanks off b; it is empty at the end of b. Nothing is copied.
func Field(b []byte) (field, rest []byte) {
	start := 0
	for start < len(b) && (b[start] == ' ' || b[start] == '\t') {
		start++
	}
	end := start
	for end < len(b) && b[end] != ' ' && b[end] != '\t' {
		end++
	}
	return b[start:end], b[end:]
}

// Uint reads all of b as a decimal number; false when it is none or beyond 64 bits. strconv would need a string and so
// an allocation.
func Uint(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// kibibytes turns a count of KiB into bytes; false when no int64 holds them.
func kibibytes(n uint64) (int64, bool) {
	if n > math.MaxInt64>>10 {
		return 0, false
	}
	return int64(n) << 10, true
}
