package proc

import "fmt"

// ParseMeminfo reads the text of /proc/meminfo into m, which is zeroed first. Lines it does not know are
// skipped; a text without MemTotal is ErrFormat. It allocates nothing.
func ParseMeminfo(b []byte, m *Meminfo) error {
	*m = Meminfo{}
	for len(b) > 0 {
		var line []byte
		line, b = Line(b)
		key, rest := Field(line)
		dst := meminfoField(m, key)
		if dst == nil {
			continue
		}
		value, _ := Field(rest)
		n, ok := Uint(value)
		if ok {
			*dst, ok = kibibytes(n)
		}
		if !ok {
			return fmt.Errorf("proc: parse meminfo line %q: %w", string(line), ErrFormat)
		}
	}
	if m.Total == 0 {
		return fmt.Errorf("proc: parse meminfo: no MemTotal: %w", ErrFormat)
	}
	return nil
}

func meminfoField(m *Meminfo, key []byte) *int64 {
	switch string(key) {
	case "MemTotal:":
		return &m.Total
	case "MemFree:":
		return &m.Free
	case "MemAvailable:":
		return &m.Available
	case "SwapTotal:":
		return &m.SwapTotal
	case "SwapFree:":
		return &m.SwapFree
	case "SwapCached:":
		return &m.SwapCached
	case "Zswap:":
		return &m.Zswap
	case "Zswapped:":
		return &m.Zswapped
	case "AnonPages:":
		return &m.AnonPages
	case "Cached:":
		return &m.Cached
	case "SReclaimable:":
		return &m.SReclaimable
	case "SUnreclaim:":
		return &m.SUnreclaim
	case "Percpu:":
		return &m.Percpu
	}
	return nil
}
