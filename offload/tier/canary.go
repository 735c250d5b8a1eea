package tier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/worker"
)

// CanaryPrefix begins the name of every canary cgroup, so that the daemon can leave them out of its lists.
const CanaryPrefix = "spillway-canary-"

// ErrNoSwap says that there is nothing to measure: no swap area is on.
var ErrNoSwap = errkind.New(errkind.Unavailable, noSwap)

// Stepper is what the canary needs of the worker; *worker.Client is one.
type Stepper interface {
	Changer
	Step(ctx context.Context, s worker.Step) (worker.StepResult, error)
}

// CanaryConfig says how to measure. Hierarchy, Set and Worker are required.
type CanaryConfig struct {
	Root      string // "" = "/"
	Exe       string // the program with the hidden command `canary`; "" = /proc/self/exe
	Hierarchy cgroup.Hierarchy
	Set       *Set
	Worker    Stepper
	Size      bytesize.Size // memory to send out and back, 1 MiB to 1 GiB; default 16 MiB
	Limit     time.Duration // for all of the measuring, without clean-up; default 3s
	Log       *slog.Logger  // nil discards
}

func (c CanaryConfig) withDefaults() (CanaryConfig, error) {
	c.Root = cmp.Or(c.Root, "/")
	c.Exe = cmp.Or(c.Exe, "/proc/self/exe")
	c.Size = cmp.Or(c.Size, 16*bytesize.MiB)
	c.Limit = cmp.Or(c.Limit, 3*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Size < bytesize.MiB || c.Size > maxCanary {
		return c, errkind.New(errkind.Invalid, "canary.size: %v is outside 1 MiB to 1 GiB", c.Size)
	}
	c.Size -= c.Size % bytesize.Size(os.Getpagesize())
	if c.Set == nil || c.Worker == nil || c.Hierarchy.Memory == "" {
		return c, errors.New("tier: measure: Hierarchy, Set and Worker are required")
	}
	return c, nil
}

const (
	evictShare    = 0.9 // share of the pages that must be out before they are touched
	maxSteps      = 40  // tries to get there
	idleSteps     = 3   // tries in a row without effect after which it is given up
	stepParts     = 4   // a step takes this part of the canary, so that a blocked write ends soon
	canaryFloor   = 64 * 1024
	minFaults     = 32 // fewer are no distribution
	cleanTimeout  = 5 * time.Second
	roomForCanary = 4 // times its size that memory and swap must have free, so that nobody else is pushed out
)

// Canary sends pages of a process of its own to the tiers that take pages now, touches them back in and returns
// what that cost: one measurement a tier reached. Compressible pages measure the first tier. When that is zswap,
// incompressible ones follow, which measure the disk behind it where zswap rejects them.
//
// It never takes memory from any other cgroup, and leaves no cgroup and no process behind, whatever happens.
// An error (ErrNoSwap, kind Unavailable when memory or swap is short, Unsupported) means that nothing was
// measured and seeds must do; measurements already made are returned beside it.
func Canary(ctx context.Context, c CanaryConfig) (ms []Measurement, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := c.room(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Limit, errkind.New(errkind.Unavailable, "tier: measuring took longer than %v: %w", c.Limit, context.DeadlineExceeded))
	defer cancel()
	r, err := c.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.clean(context.WithoutCancel(ctx))) }()

	first, err := r.pass(ctx, "text")
	if err != nil {
		return nil, err
	}
	if first.Tier != "zswap" {
		return []Measurement{first}, nil
	}
	second, err := r.pass(ctx, "random")
	switch {
	case err != nil:
		c.Log.Info("tier behind zswap not measured", "reason", err)
		first.Note = note(first.Note, "the disk behind was not measured: "+err.Error())
	case second.Tier == "zswap":
		first.Note = note(first.Note, "zswap keeps incompressible pages too, so the disk behind was not measured")
	default:
		return []Measurement{first, second}, nil
	}
	return []Measurement{first}, nil
}

// room refuses to measure where measuring could push somebody else's pages out.
func (c CanaryConfig) room() error {
	if err := c.Set.Refresh(); err != nil {
		return err
	}
	if _, ok := c.Set.Primary(); !ok {
		return fmt.Errorf("tier: measure: %w", errkind.Hint(ErrNoSwap, "add tiers.swap_file or tiers.zram"))
	}
	m, err := proc.ReadMeminfo(c.Root)
	if err != nil {
		return fmt.Errorf("tier: measure: %w", err)
	}
	need := c.Size * roomForCanary
	if have := bytesize.Size(m.Available); have < need {
		return errkind.New(errkind.Unavailable, "tier: measure: %v of memory available, %v wanted so that nobody is disturbed", have, need)
	}
	if have := bytesize.Size(m.SwapFree); have < need {
		return errkind.New(errkind.Unavailable, "tier: measure: %v of swap free, %v wanted so that nobody is disturbed", have, need)
	}
	return nil
}

// canaryRun is one canary with its cgroups and its process.
type canaryRun struct {
	c     CanaryConfig
	name  string
	group *cgroup.Group
	press string   // memory.pressure of the canary, "" when it has none
	made  []string // ids to undo, oldest first
	child *child

	hostSome  time.Duration // the host's memory "some" total at hostFrom
	hostFrom  time.Time
	hostKnown bool
}

func (c CanaryConfig) start(ctx context.Context) (_ *canaryRun, err error) {
	r := &canaryRun{c: c, name: fmt.Sprintf("%s%d", CanaryPrefix, os.Getpid())}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.clean(context.WithoutCancel(ctx)))
		}
	}()
	dirs := []string{filepath.Join(c.Hierarchy.Memory, r.name)}
	if u := c.Hierarchy.Unified; u != "" {
		dir := filepath.Join(u, r.name)
		r.press = filepath.Join(dir, "memory.pressure")
		if dir != dirs[0] {
			dirs = append(dirs, dir)
		}
	}
	for _, d := range dirs {
		done, err := c.Worker.Do(ctx, worker.Change{Mkdir: &worker.Mkdir{Path: d, KillOnUndo: true}})
		if err != nil {
			return nil, fmt.Errorf("tier: measure: make cgroup: %w", err)
		}
		r.made = append(r.made, done.ID)
	}
	if r.group, err = c.Hierarchy.Open("/" + r.name); err != nil {
		return nil, fmt.Errorf("tier: measure: %w", err)
	}
	if r.child, err = startChild(ctx, c.Exe); err != nil {
		return nil, err
	}
	_, err = r.child.ask(order{Do: "join", Dirs: dirs})
	return r, err
}

// clean ends the process and removes the cgroups, newest first.
func (r *canaryRun) clean(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	var errs []error
	if r.child != nil {
		r.child.stop()
	}
	if r.group != nil {
		errs = append(errs, r.group.Close())
	}
	for i := len(r.made) - 1; i >= 0; i-- {
		errs = append(errs, r.c.Worker.Undo(ctx, r.made[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("tier: remove canary: %w", err)
	}
	return nil
}

// pass measures with one kind of content.
func (r *canaryRun) pass(ctx context.Context, content string) (Measurement, error) {
	r.noteHost()
	if _, err := r.child.ask(order{Do: "fill", Bytes: int64(r.c.Size), Content: content}); err != nil {
		return Measurement{}, err
	}
	before, err := r.count()
	if err != nil {
		return Measurement{}, err
	}
	out, err := r.evict(ctx)
	if err != nil {
		return Measurement{}, err
	}
	after, err := r.count()
	if err != nil {
		return Measurement{}, err
	}
	stalls, err := r.stalls()
	if err != nil {
		return Measurement{}, err
	}
	touch := order{Do: "touch"}
	if end, ok := ctx.Deadline(); ok {
		touch.For = max(time.Millisecond, time.Until(end)/2) // the other half is for the second pass
	}
	a, err := r.child.ask(touch)
	if err != nil {
		return Measurement{}, err
	}
	m := judge(before, after, out)
	m.Pages, m.P50, m.P99, m.Mean, m.At = a.Faults, a.P50, a.P99, a.Mean, time.Now()
	m.PSICounted, m.PSIFrom = stalls.share(a.Total)
	if a.Faults < minFaults {
		return m, errkind.New(errkind.Unavailable, "tier: measure: only %d of %d pages came back from a tier", a.Faults, a.Pages)
	}
	r.c.Log.Info("tier measured", "tier", m.Tier, "content", content, "pages", m.Pages, "readahead", a.Hits,
		"p50", m.P50, "p99", m.P99, "compression", m.Compression, "psi_counted", m.PSICounted, "note", m.Note)
	return m, nil
}

// evict steps the canary's cgroup down until nearly all of its pages are out, and returns how many bytes are.
func (r *canaryRun) evict(ctx context.Context) (int64, error) {
	page, idle, last := int64(os.Getpagesize()), 0, 0
	for range maxSteps {
		a, err := r.child.ask(order{Do: "out"})
		if err != nil {
			return 0, err
		}
		if float64(a.Out) >= evictShare*float64(a.Pages) {
			return int64(a.Out) * page, nil
		}
		if idle++; a.Out > last {
			idle, last = 0, a.Out
		}
		if idle > idleSteps {
			break
		}
		left := int64(a.Pages-a.Out) * page
		step := worker.Step{Cgroup: "/" + r.name, Inode: r.group.Inode(),
			Bytes: min(left, int64(r.c.Size)/stepParts) + canaryFloor, Floor: canaryFloor}
		if _, err := r.c.Worker.Step(ctx, step); err != nil {
			return 0, fmt.Errorf("tier: measure: evict: %w", err)
		}
	}
	if last < minFaults {
		return 0, errkind.New(errkind.Unavailable, "tier: measure: the canary's pages would not leave memory (%d out)", last)
	}
	return int64(last) * page, nil
}
