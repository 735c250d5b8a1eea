// Package track learns from the kernel how recently the memory of cgroups was touched, and hands it to offload/heat.
//
// There are four sources, tried in this order: the generations of the multi-generational LRU (debugfs), the
// idle-page bitmap, DAMON, and clear_refs with smaps. Each is probed; what is missing is a *probe.Missing, and a
// source that somebody else uses is left alone. clear_refs is taken only when the configuration names it.
//
// What it changes: access bits and generations, which the kernel itself changes all the time. Nothing of that needs
// undoing or outlives the last scan, so these writes go neither through the worker nor through the journal; they are
// in write.go and nowhere else. They do influence which pages the kernel reclaims first, so a dry run does not track.
// DAMON's kdamond is different: the worker journals and makes it, switches it on and undoes it (Machine); what is
// written to the files of that kdamond goes with it.
//
// Ownership: a Tracker belongs to one goroutine, Source apart. Failure: a cgroup that vanished or cannot be read has no
// reading in that scan; an error of Scan says that the source itself failed. After one that cannot be used any more,
// auto goes on with the next that works. Every file is opened below a root that a test replaces. Non-goals: mounting
// debugfs, sharing DAMON, switching the LRU, inner cgroups (leaves only).
package track

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/offload/heat"
)

// Kind names a source in the configuration.
type Kind string

const (
	Auto      Kind = "auto"       // the first that works, clear-refs only with Config.ClearRefs
	MGLRU     Kind = "mglru"      // /sys/kernel/debug/lru_gen
	Idle      Kind = "idle"       // /sys/kernel/mm/page_idle/bitmap
	DAMON     Kind = "damon"      // /sys/kernel/mm/damon/admin, needs a Machine
	ClearRefs Kind = "clear-refs" // /proc/PID/clear_refs and smaps
	Off       Kind = "off"
)

// Kinds are all values of Config.Source, in the order of preference.
func Kinds() []Kind { return []Kind{Auto, MGLRU, Idle, DAMON, ClearRefs, Off} }

// Config is the `heat:` part of the configuration. The zero value works.
type Config struct {
	// Source is one of Kinds. Default auto.
	Source Kind `yaml:"source"`
	// Every is the distance of two scans, 10s to 30m. Default 2m, the scan period of g-swap: short enough for a
	// working set, long enough to cost little.
	Every time.Duration `yaml:"every"`
	// ClearRefs lets auto fall back on clear_refs. Default false: clearing a process's referenced bits once an hour
	// takes them from the kernel's own reclaim, too, and holds the process up for about 15 ms a GiB.
	ClearRefs bool `yaml:"clear_refs"`
}

// Resolved fills in defaults and refuses what cannot work.
func (c Config) Resolved() (Config, error) {
	c.Source = cmp.Or(c.Source, Auto)
	c.Every = cmp.Or(c.Every, heat.WorkingSetIdle)
	if err := c.Source.check(); err != nil {
		return c, err
	}
	if c.Every < 10*time.Second || c.Every > 30*time.Minute {
		return c, errkind.Hint(errkind.New(errkind.Invalid, "track: heat.every %v is outside 10s to 30m", c.Every), "2m is the default")
	}
	return c, nil
}

func (k Kind) check() error {
	names := make([]string, 0, len(Kinds()))
	for _, known := range Kinds() {
		if k == known {
			return nil
		}
		names = append(names, string(known))
	}
	return errkind.Hint(errkind.New(errkind.Invalid, "track: heat source %q is unknown", string(k)), "use one of %s", strings.Join(names, ", "))
}

// Group is a cgroup without children, as cgroup.Entry has it.
type Group struct {
	Path  string
	Inode uint64
}

// Result is what one scan found.
type Result struct {
	Readings map[Group]heat.Reading // none for a cgroup seen for the first time by a source that needs two scans
	Errors   map[Group]error        // why a cgroup has no reading
	CPU      time.Duration          // processor time that the scan cost this machine, the kernel's part included
}

// source is one way to learn. scan forgets what it kept of groups that are not asked for any more.
type source interface {
	name() string
	scan(ctx context.Context, at time.Time, groups []Group, r *Result) error
	Close() error
}

// Tracker scans with one source.
type Tracker struct {
	next func() (source, error) // what auto tries after a source that is given up; nil: nothing

	mu  sync.Mutex
	src source // written by the owner under mu, so that Source may be asked at any time
}

// Open finds the source that c asks for below root ("/" in production). If none is to be had the error is of kind
// Unsupported, says of each why, and its hint is what to do about the first. Off is such an error, too. w sets up
// DAMON's kdamond; without it DAMON is not to be had.
func Open(root string, h cgroup.Hierarchy, c Config, w Machine) (*Tracker, error) {
	c.Source = cmp.Or(c.Source, Auto)
	if err := c.Source.check(); err != nil {
		return nil, err
	}
	if c.Source == Off {
		return nil, errkind.Hint(errkind.New(errkind.Unsupported, "track: access tracking is off"), "set heat.source in the configuration")
	}
	if c.Source != Auto {
		src, err := open(root, h, c.Source, w)
		if err != nil {
			return nil, err
		}
		return &Tracker{src: src}, nil
	}
	order := []Kind{MGLRU, Idle, DAMON, ClearRefs}
	var none None
	next := func() (source, error) {
		for len(order) > 0 {
			k := order[0]
			order = order[1:]
			src, err := open(root, h, k, w)
			if err == nil && k == ClearRefs && !c.ClearRefs {
				err = errkind.Hint(errkind.New(errkind.Unsupported, "track: clear-refs is used only when asked for"),
					"set clear_refs: true below offload.heat, or name the source: --source clear-refs")
			}
			if err == nil {
				return src, nil
			}
			none.Reasons = append(none.Reasons, err)
		}
		return nil, &none
	}
	src, err := next()
	if err != nil {
		return nil, err
	}
	return &Tracker{src: src, next: next}, nil
}

// Check says whether source k can be used below root, as far as looking tells: nil, a *probe.Missing, or another
// reason.
func Check(root string, k Kind) error {
	switch k {
	case MGLRU:
		return checkMGLRU(root)
	case DAMON:
		return checkDAMON(root)
	case Idle:
		return checkIdle(root)
	case ClearRefs:
		return checkClearRefs(root)
	}
	return fmt.Errorf("track: %q is no source", string(k))
}

func open(root string, h cgroup.Hierarchy, k Kind, w Machine) (source, error) {
	if err := Check(root, k); err != nil {
		return nil, err
	}
	switch k {
	case MGLRU:
		return newMGLRU(root), nil
	case Idle:
		return newIdleBitmap(root), nil
	case DAMON:
		if w == nil {
			return nil, errkind.Hint(errkind.New(errkind.Unsupported, "track: DAMON is free here, but only the daemon sets it up, because that must be undone"),
				"start it: spillway up; or use another source")
		}
		d := newDAMON(root, h, w)
		return d, d.probe(context.Background())
	}
	return newClearRefs(root, h), nil
}

// None says that no source works here, and why, one reason for each in the order of preference.
type None struct {
	Reasons []error
}

func (n *None) Error() string {
	parts := make([]string, 0, len(n.Reasons))
	for _, err := range n.Reasons {
		parts = append(parts, strings.TrimPrefix(err.Error(), "track: "))
	}
	return "track: no source of access tracking: " + strings.Join(parts, "; ")
}

// Is makes None an errors.ErrUnsupported.
func (n *None) Is(target error) bool { return target == errors.ErrUnsupported }

// Hint is the cheapest cure: the last source in the order needs a setting only.
func (n *None) Hint() string {
	for i := len(n.Reasons) - 1; i >= 0; i-- {
		if h := errkind.HintOf(n.Reasons[i]); h != "" {
			return h
		}
	}
	return ""
}

// Source is the name of the source as readings carry it.
func (t *Tracker) Source() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.src.name()
}

// givenUp stands for a source that cannot be used any more, where there is no other.
type givenUp struct {
	source
	why error
}

func (g givenUp) scan(context.Context, time.Time, []Group, *Result) error { return g.why }

func (givenUp) Close() error { return nil }

// giveUp puts the next source in the place of one that cannot be used any more, and says so.
func (t *Tracker) giveUp(why error) error {
	why = errors.Join(why, t.src.Close())
	var next source = givenUp{t.src, why}
	if t.next != nil {
		if src, err := t.next(); err == nil {
			next = src
			why = fmt.Errorf("%w; going on with %s", why, src.name())
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.src = next
	return why
}

// Scan looks at the groups at the time at, which must not go back. Between groups it heeds ctx.
func (t *Tracker) Scan(ctx context.Context, at time.Time, groups []Group) (Result, error) {
	runtime.LockOSThread() // the cost is the thread's
	defer runtime.UnlockOSThread()
	before := sys.ThreadCPU()
	r := Result{Readings: map[Group]heat.Reading{}, Errors: map[Group]error{}}
	err := t.src.scan(ctx, at, groups, &r)
	if _, already := t.src.(givenUp); errors.Is(err, errLost) && !already {
		err = t.giveUp(err)
	}
	if err != nil {
		return Result{}, err
	}
	r.CPU += sys.ThreadCPU() - before
	return r, nil
}

// Close gives back what is held open. A second Close does nothing.
func (t *Tracker) Close() error { return t.src.Close() }

// keep drops the entries of groups that are not asked for.
func keep[T any](state map[Group]T, groups []Group) {
	asked := make(map[Group]bool, len(groups))
	for _, g := range groups {
		asked[g] = true
	}
	for g := range state {
		if !asked[g] {
			delete(state, g)
		}
	}
}
