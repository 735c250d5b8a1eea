package proc

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Mount is one line of /proc/self/mountinfo.
type Mount struct {
	Root    string // which directory of the file system is mounted, "/" for all of it
	Dir     string // where, as the process sees it
	Type    string
	Options []string // of the file system; for a v1 cgroup mount its controllers are among them
}

// HasOption says whether the file system was mounted with the option.
func (m Mount) HasOption(name string) bool { return slices.Contains(m.Options, name) }

// ReadMounts reads <root>/proc/self/mountinfo in the order of mounting.
func ReadMounts(root string) ([]Mount, error) {
	b, err := readFile(root, "proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return ParseMounts(b)
}

// ParseMounts reads the text of a mountinfo file.
func ParseMounts(b []byte) ([]Mount, error) {
	var mounts []Mount
	for len(b) > 0 {
		var line []byte
		line, b = Line(b)
		if len(line) == 0 {
			continue
		}
		m, ok := parseMount(line)
		if !ok {
			return nil, fmt.Errorf("proc: parse mountinfo line %q: %w", line, ErrFormat)
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// parseMount: id parent major:minor root dir options [tags…] - type source superoptions
func parseMount(line []byte) (m Mount, ok bool) {
	before, after, ok := bytes.Cut(line, []byte(" - "))
	if !ok {
		return m, false
	}
	var root, dir []byte
	for range 3 {
		_, before = Field(before)
	}
	root, before = Field(before)
	dir, _ = Field(before)
	kind, after := Field(after)
	_, after = Field(after)
	options, _ := Field(after)
	if len(root) == 0 || len(dir) == 0 || len(kind) == 0 {
		return m, false
	}
	return Mount{Root: unescape(root), Dir: unescape(dir), Type: string(kind), Options: strings.Split(string(options), ",")}, true
}
