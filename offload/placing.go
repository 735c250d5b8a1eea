package offload

import (
	"os"
	"path/filepath"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/mix"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/tier"
)

// Where evicted pages lie, in the pool or on the disk behind it, is steered by three files of the kernel, all since
// Linux 6.8 (Documentation/admin-guide/cgroup-v2.rst, mm/zswap.rst):
//
//	memory.zswap.writeback  0: a cgroup's pages never go to the disk, not even those that the pool refuses
//	memory.zswap.max        over it, a page that is taken in pushes the oldest out to the disk, or goes there itself
//	shrinker_enabled        reclaim also writes old pages of the pool out, in every cgroup that may
//
// Since Linux 6.12 a page in the pool is passed over once before it is written out, and a store looks at one page only:
// over a limit, as many new pages go to the disk as the pool holds before old ones do, unless the shrinker has passed
// over them by then. Either way a store over a limit writes one page, and the pool does not grow.

const (
	// placeEvery is how often it is looked at. Stays in the pool are told in minutes; the budget must not be overdrawn
	// for long.
	placeEvery = 10 * time.Second
	// placeChanges bounds the changes of one look: each is a message to the worker and a write to the journal's disk.
	placeChanges = 4
	// placeAgain is when a file that somebody else had set is looked at again.
	placeAgain = 30 * time.Minute
)

// placing is the agent's part; it belongs to the goroutine in Run.
type placing struct {
	at       time.Time // of the last look
	mover    mix.Mover
	shrinker string // id of the change that switched the shrinker on
	refused  bool   // the kernel or the worker would not
	nodes    int64  // memory nodes: a store over a limit writes out up to a page of each
	kept     int    // cgroups whose pages stay in the pool
	limited  int    // cgroups whose part of it is limited

	can, cannot string // guarded by Agent.mu: the same for people
}

// targetHome is one target's part.
type targetHome struct {
	mix       mix.Placing
	keep      string // id of the change of memory.zswap.writeback
	limit     string // and of memory.zswap.max
	max       int64  // what the latter is set to
	foreign   string // why one of them is left alone
	foreignAt time.Time
	diskBack  int64 // bytes that came back from the disk since it was first read
	last      cgroup.Stat
	seen      bool
	promised  int64
	say       string
}

const (
	fileWriteback = "memory.zswap.writeback"
	fileZswapMax  = "memory.zswap.max"
)

// place looks at every managed cgroup's pages in the pool, every few seconds, and makes a few changes.
func (a *Agent) place(now time.Time) {
	p := &a.placing
	if now.Sub(p.at) < placeEvery {
		return
	}
	p.at = now
	v2 := a.h.Mode == cgroup.V2
	have, on := a.tiers.Shrinker()
	asked := a.cfg.Tiers.WriteBack == tier.Auto || a.cfg.Tiers.WriteBack == tier.On
	if !asked || !have || a.deps.Worker == nil || a.cfg.DryRun {
		a.unplaceAll()
		a.sayPlacing("", "")
		return
	}
	m := mix.Machine{Pool: a.balance.pool, Disk: a.balance.disk, Anyhow: a.cfg.Tiers.WriteBack == tier.On, Budget: a.wear.ledger != nil,
		Tells: v2 && a.placeTells(), Stored: a.host.mem.Zswapped, Price: a.wear.price}
	for _, t := range a.targets {
		if t.managed && t.havePrev {
			m.Ours += t.stat.Zswapped
		}
	}
	want, why := p.mover.Decide(m)
	on = a.switchShrinker(want, on)
	p.kept, p.limited = 0, 0
	changes := placeChanges
	for _, t := range a.targets {
		if t.managed && t.group != nil && t.havePrev {
			a.placeOne(t, now, on || p.mover.Paused() && v2, &changes)
		}
	}
	a.showPlacing(on, why, v2)
}

// placeTells says whether the kernel has the files; what it lacks the first managed cgroup lacks, too.
func (a *Agent) placeTells() bool {
	for _, t := range a.targets {
		if t.managed && t.group != nil {
			_, err := os.Stat(filepath.Join(t.group.Dir(), fileWriteback))
			return err == nil
		}
	}
	return false
}

// switchShrinker makes the shrinker be on if that is wanted, and off again if it was us. One that somebody else
// switched on stays on.
func (a *Agent) switchShrinker(want, on bool) bool {
	p := &a.placing
	switch {
	case want && !on && p.shrinker == "" && !p.refused:
		id, err := a.knob(a.tiers.ShrinkerKnob(), "Y")
		if err != nil {
			p.refused = true
			a.warnOnce("shrinker", "zswap's shrinker could not be switched on", err)
			return false
		}
		a.log.Info("zswap's shrinker switched on: long-cold pages may move from the pool to the disk")
		p.shrinker, on = id, true
	case !want && p.shrinker != "":
		a.unknob(&p.shrinker, "zswap's shrinker could not be switched off")
		a.log.Info("zswap's shrinker switched off again")
		on = false
	}
	return on
}

// placeOne decides for t and makes the kernel's files say so.
func (a *Agent) placeOne(t *target, now time.Time, moves bool, changes *int) {
	pl := &t.home
	if pl.foreign != "" && now.Sub(pl.foreignAt) >= placeAgain {
		pl.foreign, pl.foreignAt = "", time.Time{}
	}
	a.unpromise(pl)
	d := pl.mix.Decide(a.look(t), a.ground(t, moves))
	switch {
	case a.h.Mode != cgroup.V2:
		return
	case *changes > 0 || !d.Keep && d.Limit == 0: // taking back does not wait
		a.enact(t, d, changes)
	}
	if pl.foreign != "" && pl.foreignAt.IsZero() {
		pl.foreignAt = now
	}
	if pl.keep != "" {
		a.placing.kept++
	}
	if pl.limit != "" {
		a.placing.limited++
	}
	switch pl.say = d.Detail; {
	case pl.foreign != "":
		pl.say = pl.foreign
	case d.Keep && pl.keep == "", d.Limit > 0 && pl.limit == "": // not yet
		pl.say = ""
	}
}

// look is what t's counters say of its pages in the pool.
func (a *Agent) look(t *target) mix.Look {
	pl, st := &t.home, &t.stat
	page := int64(os.Getpagesize())
	if pl.seen {
		back := diff(st.RefaultAnon, pl.last.RefaultAnon)
		fromDisk := diff(st.SwapIn, pl.last.SwapIn) // since 6.12, with what readahead brought along
		if st.SwapIn == 0 {
			fromDisk = diff(back, diff(st.ZswapIn, pl.last.ZswapIn))
		}
		pl.diskBack += int64(fromDisk) * page
	}
	pl.last, pl.seen = *st, true
	return mix.Look{At: t.watched, Stored: st.Zswapped, Pool: st.Zswap, Sent: int64(st.ZswapOut) * page,
		Back: int64(st.RefaultAnon) * page, DiskBack: pl.diskBack}
}

// ground is what the placing of t's pages depends on beside them.
func (a *Agent) ground(t *target, moves bool) mix.Ground {
	pl := &t.home
	g := mix.Ground{
		Pool: a.balance.pool, Disk: a.balance.disk, Moves: moves, Poor: t.blend.poor || t.blend.offPool != "", Latency: t.class == class.Latency,
		CanKeep: pl.foreign == "", CanLimit: pl.foreign == "" && moves && !a.placing.mover.Paused(), Kept: pl.keep != "", Limit: pl.max,
		Price: a.wear.price, MaxCost: t.params.RefaultCost,
	}
	if g.MaxCost == 0 { // a law without such a target
		g.MaxCost = policy.Defaults("composite").RefaultCost
	}
	if a.wear.ledger != nil {
		g.Left = a.wear.ledger.Left()
	} else {
		g.Left = int64(bytesize.GiB) // endurance.off: no bound but the steps'
	}
	for _, x := range a.host.tiers {
		switch {
		case x.Kind == tier.KindZswap && x.Size > 0:
			g.Full = float64(x.Used) / float64(x.Size)
		case !x.Memory() && x.State == tier.Active:
			g.DiskCost = max(g.DiskCost, x.Measured.P50)
		}
	}
	if g.DiskCost == 0 {
		g.DiskCost = a.balance.files.P50 // a page of a file, alone, on the disk of the state directory
	}
	return g
}

// writesOf is what a step of t is taken to make the kernel write to the disk when it takes n bytes: over a limit each
// page that goes into the pool pushes out one of every memory node at most. What reclaim writes out with the shrinker
// on has no bound of its own; as much as the step is set aside for it, and what is more is charged when it is seen.
func (a *Agent) writesOf(t *target, n int64) int64 {
	if t.home.limit != "" {
		n *= max(a.placing.nodes, 1)
	}
	if a.placing.shrinker != "" {
		n *= 2
	}
	return n
}

// openPlacing counts the memory nodes.
func (a *Agent) openPlacing() {
	nodes, err := filepath.Glob(filepath.Join(a.deps.Root, "sys/devices/system/node/node[0-9]*"))
	if err != nil { // only for a bad pattern
		a.log.Debug("memory nodes not counted", "error", err)
	}
	a.placing.nodes = int64(max(len(nodes), 1))
}
