package worker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
)

// noRoom explains a swapoff that ended for want of memory. The machine had enough, or it would not have begun: then
// mostly a cgroup is at its own limit, and its pages, which come back to it alone, do not fit. cause is that swapoff's
// error.
func (m *machine) noRoom(cause error) error {
	full := m.overLimit()
	if len(full) == 0 {
		return fmt.Errorf("worker: %w", cause)
	}
	const named = 3
	var b strings.Builder
	for i, f := range full[:min(named, len(full))] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.200q (%v here and %v in swap, limit %v)", f.path, bytesize.Size(f.usage), bytesize.Size(f.swap), bytesize.Size(f.limit))
	}
	if more := len(full) - named; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return errkind.Hint(errkind.New(errkind.Exhausted, "worker: %w; what is in swap does not fit below the limit of %s", cause, b.String()),
		"raise those limits or end what runs there, then run: spillway restore")
}

// overfull is a cgroup that cannot hold what it has in memory and in swap. Sizes are bytes.
type overfull struct {
	path               string
	usage, swap, limit int64
}

func (f overfull) lacks() int64 { return f.usage + f.swap - f.limit }

// overLimit finds them, those that lack most first. All their swap counts, whichever area it is in: the kernel does not
// say. Where v1 shows an ancestor's limit as the cgroup's own, the ancestor stands for both. What cannot be read is
// left out.
func (m *machine) overLimit() (full []overfull) {
	if m.hErr != nil {
		return nil
	}
	list, err := m.h.List()
	if err != nil {
		m.log.Warn("cannot look for cgroups at their limits", "error", err)
		return nil
	}
	for _, e := range list { // sorted by path: ancestors come first
		s, err := m.statOf(e.Path)
		f := overfull{e.Path, s.Usage, s.Swap, s.Limit}
		if err != nil || s.Limit == cgroup.Unlimited || s.Swap == 0 || f.lacks() <= 0 {
			continue
		}
		inherited := m.h.Mode != cgroup.V2 && slices.ContainsFunc(full, func(a overfull) bool {
			return a.limit == f.limit && strings.HasPrefix(f.path, strings.TrimSuffix(a.path, "/")+"/")
		})
		if !inherited {
			full = append(full, f)
		}
	}
	slices.SortStableFunc(full, func(a, b overfull) int { return cmp.Compare(b.lacks(), a.lacks()) })
	return full
}

func (m *machine) statOf(path string) (s cgroup.Stat, err error) {
	g, err := m.h.Open(path)
	if err != nil {
		return s, err
	}
	defer g.Close()
	err = g.Stat(&s)
	return s, err
}
