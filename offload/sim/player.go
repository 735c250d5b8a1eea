package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// player is one part at work.
type player struct {
	Part
	c        *cgroup
	first, n int32 // its pages

	hotFrom, hotN int32
	popular       []coin // one a hot page
	load          float64
	owed          float64 // touches not made yet
	cursor        int32   // next page of a scan, of a job's writes, or of a stall among the cold ones

	job   int32   // the share that is being written
	wrote float64 // pages of it
}

// coin is a cell of Walker's alias method (1977): it shows self with a probability of cut/2³², else other. Drawing
// a page by its popularity takes one random number and one cell.
type coin struct {
	cut         uint32
	self, other int32
}

const (
	keysPerPage = 4 // 1 KiB values
	exponent    = 0.99
)

func newPlayer(c *cgroup, p Part, first, n int32) *player {
	if p.Hot == 0 {
		p.Hot = 1
	}
	pl := &player{Part: p, c: c, first: first, n: n, load: 1}
	if p.Pattern == Zipf {
		pl.hotN = pl.share(p.Hot)
		pl.hotFrom = n - pl.hotN
		pl.mix()
	}
	return pl
}

func (p *player) share(hot float64) int32 { return max(1, int32(hot*float64(p.n))) }

// mix strews the keys of the hot part over its pages and prepares the draws.
func (p *player) mix() {
	n := int(p.hotN)
	weight := make([]float64, n)
	rng := rand.New(p.c.dice)
	sum := 0.0
	for rank, key := range rng.Perm(n * keysPerPage) {
		w := math.Exp(-exponent * math.Log(float64(rank+1)))
		weight[key/keysPerPage] += w
		sum += w
	}
	p.popular = make([]coin, n)
	var small, large []int32
	for i := range weight {
		weight[i] *= float64(n) / sum
		p.popular[i] = coin{math.MaxUint32, p.at(int32(i)), p.at(int32(i))}
		if weight[i] < 1 {
			small = append(small, int32(i))
		} else {
			large = append(large, int32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		p.popular[s].cut, p.popular[s].other = uint32(weight[s]*math.MaxUint32), p.at(l)
		if weight[l] -= 1 - weight[s]; weight[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
}

// at is the i-th page from the hot part's start; the part is a ring.
func (p *player) at(i int32) int32 { return p.first + (p.hotFrom+i)%p.n }

// change applies a phase.
func (p *player) change(ph Phase) {
	if ph.Load > 0 {
		p.load = ph.Load
	}
	if p.Pattern == Zipf && (ph.Hot > 0 || ph.Move) {
		if ph.Move {
			p.hotFrom = (p.hotFrom + p.n/2) % p.n
		}
		if ph.Hot > 0 {
			p.hotN = p.share(ph.Hot)
		}
		p.mix()
	}
	cold := p.n - p.hotN
	for range min(ph.Read/p.c.pageBytes(), int64(cold)) {
		p.touch(p.at(p.hotN + p.cursor%cold))
		p.cursor++
	}
}

// start touches every page once.
func (p *player) start() {
	if p.Pattern == Churn {
		return
	}
	for i := range p.n {
		p.c.touch(p.first + i)
	}
}

// play does what one tick of length d holds.
func (p *player) play(d time.Duration) {
	if p.Pattern == Churn {
		p.churn(d)
		return
	}
	if p.Pattern == Idle {
		return
	}
	p.owed += p.Rate * p.load * d.Seconds() / float64(p.c.scale)
	n := int(p.owed)
	p.owed -= float64(n)
	if p.Request {
		p.c.now.Requests += int64(n)
	}
	if p.Pattern == Scan {
		for range n {
			p.touch(p.first + p.cursor)
			if p.cursor++; p.cursor == p.n {
				p.cursor = 0
			}
		}
		return
	}
	cells := uint64(len(p.popular))
	for range n {
		r := p.c.dice.Uint64()
		cell := &p.popular[r>>32*cells>>32]
		if uint32(r) < cell.cut {
			p.touch(cell.self)
		} else {
			p.touch(cell.other)
		}
	}
}

// touch is one access, which may be a request.
func (p *player) touch(page int32) {
	stall := p.c.touch(page)
	if p.Writes > 0 && (p.Writes >= 1 || float64(p.c.dice.Uint64()>>11)*0x1p-53 < p.Writes) {
		p.c.m.pages[page].flags |= dirty
	}
	if stall > 0 && p.Request {
		p.c.delayed(stall)
	}
}

// churn lets the current job write; when its time is over the oldest job goes and the next one takes its pages.
func (p *player) churn(d time.Duration) {
	size := p.n / int32(p.Jobs)
	p.wrote += float64(size) * d.Seconds() / p.Every.Seconds()
	for p.cursor < size && float64(p.cursor+1) <= p.wrote+1e-6 {
		p.c.touch(p.first + p.job*size + p.cursor)
		p.cursor++
	}
	if p.cursor < size {
		return
	}
	p.job = (p.job + 1) % int32(p.Jobs)
	p.cursor, p.wrote = 0, 0
	for i := range size {
		p.c.release(p.first + p.job*size + i)
	}
}
