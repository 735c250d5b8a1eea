package mix

import (
	"fmt"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
)

// SoonBack is the mean stay in the pool below which pages count as needed soon: a quarter of LongCold, so that what
// lies between the two is left to the kernel.
const SoonBack = 15 * time.Minute

const (
	markEvery = 5 * time.Minute             // of the history from which stays are told
	marks     = int(LongCold/markEvery) + 2 // the oldest is always more than LongCold old
	freshMark = time.Minute                 // shorter, and a single fault is a rate
	worthKeep = 4 << 20                     // bytes in the pool below which nothing is done about them
	worthMove = 8 << 20                     // long-cold bytes below which no limit is set
	moveStep  = 16 << 20                    // bytes by which one decision lets the pool's content exceed its limit
	leastStep = 1 << 20                     // and below which it does not bother
	leastPool = 1 << 20                     // a limit is never lower: 0 would keep the cgroup out of the pool
	roomAbove = 0.7                         // share of the pool in use up to which pages may be bound to it
	fullAbove = 0.85                        // and from which they are let go: a full pool would leave them no place at all
	fineAgain = 0.5                         // price of writing at which it goes on after it was 1
	forever   = 1000 * time.Hour            // a stay of which nothing has come back yet
	seedDisk  = time.Millisecond            // a refault from a disk until it is measured: 0.47 to 9.3 ms is what TMO's fleet has (ASPLOS 2022)
)

// Look is what is known of one cgroup's pages in the pool at one time. Sizes are bytes; the counters only grow.
type Look struct {
	At           time.Duration // the cgroup's age, as far as it was watched
	Stored, Pool int64         // in the pool, before compression, and after
	Sent         int64         // counter: went into the pool
	Back         int64         // counter: came back from swap, whatever held it
	DiskBack     int64         // counter: of these, from the disk
}

// Ground is what the placing of a cgroup's pages depends on beside themselves.
type Ground struct {
	Pool, Disk bool          // there is one, and it can take pages
	Moves      bool          // the kernel moves pages from the pool to the disk, or would if the budget were not spent
	Full       float64       // share of the pool in use
	Poor       bool          // the pages do not shrink
	Latency    bool          // somebody waits for this cgroup
	CanKeep    bool          // the kernel can be told to keep its pages off the disk, and nobody else has told it
	CanLimit   bool          // likewise its part of the pool can be limited
	Kept       bool          // it is told now
	Limit      int64         // the limit now, 0 without
	Left       int64         // bytes that may still be written to the disk
	Price      float64       // share of that budget that is gone
	DiskCost   time.Duration // of a refault from the disk, 0 for unknown
	MaxCost    float64       // share of time that refaults may cost
}

// Placement is the answer. Its zero value is the kernel's default.
type Placement struct {
	Keep   bool   // its pages stay in the pool (memory.zswap.writeback 0)
	Limit  int64  // of its part of the pool, in bytes after compression (memory.zswap.max); 0 for none
	Writes int64  // bytes that lowering Limit to this lets be written, at most
	Detail string // one sentence for people; "" for the default
}

// Placing decides for one cgroup where its pages in the pool belong, from how long they stay there. Put is the rule;
// this is what it takes on a kernel that can only be given limits and permissions.
type Placing struct {
	ring  [marks]mark
	n     int
	soon  bool
	cold  bool
	spent bool
	held  time.Duration // until then its pages are not moved: they cost too much when they came back
	pause time.Duration // how long the last such hold was
}

type mark struct {
	at                   time.Duration
	sent, back, diskBack int64
}

// Decide takes one look. At must not go back.
func (p *Placing) Decide(l Look, g Ground) Placement {
	l.Stored, l.Pool = max(l.Stored, 0), max(min(l.Pool, l.Stored), 0)
	stay, long := p.note(l)
	p.soon = stay < SoonBack || p.soon && stay < 2*SoonBack
	place, _ := Put(Home{Pool: g.Pool, Disk: g.Disk, Idle: long})
	p.cold = g.Pool && (place == OnDisk || p.cold && long >= LongCold/2)
	if g.Price >= 1 {
		p.spent = true
	} else if g.Price < fineAgain {
		p.spent = false
	}
	if !g.Pool || !g.Disk || g.Poor || !g.Moves {
		return Placement{}
	}
	if cost := p.diskCost(l, g); cost > g.MaxCost && l.At >= p.held {
		p.hold(l.At)
	}
	held := l.At < p.held
	room := g.Full < roomAbove || g.Kept && g.Full <= fullAbove
	needed := p.soon || held || g.Latency && !(p.cold && p.affordable(l, g))
	switch {
	case g.CanKeep && room && needed && (g.Kept || l.Stored >= worthKeep):
		return Placement{Keep: true, Detail: "its pages stay in the pool: " + p.why(stay, held)}
	case needed || !g.CanLimit || !p.cold || p.spent:
		return Placement{}
	}
	return p.limit(l, g, long)
}

func (p *Placing) why(stay time.Duration, held bool) string {
	switch {
	case held:
		return fmt.Sprintf("what came back from the disk cost too much, so none is moved there for %v", p.pause)
	case p.soon:
		return fmt.Sprintf("they come back after %v on average", stay.Round(time.Minute))
	}
	return "somebody waits for it, and they are not known to be long cold"
}

// limit lets what has been in the pool for long be pushed out, a little at a time. What was not sent within LongCold is
// at least that old: that is the part that may go. Over a limit, the kernel writes a page out for each that it takes
// in, or sends the new one there.
func (p *Placing) limit(l Look, g Ground, long time.Duration) Placement {
	old := max(0, l.Stored-max(0, l.Sent-p.oldest().sent))
	m, _ := p.since(l.At, LongCold/2)
	switch young := l.Sent-m.sent >= l.Stored; { // all of it was sent within half an hour
	case l.Pool == 0, g.Limit > 0 && young, g.Limit == 0 && old < max(worthMove, l.Stored/8):
		return Placement{}
	}
	ratio := float64(l.Stored) / float64(l.Pool)
	target := max(leastPool, int64(float64(l.Stored-old)/ratio))
	from := l.Pool
	if g.Limit > 0 {
		from = min(from, g.Limit)
	}
	step := min(moveStep, g.Left/4)
	next := pages(max(target, l.Pool-int64(float64(step)/ratio)))
	writes := int64(float64(from-next)*ratio + 0.5)
	if writes < leastStep || writes > g.Left {
		if next, writes = g.Limit, 0; next == 0 {
			return Placement{}
		}
	}
	return Placement{Limit: next, Writes: writes,
		Detail: fmt.Sprintf("its part of the pool is limited to %v: %v of it were not touched for an hour, and it stays out for %v on average",
			bytesize.Size(next/leastPool*leastPool), bytesize.Size(old/leastPool*leastPool), stayText(long))}
}

// pages rounds up to whole pages, as the kernel would round down.
func pages(n int64) int64 { return (n + page - 1) / page * page }

func stayText(d time.Duration) string {
	if d >= 24*time.Hour {
		return "more than a day"
	}
	return d.Round(time.Minute).String()
}

// note adds l to the history and tells how long a page stays in the pool on average: by what came back lately, SoonBack
// if it is watched for so long, and over LongCold, 0 as long as it is not watched for that.
func (p *Placing) note(l Look) (stay, long time.Duration) {
	if p.n == 0 || l.At-p.newest(0).at >= markEvery {
		p.ring[p.n%marks] = mark{l.At, l.Sent, l.Back, l.DiskBack}
		p.n++
	}
	stay = forever
	if m, ok := p.since(l.At, SoonBack); ok && l.Stored >= worthKeep {
		stay = mean(l, m)
	}
	if m := p.oldest(); l.At-m.at >= LongCold {
		long = mean(l, m)
	}
	return stay, long
}

// mean is the mean stay by what came back since m.
func mean(l Look, m mark) time.Duration {
	back := l.Back - m.back
	if back <= 0 {
		return forever
	}
	return time.Duration(min(float64(l.Stored)/float64(back)*float64(l.At-m.at), float64(forever)))
}

// newest is the i-th newest mark.
func (p *Placing) newest(i int) mark { return p.ring[(p.n-1-i)%marks] }

func (p *Placing) oldest() mark { return p.newest(min(p.n, marks) - 1) }

// since is the newest mark that is at least d old, or the oldest; false when that is hardly any time ago.
func (p *Placing) since(at, d time.Duration) (mark, bool) {
	for i := range min(p.n, marks) {
		if m := p.newest(i); at-m.at >= d {
			return m, true
		}
	}
	m := p.oldest()
	return m, at-m.at >= markEvery
}

// diskCost is the share of time that refaults from the disk have cost lately.
func (p *Placing) diskCost(l Look, g Ground) float64 {
	m, _ := p.since(l.At, freshMark)
	return costShare(l.DiskBack-m.diskBack, l.At-m.at, g)
}

// affordable says whether refaults would cost no more than they may if all of the last hour's had been from the disk.
func (p *Placing) affordable(l Look, g Ground) bool {
	m := p.oldest()
	return costShare(l.Back-m.back, l.At-m.at, g) <= g.MaxCost
}

func costShare(back int64, in time.Duration, g Ground) float64 {
	if in < freshMark || back <= 0 {
		return 0
	}
	cost := g.DiskCost
	if cost <= 0 {
		cost = seedDisk
	}
	return float64(back/page) * float64(cost) / float64(in)
}

// hold ends moving for an hour, and for twice as long if it was tried again within a day of the last time.
func (p *Placing) hold(at time.Duration) {
	if p.pause == 0 || at-p.held > lastRetest {
		p.pause = firstRetest
	} else {
		p.pause = min(2*p.pause, lastRetest)
	}
	p.held = at + p.pause
}
