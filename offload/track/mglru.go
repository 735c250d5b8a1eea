package track

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/offload/heat"
)

const (
	lruGen        = "sys/kernel/debug/lru_gen"
	lruGenEnabled = "sys/kernel/mm/lru_gen/enabled"
)

// walks is the bit of lru_gen/enabled that lets ageing read page tables. Without it ageing makes generations and
// harvests nothing, so that everything looks cold.
const walks = 0x2

// checkMGLRU wants the multi-generational LRU built in, on, with page-table walks, and debugfs mounted.
func checkMGLRU(root string) error {
	b, err := os.ReadFile(filepath.Join(root, lruGenEnabled))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &probe.Missing{Feature: "the multi-generational LRU", Since: "6.1", Do: "use a kernel built with CONFIG_LRU_GEN"}
	case err != nil:
		return fmt.Errorf("track: %w", err)
	}
	caps, err := strconv.ParseUint(strings.TrimSpace(string(b)), 0, 32)
	switch {
	case err != nil:
		return fmt.Errorf("track: %s holds %q: %w", lruGenEnabled, b, proc.ErrFormat)
	case caps&1 == 0:
		return &probe.Missing{Feature: "the multi-generational LRU, built in and switched off,", Since: "6.1",
			Do: "switch it on until the next boot: echo y > /" + lruGenEnabled}
	case caps&walks == 0:
		return &probe.Missing{Feature: "reading page tables by the multi-generational LRU", Since: "6.1",
			Do: "switch it on: echo 0x7 > /" + lruGenEnabled + " (some processors cannot)"}
	}
	f, err := sys.OpenNoFollow(filepath.Join(root, lruGen), os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &probe.Missing{Feature: "a mounted debugfs, where the multi-generational LRU shows its generations,",
			Do: "mount it: mount -t debugfs none /sys/kernel/debug"}
	case errors.Is(err, fs.ErrPermission):
		return errkind.Hint(errkind.New(errkind.Denied, "track: %w", err), "run as root; a kernel locked down for integrity (lockdown=) refuses debugfs even to root")
	case err != nil:
		return fmt.Errorf("track: %w", err)
	}
	return f.Close()
}

// mglru keeps a ladder for each cgroup and node.
type mglru struct {
	root    string
	ladders map[Group]map[int]*heat.Ladder
	age     func(root string, id uint64, node int, max uint64) error // ageGenerations; a test's files do not age by themselves
}

func newMGLRU(root string) *mglru {
	return &mglru{root: root, ladders: map[Group]map[int]*heat.Ladder{}, age: ageGenerations}
}

func (*mglru) name() string { return "mglru" }

func (*mglru) Close() error { return nil }

// scan reads, ages and reads again: what ageing moves between the two reads is what was touched.
func (m *mglru) scan(ctx context.Context, at time.Time, groups []Group, r *Result) error {
	keep(m.ladders, groups)
	wanted := make(map[string]bool, len(groups))
	for _, g := range groups {
		wanted[g.Path] = true
	}
	before, err := m.read(wanted)
	if err != nil {
		return err
	}
	failed := map[string]error{}
	for path, mg := range before {
		for _, n := range mg.nodes {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if len(n.gens) == 0 {
				continue
			}
			if err := m.age(m.root, mg.id, n.node, n.gens[len(n.gens)-1].Seq); err != nil {
				failed[path] = fmt.Errorf("track: age %q: %w", path, err)
			}
		}
	}
	after, err := m.read(wanted)
	if err != nil {
		return err
	}
	for _, g := range groups {
		was, now := before[g.Path], after[g.Path]
		switch {
		case failed[g.Path] != nil:
			r.Errors[g] = failed[g.Path]
		case now == nil:
			r.Errors[g] = errkind.New(errkind.NotFound, "track: %s does not list %q: it is gone, or lies outside this cgroup namespace", lruGen, g.Path)
		case was == nil || was.id != now.id: // made, or made again, while we looked
			delete(m.ladders, g)
		default:
			if reading, ok := m.climb(at, g, was, now); ok {
				r.Readings[g] = reading
			}
		}
	}
	return nil
}

func (m *mglru) climb(at time.Time, g Group, was, now *memcg) (heat.Reading, bool) {
	ladders := m.ladders[g]
	if ladders == nil {
		ladders = map[int]*heat.Ladder{}
		m.ladders[g] = ladders
	}
	var parts []heat.Reading
	for _, n := range now.nodes {
		l := ladders[n.node]
		if l == nil {
			l = new(heat.Ladder)
			ladders[n.node] = l
		}
		var before []heat.Generation
		for _, b := range was.nodes {
			if b.node == n.node {
				before = b.gens
			}
		}
		if part, ok := l.Climb(at, before, n.gens, m.name()); ok {
			parts = append(parts, part)
		}
	}
	return heat.MergeReadings(parts...), len(parts) > 0
}

func (m *mglru) read(wanted map[string]bool) (map[string]*memcg, error) {
	f, err := sys.OpenNoFollow(filepath.Join(m.root, lruGen), os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("track: %w", err)
	}
	defer f.Close()
	found, err := parseLRUGen(f, int64(os.Getpagesize()), wanted)
	if err != nil {
		return nil, fmt.Errorf("track: read %s: %w", lruGen, err)
	}
	return found, nil
}

// memcg is one cgroup in lru_gen.
type memcg struct {
	id    uint64
	nodes []memcgNode
}

type memcgNode struct {
	node int
	gens []heat.Generation // ascending
}

// maxGens is far above the kernel's four, and maxNodes above its 1,024: beyond them the text is not from a kernel.
const (
	maxGens  = 64
	maxNodes = 4096
)

// parseLRUGen reads the text of lru_gen:
//
//	memcg    ID PATH
//	 node     N
//	      SEQ  AGE_MS  ANON_PAGES  FILE_PAGES
//
// and keeps the wanted paths. A dying cgroup is listed under its old path; the kernel lists siblings in the order
// in which they were made, so of two with one path the last one lives.
func parseLRUGen(r io.Reader, page int64, wanted map[string]bool) (map[string]*memcg, error) {
	found := map[string]*memcg{}
	var now *memcg
	lines := newLines(r)
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		word, rest := proc.Field(line)
		switch {
		case len(word) == 0:
		case string(word) == "memcg":
			id, rest := proc.Field(rest)
			n, ok := proc.Uint(id)
			if !ok {
				return nil, badLine(line)
			}
			now = nil
			if path := strings.TrimPrefix(string(rest), " "); wanted[path] {
				now = &memcg{id: n}
				found[path] = now
			}
		case now == nil: // of a cgroup nobody asked for
		case string(word) == "node":
			number, _ := proc.Field(rest)
			n, ok := proc.Uint(number)
			if !ok || n > maxNodes || len(now.nodes) >= maxNodes {
				return nil, badLine(line)
			}
			now.nodes = append(now.nodes, memcgNode{node: int(n)})
		default:
			if err := now.generation(line, word, rest, page); err != nil {
				return nil, err
			}
		}
	}
}

func (m *memcg) generation(line, word, rest []byte, page int64) error {
	if len(m.nodes) == 0 {
		return badLine(line)
	}
	n := &m.nodes[len(m.nodes)-1]
	var v [4]uint64
	for i := range v {
		if i > 0 {
			word, rest = proc.Field(rest)
		}
		if k := len(word); k > 1 && word[k-1] == 'x' { // the generation is not valid for this type any more
			word = word[:k-1]
		}
		ok := false
		if v[i], ok = proc.Uint(word); !ok {
			return badLine(line)
		}
	}
	const most = 1 << 40 // milliseconds: 35 years; pages: beyond any machine
	if v[1] > most || v[2] > most || v[3] > most || len(n.gens) >= maxGens || len(n.gens) > 0 && n.gens[len(n.gens)-1].Seq >= v[0] {
		return badLine(line)
	}
	n.gens = append(n.gens, heat.Generation{Seq: v[0], Age: time.Duration(v[1]) * time.Millisecond, Bytes: int64(v[2]+v[3]) * page})
	return nil
}

func badLine(line []byte) error {
	return fmt.Errorf("line %q: %w", string(line[:min(len(line), 200)]), proc.ErrFormat)
}

// lines reads a kernel's text line by line in bounded memory; what a line has beyond the buffer is dropped.
type lines struct {
	r    *bufio.Reader
	cut  bool  // the last line was longer than the buffer
	seen int64 // bytes read
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 32<<10)} }

// next returns the next line without its end, valid until the next call, and io.EOF after the last.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	l.seen += int64(len(line))
	l.cut = errors.Is(err, bufio.ErrBufferFull)
	if l.cut {
		line = append([]byte(nil), line...) // the rest goes into the same buffer
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		var more []byte
		more, err = l.r.ReadSlice('\n')
		l.seen += int64(len(more))
	}
	switch {
	case errors.Is(err, io.EOF) && len(line) > 0:
		return line, nil
	case err != nil:
		return nil, err
	}
	if l.cut {
		return line, nil
	}
	return line[:len(line)-1], nil
}
