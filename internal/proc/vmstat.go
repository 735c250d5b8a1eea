package proc

import "fmt"

// ParseVmstat reads the text of /proc/vmstat into v, which is zeroed first. Lines it does not know are
// skipped; a text without pgmajfault is ErrFormat. Before Linux 5.9 the kernel has one workingset_refault,
// for files only; it lands in RefaultFile. It allocates nothing.
//
// Steal and Scan are the anon and file lines, which count reclaim inside cgroups, too. Kernels before 5.8 do
// not have them; there it is the lines by path, which leave that out.
func ParseVmstat(b []byte, v *Vmstat) error {
	*v = Vmstat{}
	var byPath Vmstat
	faults, byType := false, false
	for len(b) > 0 {
		var line []byte
		line, b = Line(b)
		key, rest := Field(line)
		dst := vmstatField(v, &byPath, key)
		if dst == nil {
			continue
		}
		value, _ := Field(rest)
		n, ok := Uint(value)
		if !ok {
			return fmt.Errorf("proc: parse vmstat line %q: %w", string(line), ErrFormat)
		}
		*dst += n // Steal and Scan have several lines
		faults = faults || dst == &v.MajorFaults
		byType = byType || dst == &v.Steal
	}
	if !faults {
		return fmt.Errorf("proc: parse vmstat: no pgmajfault: %w", ErrFormat)
	}
	if !byType {
		v.Steal, v.Scan = byPath.Steal, byPath.Scan
	}
	return nil
}

func vmstatField(v, byPath *Vmstat, key []byte) *uint64 {
	switch string(key) {
	case "pswpin":
		return &v.PswpIn
	case "pswpout":
		return &v.PswpOut
	case "zswpin":
		return &v.ZswpIn
	case "zswpout":
		return &v.ZswpOut
	case "zswpwb":
		return &v.ZswpWb
	case "pgmajfault":
		return &v.MajorFaults
	case "workingset_refault_anon":
		return &v.RefaultAnon
	case "workingset_refault_file", "workingset_refault":
		return &v.RefaultFile
	case "pgsteal_anon", "pgsteal_file":
		return &v.Steal
	case "pgscan_anon", "pgscan_file":
		return &v.Scan
	case "pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged", "pgsteal_proactive":
		return &byPath.Steal
	case "pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged", "pgscan_proactive":
		return &byPath.Scan
	}
	return nil
}
