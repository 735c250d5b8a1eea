package proc

import (
	"bytes"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Membership says in which cgroups a process sits, as paths in the reader's cgroup namespace.
// A path is "" when the process is in no hierarchy of that sort.
type Membership struct {
	Memory  string // of the hierarchy with the memory controller, whichever version
	Unified string // of the cgroup2 hierarchy
}

// ReadMembership reads <root>/proc/<pid>/cgroup; pid 0 is the reader itself.
func ReadMembership(root string, pid int) (Membership, error) {
	name := "self"
	if pid != 0 {
		name = strconv.Itoa(pid)
	}
	b, err := readFile(root, "proc/"+name+"/cgroup")
	if err != nil {
		return Membership{}, err
	}
	return ParseMembership(b)
}

// UnifiedPath is the path of process pid (0: this one) in the cgroup2 hierarchy. An error that
// errors.Is fs.ErrNotExist says that the process, its cgroup or the hierarchy is gone or never was.
func UnifiedPath(root string, pid int) (string, error) {
	m, err := ReadMembership(root, pid)
	if err != nil {
		return "", err
	}
	return present(m.Unified, pid, "cgroup2")
}

// MemoryPath is the path of process pid (0: this one) in the hierarchy that carries the memory controller.
func MemoryPath(root string, pid int) (string, error) {
	m, err := ReadMembership(root, pid)
	if err != nil {
		return "", err
	}
	if m.Memory == "" { // no v1 memory hierarchy: cgroup2 carries the controller
		return present(m.Unified, pid, "memory cgroup")
	}
	return present(m.Memory, pid, "memory cgroup")
}

// present refuses the two answers that name no directory: nothing at all, and the kernel's mark on a
// removed cgroup. A path with "..", which points above the reader's cgroup namespace, names none either.
func present(path string, pid int, what string) (string, error) {
	switch {
	case path == "":
		return "", fmt.Errorf("proc: process %d is in no %s: %w", pid, what, fs.ErrNotExist)
	case strings.HasSuffix(path, " (deleted)"):
		return "", fmt.Errorf("proc: %s of process %d was removed: %w", what, pid, fs.ErrNotExist)
	case strings.HasPrefix(path, "/.."):
		return "", fmt.Errorf("proc: %s of process %d lies outside this cgroup namespace: %w", what, pid, fs.ErrNotExist)
	}
	return path, nil
}

// ParseMembership reads the text of /proc/PID/cgroup. Memory stays empty when only cgroup2 is there.
func ParseMembership(b []byte) (Membership, error) {
	var m Membership
	for len(b) > 0 {
		var line []byte
		line, b = Line(b)
		if len(line) == 0 {
			continue
		}
		id, rest, ok := bytes.Cut(line, []byte(":"))
		controllers, path, okToo := bytes.Cut(rest, []byte(":"))
		if _, isNumber := Uint(id); !ok || !okToo || !isNumber || len(path) == 0 || path[0] != '/' {
			return Membership{}, fmt.Errorf("proc: parse cgroup line %q: %w", line, ErrFormat)
		}
		switch {
		case string(id) == "0" && len(controllers) == 0:
			m.Unified = string(path)
		case hasController(controllers, "memory"):
			m.Memory = string(path)
		}
	}
	return m, nil
}

func hasController(list []byte, name string) bool {
	for c := range bytes.SplitSeq(list, []byte(",")) {
		if string(c) == name {
			return true
		}
	}
	return false
}
