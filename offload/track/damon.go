package track

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/heat"
)

// Machine is what DAMON is set up with, journalled; *worker.Client in production.
type Machine interface {
	Do(context.Context, worker.Change) (worker.Done, error)
	Undo(ctx context.Context, id string) error
	Kdamond(ctx context.Context, id, command string) error
}

const (
	// damonSample is the distance of two samplings, each of one page a region: at most 1,000 regions make 2,000 looks a
	// second. slowestSample is where slowing down, as long as the kdamond costs too much, ends: a commit waits for nine
	// samplings, and a worker that is killed then holds its lock for as long.
	damonSample   = 500 * time.Millisecond
	slowestSample = 2 * time.Second
	// damonShare is the most of one core that the kdamond takes: what a scan may (offload's heatShare).
	damonShare = 0.01
	// damonRipe is how long a process must have lived: one that ends soon is not worth it, and if it ends while the
	// kernel takes over what to watch, the kdamond ends, too.
	damonRipe = 30 * time.Second
)

// errLost says that a source cannot be used any more.
var errLost = errors.New("this source is given up")

func lost(format string, args ...any) error {
	return errkind.Hint(fmt.Errorf("track: %w: %w", errkind.New(errkind.Unsupported, format, args...), errLost),
		"use another source, or restart Spillway once DAMON is free")
}

// damon has one kdamond of ours watch the fullest mappings of the largest processes, at fixed addresses that each scan
// brings up to date.
//
// It counts resident memory that one process alone has mapped, like clear-refs. DAMON looks at one page of a region
// at a time and takes it for all, so an age is an estimate: memory of which each page is touched once in some time
// goes unnoticed for that time in a part of the regions. What came back is not told: a region that was touched may be
// one page, and the age of merged regions falls without a touch.
type damon struct {
	root string
	h    cgroup.Hierarchy
	k    kdamond

	sample time.Duration
	slots  []slot              // the kernel's targets; the first is ourselves
	ripe   time.Duration       // how long a process must have lived
	share  float64             // damonShare
	since  map[Group]time.Time // being watched
	last   time.Time
	pid    int           // of the kdamond
	cpu    time.Duration // its, at the last scan
}

// slot is one of DAMON's targets. It keeps its place while the process lives: the kernel hands regions and ages on by
// place.
type slot struct {
	pid   int
	start uint64 // of the process; 0 for a place that nobody has
	group Group
	spans []span
}

// process is one of a managed cgroup.
type process struct {
	pid   int
	start uint64
	group Group
	vmas  []vma
	pss   int64 // bytes
	room  int64 // private bytes
}

func newDAMON(root string, h cgroup.Hierarchy, w Machine) *damon {
	return &damon{
		root: root, h: h, k: kdamond{root: root, w: w}, since: map[Group]time.Time{},
		sample: damonSample, ripe: damonRipe, share: damonShare,
	}
}

func (*damon) name() string { return "damon" }

// Close removes our kdamond.
func (d *damon) Close() error { return d.stop(context.Background()) }

// probe learns what only the files of a kdamond tell, by setting one up that does not run.
func (d *damon) probe(ctx context.Context) error {
	if err := d.k.setUp(ctx, d.sample); err != nil {
		return err
	}
	return d.stop(ctx)
}

func (d *damon) stop(ctx context.Context) error {
	d.slots, d.pid, d.cpu = nil, 0, 0
	clear(d.since)
	return d.k.remove(ctx)
}

func (d *damon) scan(ctx context.Context, at time.Time, groups []Group, r *Result) error {
	keep(d.since, groups)
	if len(groups) == 0 {
		return d.stop(ctx)
	}
	err := d.look(ctx, at, groups, r)
	if err != nil && ctx.Err() == nil {
		return errors.Join(err, d.stop(ctx)) // whatever is wrong with it, the next scan begins anew
	}
	return err
}

func (d *damon) look(ctx context.Context, at time.Time, groups []Group, r *Result) error {
	var shown [][]region
	if len(d.slots) > 0 {
		var err error
		if shown, err = d.shown(ctx); err != nil {
			return err
		}
	}
	procs, err := d.processes(ctx, groups, r)
	if err != nil {
		return err
	}
	if shown != nil {
		d.readings(at, groups, procs, shown, r)
	}
	slower, err := d.cost(ctx, at, r)
	if err != nil {
		return err
	}
	if err := d.aim(ctx, at, procs, slower); err != nil {
		return err
	}
	watching := map[Group]bool{}
	for _, s := range d.slots {
		watching[s.group] = true
	}
	for _, g := range groups {
		if _, ok := d.since[g]; !watching[g] {
			delete(d.since, g)
		} else if !ok {
			d.since[g] = at
		}
	}
	d.last = at
	return nil
}

// shown is the regions of each slot.
func (d *damon) shown(ctx context.Context) ([][]region, error) {
	switch on, err := d.k.on(ctx); {
	case err != nil:
		return nil, err
	case !on:
		return nil, lost("somebody else switched our kdamond off")
	}
	regions, err := d.k.regions(ctx)
	if err != nil {
		return nil, err
	}
	var extents [][]extent
	for _, s := range d.slots {
		extents = append(extents, joinSpans(s.spans))
	}
	out, ok := deal(regions, extents)
	if !ok {
		return nil, errkind.New(errkind.Internal, "track: DAMON's %d regions are not those of its %d targets",
			len(regions), len(extents))
	}
	return out, nil
}

// processes looks at the members of the groups. One that ends meanwhile is left out.
func (d *damon) processes(ctx context.Context, groups []Group, r *Result) (out []process, err error) {
	members := clearRefs{root: d.root, h: d.h}
	for _, g := range groups {
		pids, err := members.procs(g)
		if err != nil {
			r.Errors[g] = err
			delete(d.since, g)
			continue
		}
		for _, pid := range pids {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			p, err := d.process(pid, g)
			if err != nil && !ended(err) {
				err = fmt.Errorf("track: look at process %d in %q: %w", pid, g.Path, err)
				r.Errors[g] = errkind.Hint(err, "run as root")
				break
			}
			if err == nil {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

func (d *damon) process(pid int, g Group) (process, error) {
	l, err := readLife(d.root, pid)
	if err != nil {
		return process{}, err
	}
	f, err := sys.OpenNoFollow(filepath.Join(d.root, "proc", strconv.Itoa(pid), "smaps"), os.O_RDONLY, 0)
	if err != nil {
		return process{}, err
	}
	defer f.Close()
	p := process{pid: pid, start: l.start, group: g}
	if p.vmas, p.pss, err = parseVMAs(f); err != nil {
		return process{}, err
	}
	for _, v := range p.vmas {
		p.room += v.private
	}
	return p, nil
}

// readings adds up what is quiet by group. What is not watched, or not by one process alone, counts as touched.
func (d *damon) readings(at time.Time, groups []Group, procs []process, shown [][]region, r *Result) {
	total, cold := map[Group]int64{}, map[Group]heat.Histogram{}
	pages := newPagemap()
	for _, p := range procs {
		total[p.group] += p.pss
		i := slices.IndexFunc(d.slots, func(s slot) bool { return s.pid == p.pid && s.start == p.start })
		if i < 0 {
			continue
		}
		parts := quietParts(shown[i], d.slots[i].spans, p.vmas, at, aggregations*d.sample)
		ages, err := d.ages(p.pid, parts, pages)
		if err != nil && !ended(err) {
			r.Errors[p.group] = fmt.Errorf("track: read pagemap of process %d in %q: %w", p.pid, p.group.Path, err)
		}
		cold[p.group] = append(cold[p.group], ages...)
	}
	scan := max(at.Sub(d.last), 0)
	for _, g := range groups {
		since, ok := d.since[g]
		if !ok || r.Errors[g] != nil {
			continue
		}
		ages := heat.Merge(cold[g])
		for i := range ages {
			if grain := scan / 16; grain > 0 { // towards warmer; it bounds how many ages there are
				ages[i].Idle = ages[i].Idle.Truncate(grain)
			}
		}
		warm := heat.Histogram{{Bytes: max(total[g]-ages.Total(), 0)}}
		r.Readings[g] = heat.MergeReadings(heat.Reading{
			At: at, Source: d.name(), Scan: scan, Span: at.Sub(since), Cold: heat.Merge(ages, warm),
		})
	}
}

// ages weighs the quiet parts of a process by what of them is in memory.
func (d *damon) ages(pid int, parts []quiet, pages *pagemap) (out heat.Histogram, err error) {
	var f *os.File
	for _, q := range parts {
		bytes := int64(q.end - q.start)
		if !q.full {
			if f == nil {
				name := filepath.Join(d.root, "proc", strconv.Itoa(pid), "pagemap")
				if f, err = sys.OpenNoFollow(name, os.O_RDONLY, 0); err != nil {
					return nil, err
				}
				defer f.Close()
			}
			var ok bool
			if bytes, ok, err = pages.resident(f, q.extent); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
		}
		if bytes > 0 {
			out = append(out, heat.Age{Idle: q.idle, Bytes: bytes})
		}
	}
	return out, nil
}

// cost adds what the kdamond took since the last scan, and slows it down when that was too much.
func (d *damon) cost(ctx context.Context, at time.Time, r *Result) (slower bool, err error) {
	if len(d.slots) == 0 {
		return false, nil
	}
	pid, cpu, err := d.k.cpu(ctx)
	if err != nil {
		return false, err
	}
	took, passed := cpu, at.Sub(d.last)
	if pid == d.pid {
		took -= d.cpu
	}
	d.pid, d.cpu = pid, cpu
	r.CPU += max(took, 0)
	if passed <= 0 || float64(took) <= d.share*float64(passed) {
		return false, nil
	}
	if d.sample >= slowestSample {
		percent := 100 * float64(took) / float64(passed)
		return false, lost("our kdamond takes %.1f %% of a processor, sampling every %v", percent, d.sample)
	}
	d.sample *= 2
	return true, nil
}
