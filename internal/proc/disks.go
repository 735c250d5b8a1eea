package proc

import (
	"fmt"
	"math"
	"time"
)

// ParseDisks reads the text of /proc/diskstats, partitions included, in the kernel's order.
func ParseDisks(b []byte) ([]Disk, error) {
	var disks []Disk
	for len(b) > 0 {
		var line []byte
		line, b = Line(b)
		if len(line) == 0 {
			continue
		}
		d, ok := parseDisk(line)
		if !ok {
			return nil, fmt.Errorf("proc: parse diskstats line %q: %w", line, ErrFormat)
		}
		disks = append(disks, d)
	}
	return disks, nil
}

// parseDisk counts columns as the kernel's iostats.rst does: after major, minor and name, column 3 is
// sectors read, 7 sectors written, 10 milliseconds with I/O in flight.
func parseDisk(line []byte) (d Disk, ok bool) {
	_, rest := Field(line)
	_, rest = Field(rest)
	name, rest := Field(rest)
	d.Name = string(name)
	for column := 1; column <= 10; column++ {
		var field []byte
		field, rest = Field(rest)
		n, ok := Uint(field)
		if !ok {
			return d, false
		}
		switch column {
		case 3:
			d.SectorsRead = n
		case 7:
			d.SectorsWritten = n
		case 10:
			if n > math.MaxInt64/uint64(time.Millisecond) {
				return d, false
			}
			d.IOTime = time.Duration(n) * time.Millisecond
		}
	}
	return d, d.Name != ""
}
