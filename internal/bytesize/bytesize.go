// Package bytesize is the one way Spillway reads and prints amounts of memory.
//
// A Size is a count of bytes. Text carries a binary unit (B, KiB, MiB, GiB, TiB); a bare number is
// refused on input, because a knob whose unit must be guessed is a knob set wrongly one day.
package bytesize

// Size is an amount of memory in bytes. Negative sizes are differences; parsing never yields one.
type Size int64

// The binary units. There are no decimal units: kernels, cgroups and this project count in powers of two.
const (
	B   Size = 1
	KiB      = 1024 * B
	MiB      = 1024 * KiB
	GiB      = 1024 * MiB
	TiB      = 1024 * GiB
)
