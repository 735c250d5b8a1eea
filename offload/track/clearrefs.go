package track

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/offload/heat"
)

const (
	// maxProcs is how many processes of one cgroup are looked at; one with more has no reading.
	maxProcs = 4096
	// maxSmaps bounds the text about one process, about 90,000 mappings: reading more would take a second.
	maxSmaps = 64 << 20
	// mostResident is more than any process has, a pebibyte: beyond it the text is not from a kernel.
	mostResident = 1 << 50
)

func checkClearRefs(root string) error {
	for _, name := range []string{"proc/self/smaps", "proc/self/clear_refs"} {
		_, err := os.Stat(filepath.Join(root, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &probe.Missing{Feature: "/proc/PID/clear_refs and smaps", Since: "2.6.22", Do: "use a kernel built with CONFIG_PROC_PAGE_MONITOR"}
		case err != nil:
			return fmt.Errorf("track: %w", err)
		}
	}
	return nil
}

// clearRefs clears the referenced bits of each process once an epoch and reads how many are set again.
//
// It counts memory that one process alone has mapped. What several processes map is never called cold: each has a
// bit of its own, and an unset one says nothing about the others. Page cache that nobody maps is not seen at all.
type clearRefs struct {
	root   string
	h      cgroup.Hierarchy
	epochs map[Group]*heat.Epochs
}

func newClearRefs(root string, h cgroup.Hierarchy) *clearRefs {
	return &clearRefs{root: root, h: h, epochs: map[Group]*heat.Epochs{}}
}

func (*clearRefs) name() string { return "clear-refs" }

func (*clearRefs) Close() error { return nil }

func (c *clearRefs) scan(ctx context.Context, at time.Time, groups []Group, r *Result) error {
	keep(c.epochs, groups)
	for _, g := range groups {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.look(ctx, at, g, r); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r.Errors[g] = err
		}
	}
	return nil
}

func (c *clearRefs) look(ctx context.Context, at time.Time, g Group, r *Result) error {
	pids, err := c.procs(g)
	if err != nil {
		delete(c.epochs, g)
		return err
	}
	e := c.epochs[g]
	if e == nil {
		e = new(heat.Epochs)
	} else {
		s, err := c.sight(ctx, g, pids)
		if err != nil {
			return err
		}
		r.Readings[g] = e.See(at, s, c.name())
	}
	if !e.Over(at) {
		return nil
	}
	for _, pid := range pids {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := clearReferenced(c.root, c.h, pid, g.Path); err != nil && !ended(err) {
			delete(c.epochs, g)
			return errkind.Hint(fmt.Errorf("track: clear referenced bits of process %d in %q: %w", pid, g.Path, err), "run as root")
		}
	}
	e.Cleared(at)
	c.epochs[g] = e
	return nil
}

func (c *clearRefs) procs(g Group) ([]int, error) {
	group, err := c.h.Open(g.Path)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	if group.Inode() != g.Inode {
		return nil, fmt.Errorf("track: %q: %w", g.Path, cgroup.ErrGone)
	}
	pids, err := group.Procs(maxProcs + 1)
	if err == nil && len(pids) > maxProcs {
		err = errkind.New(errkind.Unsupported, "track: %q has more than %d processes, too many to read one by one", g.Path, maxProcs)
	}
	return pids, err
}

// sight adds up the processes. One that ends meanwhile is left out, and so are its pages a moment later.
func (c *clearRefs) sight(ctx context.Context, g Group, pids []int) (sum heat.Sight, err error) {
	for _, pid := range pids {
		if ctx.Err() != nil {
			return sum, context.Cause(ctx)
		}
		s, err := c.smaps(pid)
		if err != nil && !ended(err) {
			return sum, fmt.Errorf("track: read smaps of process %d in %q: %w", pid, g.Path, err)
		}
		sum.Total += s.Total
		sum.Idle += s.Idle
		sum.Touched += s.Touched
	}
	return sum, nil
}

func (c *clearRefs) smaps(pid int) (heat.Sight, error) {
	f, err := sys.OpenNoFollow(filepath.Join(c.root, "proc", strconv.Itoa(pid), "smaps"), os.O_RDONLY, 0)
	if err != nil {
		return heat.Sight{}, err
	}
	defer f.Close()
	return parseSmaps(f)
}

// ended says that a process was gone, or had left, before it could be looked at.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, sys.ESRCH) }

// parseSmaps sums the mappings of a process. Total is its share of resident memory (Pss). Of a mapping, the memory
// that is private and exceeds what is referenced is surely idle.
func parseSmaps(r io.Reader) (sum heat.Sight, err error) {
	var pss, private, referenced int64
	flush := func() {
		sum.Total += pss
		sum.Idle += max(private-referenced, 0)
		sum.Touched += min(private, referenced)
		pss, private, referenced = 0, 0, 0
	}
	lines := newLines(r)
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			flush()
			sum.Idle = min(sum.Idle, sum.Total) // Pss is rounded down
			return sum, nil
		}
		if err != nil {
			return heat.Sight{}, err
		}
		if lines.seen > maxSmaps {
			return heat.Sight{}, fmt.Errorf("more than %d bytes about its mappings: %w", maxSmaps, proc.ErrFormat)
		}
		if len(line) == 0 {
			continue
		}
		if line[0] < 'A' || line[0] > 'Z' { // the head of a mapping begins with its address, a hexadecimal number
			flush()
			continue
		}
		key, rest, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return heat.Sight{}, badLine(line)
		}
		var dst *int64
		switch string(key) {
		case "Pss":
			dst = &pss
		case "Private_Clean", "Private_Dirty":
			dst = &private
		case "Referenced":
			dst = &referenced
		default:
			continue
		}
		number, unit := proc.Field(rest)
		n, ok := proc.Uint(number)
		if word, _ := proc.Field(unit); !ok || string(word) != "kB" || n > 1<<40 {
			return heat.Sight{}, badLine(line)
		}
		if *dst += int64(n) << 10; *dst > mostResident || sum.Total > mostResident {
			return heat.Sight{}, badLine(line)
		}
	}
}
