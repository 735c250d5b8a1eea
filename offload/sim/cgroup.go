package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
)

// cgroup is one at work. Counters of pages are in simulated pages until a period is closed.
type cgroup struct {
	spec   Cgroup
	m      *memory
	s      *store
	dice   *rand.PCG
	law    policy.Law // nil: nothing is taken
	model  model
	ages   *ages
	scale  int
	first  int32 // its pages in m
	n      int32
	limit  int64         // bytes, unscaled; 0: none
	settle time.Duration // what comes later counts for the steady figures
	minute int32         // ticks

	players []*player
	phases  []Phase // still to come
	service *table

	in      [kinds]int // resident pages
	shm     int        // of them, tmpfs
	mapped  int        // of them, mapped files
	alive   int        // resident or not
	pooled  int        // in the pool
	slots   int        // on the disk
	refused int        // evictions that the tiers refused
	pinned  int        // pages of finished jobs that were in a tier when the job went

	now       Point // of the current period; its Stall and pages are not yet scaled
	io        time.Duration
	medians   time.Duration // of the tiers that anonymous refaults came from, summed
	costAnon  time.Duration
	scanned   int
	stolen    int
	activated int
	taken     int64 // bytes, by the last step
	owed      int64 // bytes of steps below a simulated page

	trace  []Point
	whole  histogram // of requests that met a fault
	steady histogram

	overCap, belowFloor int
}

const static = file | shmem | mapped | poor // flags that a page keeps for good

// fill makes the cgroup's pages and players.
func (c *cgroup) fill(owner uint16) {
	service := c.spec.Workload.Service
	if service == (Latency{}) {
		service = Latency{50 * time.Microsecond, 250 * time.Microsecond}
	}
	c.service = service.table()
	c.phases = c.spec.Workload.Phases
	rng := rand.New(c.dice)
	for _, part := range c.spec.Workload.Parts {
		n := int32(part.Size / pageSize / int64(c.scale))
		f := map[Kind]flags{Anon: mapped, File: file, Mapped: file | mapped, Shmem: shmem | mapped}[part.Kind]
		first := c.first + c.n
		for i := range n {
			pg := &c.m.pages[first+i]
			pg.flags, pg.owner = f, owner
			if part.Poor > 0 && rng.Float64() < part.Poor {
				pg.flags |= poor
			}
		}
		c.n += n
		c.players = append(c.players, newPlayer(c, part, first, n))
	}
}

func (c *cgroup) pageBytes() int64 { return pageSize * int64(c.scale) }
func (c *cgroup) resident() int    { return c.in[anonKind] + c.in[fileKind] }
func (c *cgroup) usage() int64     { return int64(c.resident()) * c.pageBytes() }

// play lets one tick pass that begins at from.
func (c *cgroup) play(tick, from time.Duration) {
	c.ages.next()
	rest := c.phases[:0:0]
	for _, ph := range c.phases {
		if ph.At <= from {
			c.players[ph.Part].change(ph)
		} else {
			rest = append(rest, ph)
		}
	}
	c.phases = rest
	for _, p := range c.players {
		p.play(tick)
	}
}

// touch accesses p and returns how long that had to wait.
func (c *cgroup) touch(p int32) time.Duration {
	c.m.visits++
	pg := &c.m.pages[p]
	if pg.flags&resident == 0 {
		return c.fault(p)
	}
	c.aged(pg)
	c.seen(p)
	return 0
}

// seen leaves the trace that the kernel finds.
func (c *cgroup) seen(p int32) {
	if pg := &c.m.pages[p]; pg.flags&mapped != 0 {
		pg.flags |= accessed
	} else {
		c.model.read(p)
	}
}

func (c *cgroup) aged(pg *page) {
	if pg.last != c.m.now {
		c.ages.again(c.m.now - pg.last)
		pg.last = c.m.now
	}
}

// fault makes p resident. The first touch of a page costs nothing here: it would be the same without offload.
func (c *cgroup) fault(p int32) (wait time.Duration) {
	pg := &c.m.pages[p]
	counted := false
	if pg.flags&alive == 0 {
		pg.flags |= alive | dirty
		pg.last = c.m.now
		c.alive++
		c.model.admit(p)
	} else {
		c.aged(pg)
		var device bool
		wait, device, counted = c.refault(p)
		c.now.Stall += wait
		if device {
			c.io += wait
		}
	}
	pg.flags |= resident
	c.seen(p)
	c.count(pg.flags, 1)
	if counted {
		c.now.Counted += wait
	}
	if c.limit > 0 && c.usage() > c.limit {
		wait += c.overLimit()
	}
	return wait
}

func (c *cgroup) refault(p int32) (wait time.Duration, device, counted bool) {
	pg := &c.m.pages[p]
	wait, median, device := c.s.get(p, c.dice.Uint64())
	if pg.flags&file != 0 {
		c.now.RefaultFile++
	} else {
		c.now.RefaultAnon++
		c.medians += median
	}
	if c.m.now-pg.out <= c.minute {
		c.now.Early++
	}
	counted, activated := c.model.back(p)
	if activated {
		c.activated++
	}
	return wait, device, counted
}

// seedStore is what storing one page takes the workload when it has to reclaim for itself and there is no pool. With
// one, compressing takes about as long as bringing a page back.
const seedStore = 5 * time.Microsecond

// overLimit is the reclaim that the workload does for itself. Memory PSI counts all of it.
func (c *cgroup) overLimit() time.Duration {
	stolen := c.reclaim(max(1, batch/c.scale))
	each := seedStore
	if c.s.most > 0 {
		each = c.s.tiers.Pool.P50
	}
	wait := time.Duration(stolen) * each
	c.now.Stall += wait
	c.now.Counted += wait
	return wait
}

func (c *cgroup) count(f flags, by int) {
	c.in[f.kind()] += by
	if f&shmem != 0 {
		c.shm += by
	}
	if f&(file|mapped) == file|mapped {
		c.mapped += by
	}
}

// evict sends p, which is on no list, to a tier.
func (c *cgroup) evict(p int32) bool {
	if !c.s.put(p) {
		c.refused++
		return false
	}
	pg := &c.m.pages[p]
	pg.flags &^= resident | accessed
	pg.out = c.m.now
	c.count(pg.flags, -1)
	c.now.Evicted++
	return true
}

// release frees p for good.
func (c *cgroup) release(p int32) {
	pg := &c.m.pages[p]
	switch {
	case pg.flags&alive == 0:
		return
	case pg.flags&resident != 0:
		c.model.forget(p)
		c.count(pg.flags, -1)
	default:
		c.pinned++
	}
	c.s.drop(p)
	pg.flags &= static
	pg.refs = 0
	c.alive--
}

// delayed notes a request that waited for a page.
func (c *cgroup) delayed(wait time.Duration) {
	took := wait + c.service.draw(c.dice.Uint64())
	c.now.Delayed++
	c.whole.add(took, float64(c.scale))
	if time.Duration(c.m.now)*c.ages.tick > c.settle {
		c.steady.add(took, float64(c.scale))
	}
}

// sample closes the period that ends at at: it scales the counters and says what an agent would see.
func (c *cgroup) sample(period, at time.Duration) policy.Sample {
	p, k := &c.now, int64(c.scale)
	if p.RefaultAnon > 0 {
		c.costAnon = c.medians / time.Duration(p.RefaultAnon)
	} else if c.costAnon == 0 && c.s.swap() {
		c.costAnon = c.s.tiers.Disk.P50
		if c.s.most > 0 {
			c.costAnon = c.s.tiers.Pool.P50
		}
	}
	for _, n := range []*int64{&p.Requests, &p.Delayed, &p.RefaultAnon, &p.RefaultFile, &p.Evicted, &p.Early, &p.Written} {
		*n *= k
	}
	p.Written *= pageSize
	p.Stall *= time.Duration(k)
	p.Counted *= time.Duration(k)
	p.At, p.Usage = at, c.usage()
	p.Alive = int64(c.alive) * c.pageBytes()
	p.Saved = p.Alive - p.Usage - int64(c.pooled)*c.s.each*k
	anon, files := c.model.inactive()
	s := policy.Sample{
		Period: period, Usage: p.Usage, Floor: c.spec.Floor,
		MemSome: min(p.Counted, period), IOSome: min(c.io*time.Duration(k), period),
		RefaultAnon: uint64(p.RefaultAnon), RefaultFile: uint64(p.RefaultFile),
		CostAnon: c.costAnon, CostFile: c.s.tiers.File.P50,
		Reclaimed: c.taken,
		Age:       at,
		Anon:      int64(c.in[anonKind]-c.shm) * c.pageBytes(), File: int64(c.in[fileKind]+c.shm) * c.pageBytes(),
		Shmem: int64(c.shm) * c.pageBytes(), Mapped: int64(c.mapped) * c.pageBytes(),
		InactiveAnon: int64(anon) * c.pageBytes(), InactiveFile: int64(files) * c.pageBytes(),
		Counts: true, Scanned: uint64(c.scanned * c.scale), Stolen: uint64(c.stolen * c.scale),
		Activated: uint64(c.activated * c.scale),
	}
	return s
}

// decide asks the law, does what it says, and opens the next period.
func (c *cgroup) decide(s policy.Sample, at time.Duration) (d policy.Decision) {
	c.io, c.medians, c.scanned, c.stolen, c.activated, c.taken = 0, 0, 0, 0, 0, 0
	next := Point{}
	if c.law != nil {
		d = c.law.Decide(s)
		c.now.Step, c.now.Reason, c.now.Braked = d.Step, d.Reason, d.Step == 0 && atTarget(d.Inputs)
		if float64(d.Step) > capShare*float64(s.Usage)*(1+1e-12) {
			c.overCap++
		}
		if d.Step > 0 && s.Usage-d.Step < s.Floor {
			c.belowFloor++
		}
		step := d.Step
		if l, ok := c.law.(Limiter); ok {
			step = c.steer(l)
		}
		closed := c.now
		c.now = next
		c.take(step)
		closed.Taken = c.taken
		next, c.now = c.now, closed // what the step wrote and evicted belongs to the period it opens
	}
	c.trace = append(c.trace, c.now)
	c.now = next
	return d
}

func atTarget(in []policy.Reading) bool {
	return slices.ContainsFunc(in, func(r policy.Reading) bool { return r.Value >= r.Target })
}

// steer sets the limit that l asks for, or the cgroup's own if that is lower, and returns what is above it.
func (c *cgroup) steer(l Limiter) (step int64) {
	c.limit = c.spec.Limit
	if limit, set := l.Limit(); set && (c.limit == 0 || limit < c.limit) {
		c.limit = max(limit, c.pageBytes())
	}
	if c.limit == 0 {
		return 0
	}
	return max(0, c.usage()-c.limit)
}

// capShare is the most that any law may take in one period.
const capShare = 0.01

// take is the agent's step. What is left of a simulated page waits for the next one.
func (c *cgroup) take(step int64) {
	c.owed += min(max(step, 0), c.usage())
	n := c.owed / c.pageBytes()
	c.owed -= n * c.pageBytes()
	if n == 0 {
		return
	}
	c.taken = int64(c.reclaim(int(n))) * c.pageBytes()
}

func (c *cgroup) reclaim(n int) (stolen int) {
	scanned, stolen := c.model.reclaim(n)
	c.scanned, c.stolen = c.scanned+scanned, c.stolen+stolen
	c.m.visits += int64(scanned)
	return stolen
}
