package archtest

import (
	"path"
	"slices"
	"strings"
)

// The map: what stands on which floor. A package may import its own floor and the ones below.
const (
	pure     = iota // no system call
	linux           // one kernel interface each
	services        // shared by all rooms
	rooms           // and web
	commands
)

var floors = map[string]int{
	"bytesize": pure, "page": pure, "undo": pure, "invariant": pure, "errkind": pure,
	"sys": linux, "cgroup": linux, "psi": linux, "proc": linux, "mmap": linux, "uffd": linux, "swap": linux, "probe": linux,
	"metric": services, "transport": services, "admin": services, "daemon": services, "cli": services, "journal": services, "worker": services,
}

var floorNames = [...]string{"floor 0 (pure)", "floor 1 (Linux)", "floor 2 (services)", "the rooms", "cmd"}

var roomNames = []string{"offload", "reaper", "farmem", "dspm", "microvm", "gpushare", "train", "doctor"}

// deciding packages take samples and return decisions.
var deciding = []string{"offload/policy", "offload/class", "offload/mix", "offload/heat", "offload/sim", "offload/replay", "offload/endurance", "offload/rightsize", "offload/sensitivity", "gpushare/fit", "dspm/commit", "train/amp", "doctor/rules"}

// doors may call the kernel.
var doors = []string{"internal/sys", "internal/cgroup", "internal/psi", "internal/mmap", "internal/uffd", "internal/proc", "internal/swap", "internal/probe"}

// below says whether rel is one of the folders or inside one.
func below(rel string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return rel == f || strings.HasPrefix(rel, f+"/") })
}

// room is the first path segment of a package that belongs to a room or to web, else "".
func room(rel string) string {
	first, _, _ := strings.Cut(rel, "/")
	if first == "web" || slices.Contains(roomNames, first) {
		return first
	}
	return ""
}

// testOnly packages serve tests; product code does not import them.
func testOnly(rel string) bool { return below(rel, "internal/testkit", "internal/archtest") }

// floor places a package; ok is false when it is on no floor.
func floor(rel string) (n int, ok bool) {
	switch {
	case room(rel) != "":
		return rooms, true
	case below(rel, "cmd", "test"):
		return commands, true
	case rel == "deploy":
		return pure, true // embedded files and nothing else
	case testOnly(rel):
		return services, true // what it may import; who may import it is the rule test-only
	}
	if rest, in := strings.CutPrefix(rel, "internal/"); in {
		first, _, _ := strings.Cut(rest, "/")
		n, ok = floors[first]
	}
	return n, ok
}

// Floors checks that imports point down.
func Floors(m *Module) (out []Finding) {
	for _, p := range m.Packages {
		if _, ok := floor(p.Rel); !ok {
			out = append(out, Finding{p.Rel, "is on no floor; put it in a room or add it to the map in internal/archtest/arrows.go"})
		}
	}
	m.imports(func(p *Package, f *File, i Import) {
		if i.Local == "" || f.Test && testOnly(i.Local) {
			return
		}
		from, ok := floor(p.Rel)
		to, known := floor(i.Local)
		if ok && known && to > from {
			out = append(out, f.at(i.Line, "%s imports %s of %s; imports point down", floorNames[from], i.Local, floorNames[to]))
		}
	})
	return out
}

// Rooms checks that a room imports neither another room nor web, and web imports no room; they meet in cmd.
func Rooms(m *Module) (out []Finding) {
	m.imports(func(p *Package, f *File, i Import) {
		if from, to := room(p.Rel), room(i.Local); from != "" && to != "" && from != to {
			out = append(out, f.at(i.Line, "%s imports %s; declare a small interface here and join the two in cmd", from, i.Local))
		}
	})
	return out
}

// TestOnly checks that the product does not carry test helpers.
func TestOnly(m *Module) (out []Finding) {
	m.imports(func(p *Package, f *File, i Import) {
		if !f.Test && testOnly(i.Local) && !testOnly(p.Rel) {
			out = append(out, f.at(i.Line, "imports %s, which is for tests", i.Local))
		}
	})
	return out
}

// allowed in a package that decides: calculation and text, nothing that reads a file, a clock or the network.
var calculating = []string{
	"bytes", "cmp", "container/heap", "context", "encoding/json", "errors", "fmt", "io", "iter", "maps", "math", "math/bits", "math/cmplx", "math/rand/v2",
	"regexp", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8",
}

var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

// seeded are the names of math/rand/v2 that do not draw from the process's own source.
var seeded = []string{"Rand", "New", "NewPCG", "PCG", "NewChaCha8", "ChaCha8", "Zipf", "NewZipf", "Source"}

// Deciding checks that what decides is pure, so that every behaviour is a data file.
func Deciding(m *Module) (out []Finding) {
	m.files(func(p *Package, f *File) {
		if f.Test || !below(p.Rel, deciding...) {
			return
		}
		for _, i := range f.Imports {
			n, ok := floor(i.Local)
			switch {
			case slices.Contains(calculating, i.Path), i.Local != "" && below(i.Local, deciding...):
			case i.Local == "" || !ok || n != pure:
				out = append(out, f.at(i.Line, "a deciding package imports %s; take what it needs as a sample instead", i.Path))
			}
		}
		f.uses(f.ast, "time", func(name string, line int) {
			if slices.Contains(clocks, name) {
				out = append(out, f.at(line, "a deciding package calls time.%s; take the time as part of the sample", name))
			}
		})
		f.uses(f.ast, "context", func(name string, line int) {
			if strings.HasPrefix(name, "WithTimeout") || strings.HasPrefix(name, "WithDeadline") {
				out = append(out, f.at(line, "a deciding package calls context.%s, which reads the clock; let the caller do it", name))
			}
		})
		f.uses(f.ast, "math/rand/v2", func(name string, line int) {
			if !slices.Contains(seeded, name) {
				out = append(out, f.at(line, "a deciding package calls rand.%s; draw from a seeded *rand.Rand", name))
			}
		})
	})
	return out
}

// Kernel checks that system calls have one door.
func Kernel(m *Module) (out []Finding) {
	m.imports(func(p *Package, f *File, i Import) {
		if (i.Path == "golang.org/x/sys/unix" || i.Path == "syscall") && !f.Test && !below(p.Rel, doors...) {
			out = append(out, f.at(i.Line, "imports %s; call internal/sys", i.Path))
		}
	})
	return out
}

// Unsafe checks that a file name tells a reader where memory safety ends.
func Unsafe(m *Module) (out []Finding) {
	m.imports(func(_ *Package, f *File, i Import) {
		if i.Path != "unsafe" {
			return
		}
		stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.Rel), ".go"), "_test")
		for _, suffix := range []string{"_linux", "_other", "_amd64", "_arm64"} {
			stem = strings.TrimSuffix(stem, suffix)
		}
		for _, suffix := range []string{"_linux", "_other"} { // before an architecture
			stem = strings.TrimSuffix(stem, suffix)
		}
		if !strings.HasSuffix(stem, "_unsafe") {
			out = append(out, f.at(i.Line, "imports unsafe; move it to a file named *_unsafe.go or *_unsafe_linux.go"))
		}
	})
	return out
}

// fenced libraries stay in the folders that cannot do without them.
var fenced = []struct {
	prefix  string
	folders []string
}{
	{"github.com/containerd/", []string{"microvm/shim", "microvm/guest", "microvm/guestapi", "cmd/containerd-shim-spillway-v2"}},
	{"k8s.io/", []string{"gpushare/extender", "gpushare/deviceplugin", "cmd/spillway-gpu"}},
}

// Fences checks that large libraries stay with those who need them.
func Fences(m *Module) (out []Finding) {
	m.imports(func(p *Package, f *File, i Import) {
		for _, fence := range fenced {
			if strings.HasPrefix(i.Path, fence.prefix) && !below(p.Rel, fence.folders...) {
				out = append(out, f.at(i.Line, "imports %s; only %s may", i.Path, strings.Join(fence.folders, ", ")))
			}
		}
	})
	return out
}
