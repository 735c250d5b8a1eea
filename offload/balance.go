package offload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/mix"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/tier"
)

// balance is what the agent knows about choosing between file and anonymous memory on this machine; it belongs to the
// goroutine in Run.
type balance struct {
	lives    mix.Lives
	steering mix.Steering
	zswapMax bool // a cgroup can be kept out of the pool
	shrinker bool // the kernel moves pages from the pool to the disk by itself
	pool     bool // zswap is in use
	poolFull bool
	disk     bool // there is a place behind or beside the pool that is no memory
	joint    mix.Joint
	files    tier.FileCost // zero until measured
	poolSeen bool          // the three below are from an earlier period
	stored   int64
	occupied int64
	toDisk   uint64 // pages

	can, cannot []string // guarded by Agent.mu: the same for people
	filesWhy    string   // likewise: why files is zero
}

// blend is one target's part of it.
type blend struct {
	mixer *mix.Mixer
	pool  mix.Pool

	have    bool // the figures below are from an earlier period
	swap    int64
	zswap   int64 // of the cgroup; 0 on v1
	stored  int64 // likewise
	taken   int64 // by which the last step made its usage fall
	backAt  uint64
	offPool string // id of the change that keeps it out of the pool
	say     string // what was chosen last, for the admin API; copied to row under Agent.mu
	poor    bool
}

// poolFullShare is where a pool counts as full: from there on the kernel refuses pages whatever they are.
const poolFullShare = 0.95

// changeTimeout bounds a change of one knob, for which the agent waits.
const changeTimeout = time.Second

// openBalance finds out what can be steered here. What is only guessed is corrected by the first step that is refused.
func (a *Agent) openBalance() {
	b := &a.balance
	ks := a.tiers.Knobs(a.h, a.kernel)
	for _, k := range ks {
		switch {
		case !k.Have:
		case k.Name == "memory.reclaim swappiness=", k.Name == cgroup.FileSwappiness:
			b.steering = mix.Weights
		case k.Name == cgroup.FileSwapMax:
			b.steering = max(b.steering, mix.Coarse)
		case k.Name == "memory.zswap.max":
			b.zswapMax = true
		case k.Name == "zswap shrinker_enabled":
			b.shrinker = k.Value == "on"
		}
	}
	can, cannot := tier.Steering(ks)
	a.mu.Lock()
	defer a.mu.Unlock()
	b.can, b.cannot = can, cannot
}

// sampleBalance notes once a period what the tiers can take.
func (a *Agent) sampleBalance() {
	b := &a.balance
	b.pool, b.poolFull, b.disk = false, false, false
	if _, on := a.tiers.Shrinker(); on != b.shrinker {
		b.shrinker = on
		can, _ := tier.Steering(a.tiers.Knobs(a.h, a.kernel))
		a.mu.Lock()
		b.can = can
		a.mu.Unlock()
	}
	for _, t := range a.host.tiers {
		switch {
		case t.State != tier.Active:
		case t.Kind == tier.KindZswap:
			b.pool, b.poolFull = true, float64(t.Used) > poolFullShare*float64(t.Size)
		case !t.Memory():
			b.disk = true
		}
	}
}

// blend lets t learn from the period that s describes and, if d is a step, chooses which memory it takes.
func (a *Agent) blend(t *target, s policy.Sample, d *policy.Decision) cgroup.Swappiness {
	b := &t.blend
	if b.mixer == nil {
		b.mixer = mix.New(mix.Params{FileOnly: a.cfg.Params[t.class].FileOnly})
	}
	m := a.mixSample(t, s)
	if d.Step <= 0 {
		b.mixer.Learn(m)
		return cgroup.KernelsChoice
	}
	c := b.mixer.Choose(m)
	if a.h.Mode != cgroup.V2 && a.balance.joint.Waits(&b.pool) && c.Swappiness != mix.FileOnly {
		c = a.apart(c)
	}
	b.say = c.Detail
	d.Detail += "; " + c.Detail
	if c.Reason == mix.Incompressible {
		_, why := b.pool.Incompressible()
		d.Detail += "; incompressible: " + why
	}
	if c.Swappiness == mix.FileOnly {
		a.bound(t, d)
	}
	switch held := map[mix.Reason]policy.Reason{mix.Incompressible: policy.Incompressible, poolTurn: policy.PoolTurn}[c.Reason]; {
	case held != "" && (d.Step == 0 || c.Swappiness != mix.FileOnly):
		d.Step, d.Reason, d.Signal = 0, held, ""
		return cgroup.KernelsChoice
	case c.Swappiness == mix.KernelsChoice, m.NoSwap: // without swap there is nothing to be told
		return cgroup.KernelsChoice
	case c.Swappiness == mix.MaxWeight:
		return cgroup.AnonOnly
	}
	return cgroup.Weight(c.Swappiness)
}

// poolTurn is the reason for leaving anonymous memory alone while the pool's growth is told apart.
const poolTurn = mix.Reason("pool-turn")

// apart turns a choice into one that sends nothing to the pool.
func (a *Agent) apart(c mix.Choice) mix.Choice {
	c.Reason = poolTurn
	if a.balance.steering != mix.Deaf {
		c.Swappiness = mix.FileOnly
	}
	c.Detail = "takes no anonymous memory for a few periods: the pool is charged to nobody, and one cgroup at a time is watched to see whose pages do not shrink"
	return c
}

// settlePool has the pool's growth since the last tick split among the cgroups whose pages it may have been.
func (a *Agent) settlePool() {
	b, h := &a.balance, &a.host
	if b.poolSeen && b.pool {
		b.joint.Close(mix.Tick{Stored: h.mem.Zswapped - b.stored, Pool: h.mem.Zswap - b.occupied,
			Disk: int64(diff(h.vm.PswpOut, b.toDisk)) * int64(4*bytesize.KiB), Mixed: b.poolFull || b.shrinker})
	}
	b.poolSeen = b.pool && a.h.Mode != cgroup.V2
	b.stored, b.occupied, b.toDisk = h.mem.Zswapped, h.mem.Zswap, h.vm.PswpOut
}

// bound keeps a step for file cache within half of what there is: asking for more makes the kernel search for nothing,
// and the rest is in use.
func (a *Agent) bound(t *target, d *policy.Decision) {
	files := max(t.stat.File-t.stat.Shmem, 0)
	page := int64(4 * bytesize.KiB)
	if most := files / 2 / page * page; d.Step > most {
		d.Step = most
		d.Detail += fmt.Sprintf("; no more than half of its %v of file cache", bytesize.Size(files))
	}
	if d.Step == 0 {
		d.Reason, d.Signal = policy.TooSmall, ""
	}
}

// mixSample turns two reads into the mixer's input, and the pool's.
func (a *Agent) mixSample(t *target, s policy.Sample) mix.Sample {
	b := &t.blend
	st := &t.stat
	v2 := a.h.Mode == cgroup.V2
	m := mix.Sample{
		Anon: st.Anon, File: st.File, Shmem: st.Shmem,
		NoSwap: a.host.noSwap || s.SwapFree <= 0, SwapFull: s.SwapFull,
		ShortLived: t.class == class.Throughput || a.balance.lives.Short(path.Dir(t.path), t.watched),
		Steering:   a.balance.steering, OffPool: b.offPool != "",
		CostAnon: s.CostAnon, CostFile: s.CostFile,
		RefaultAnon: diff(st.RefaultAnon, b.backAt), RefaultFile: t.files.mixer,
	}
	t.files.mixer = 0
	if first, ok := a.tiers.Primary(); ok && first.Memory() && b.offPool == "" {
		if c := first.Compression(); c > 1 {
			m.PoolShare = 1 / c
		}
	}
	if share, ok := b.pool.Likely(); ok && m.PoolShare > 0 {
		m.PoolShare = share
	}
	if b.have {
		grown := st.Swap - b.swap
		charge := int64(0)
		if v2 {
			charge = st.Zswap - b.zswap
		}
		m.TookAnon, m.TookFile = mix.Took(b.taken, grown, m.RefaultAnon, charge)
		g := mix.Growth{}
		if v2 && b.taken > 0 && a.balance.pool && b.offPool == "" {
			g = mix.Growth{
				Own: true, Out: min(m.TookAnon, grown), Stored: st.Zswapped - b.stored, Pool: charge,
				Mixed: a.balance.poolFull || a.balance.shrinker || t.home.limit != "",
			}
		}
		b.pool.Note(g, t.watched)
	} else {
		m.RefaultAnon, m.RefaultFile = 0, 0
	}
	b.have, b.taken = true, 0
	b.swap, b.zswap, b.stored, b.backAt = st.Swap, st.Zswap, st.Zswapped, st.RefaultAnon
	m.Incompressible = a.judgePool(t)
	m.OffPool = b.offPool != ""
	return m
}

// judgePool acts on the verdict about t's pages: those that do not shrink are kept out of the pool where the kernel can
// and there is a disk for them; else only file cache is taken. It says whether the verdict stands.
func (a *Agent) judgePool(t *target) bool {
	b := &t.blend
	poor, why := b.pool.Incompressible()
	if poor == b.poor {
		return poor
	}
	b.poor = poor
	if !poor {
		a.log.Info("cgroup is offered to the compressed pool again", "cgroup", t.path)
		a.backToPool(t)
		return false
	}
	a.unplace(t) // its pages may then reach the disk
	place, _ := mix.Put(mix.Home{Pool: a.balance.pool, Disk: a.balance.disk, Poor: true})
	done := "only file cache is taken from it"
	if place == mix.OnDisk && a.balance.zswapMax && a.mayWriteBack(t) && !a.cfg.DryRun && a.deps.Worker != nil {
		ctx, cancel := context.WithTimeout(context.Background(), changeTimeout)
		defer cancel()
		change, err := a.deps.Worker.Do(ctx, worker.Change{Knob: &worker.Knob{Path: filepath.Join(t.group.Dir(), "memory.zswap.max"), Value: "0"}})
		if err != nil {
			a.warnOnce("zswap.max "+t.path, "cgroup could not be kept out of the compressed pool", err)
		} else {
			b.offPool, done = change.ID, "its pages go past the pool to the disk (memory.zswap.max 0)"
		}
	}
	a.log.Info("cgroup's pages do not shrink", "cgroup", t.path, "detail", why, "done", done)
	return true
}

// mayWriteBack says whether t's pages may reach a disk at all: with memory.zswap.writeback 0 the pool is all they have.
func (a *Agent) mayWriteBack(t *target) bool {
	text, err := os.ReadFile(filepath.Join(t.group.Dir(), "memory.zswap.writeback"))
	return err != nil || strings.TrimSpace(string(text)) != "0"
}

// backToPool takes the change back that keeps t out of the pool.
func (a *Agent) backToPool(t *target) {
	id := t.blend.offPool
	if id == "" {
		return
	}
	t.blend.offPool = ""
	ctx, cancel := context.WithTimeout(context.Background(), changeTimeout)
	defer cancel()
	if err := a.deps.Worker.Undo(ctx, id); err != nil { // it stays journalled, and is undone at the end
		a.warnOnce("zswap.max "+t.path, "cgroup could not be given back to the compressed pool", err)
	}
}

// unblend forgets what was learned about t, which is no longer managed.
func (a *Agent) unblend(t *target) {
	a.balance.joint.Forget(&t.blend.pool)
	t.files = comeback{}
	if t.home.seen {
		a.unplace(t)
	}
	if t.blend.mixer == nil {
		return
	}
	a.backToPool(t)
	t.blend = blend{}
}

// died notes the end of t for what is to be expected of its siblings.
func (a *Agent) died(t *target) {
	if t.leaf && t.watched > 0 {
		a.balance.lives.Died(path.Dir(t.path), t.watched)
	}
	delete(a.warned, "zswap.max "+t.path)
	a.unblend(t)
}

// blended notes what the kernel made of a step's choice. One that it cannot do makes the next ones coarser, is said
// once, and shows in Status.
func (a *Agent) blended(t *target, d stepDone) {
	t.blend.taken = max(d.res.Before-d.res.After, 0)
	if d.choice == cgroup.KernelsChoice || !errors.Is(d.err, errors.ErrUnsupported) {
		return
	}
	b := &a.balance
	was := b.steering
	if b.steering = mix.Deaf; d.choice != cgroup.FileOnly && a.h.Mode == cgroup.V2 {
		b.steering = mix.Coarse
	}
	if b.steering >= was { // another step in flight had said so already
		b.steering = min(was, b.steering)
		return
	}
	a.warnOnce("steering "+d.choice.String(), "this kernel cannot be told which memory to take; steps are "+
		map[mix.Steering]string{mix.Deaf: "left to it", mix.Coarse: "for file cache alone, or left to it"}[b.steering], d.err)
	a.mu.Lock()
	defer a.mu.Unlock()
	b.cannot = append(b.cannot, "choose memory at each step as its version promises: "+d.err.Error())
}

// psiShare is what the canary found out about memory pressure on the first tier.
func (a *Agent) psiShare() (*float64, string) {
	first, ok := a.tiers.Primary()
	m := first.Measured
	switch {
	case !ok:
		return nil, "there is no swap to measure it with"
	case m.At.IsZero():
		return nil, "not measured yet"
	case math.IsNaN(m.PSICounted):
		return nil, m.PSIFrom
	}
	return &m.PSICounted, m.PSIFrom
}

// steeringLocked adds what this kernel lets the agent choose, and how far its pressure can be trusted.
//
// +checklocks:a.mu
func (a *Agent) steeringLocked(will, wont []string) (can, cannot []string) {
	for _, s := range a.balance.can {
		will = append(will, "be able to "+s)
	}
	for _, s := range a.balance.cannot {
		wont = append(wont, "be able to "+s)
	}
	share, why := a.psiShare()
	switch {
	case share == nil:
		wont = append(wont, "know which share of refault stalls this kernel counts as memory pressure: "+why)
	case *share < trustedPSI:
		wont = append(wont, fmt.Sprintf("rely on memory pressure alone: this kernel counts %.0f %% of the time that refaults cost (%s)", 100**share, why))
	default:
		will = append(will, fmt.Sprintf("read memory pressure, which counts %.0f %% of the time that refaults cost (%s)", 100**share, why))
	}
	return a.placingLocked(will, wont)
}

// trustedPSI is the share from which pressure is a brake by itself: the true cost is then at most twice what it shows.
const trustedPSI = 0.5
