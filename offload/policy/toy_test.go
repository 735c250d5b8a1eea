package policy

import (
	"math"
	"math/rand/v2"
	"time"
)

// toy is a small model of one cgroup: a key-value store of which the older part is never read and the rest is
// read with a Zipf distribution, over an exact LRU list of pages. It exists to compare laws in milliseconds;
// what it leaves out (read-ahead, the scanner's mistakes, other tenants) only a real kernel can show.
type toy struct {
	rng    *rand.Rand
	period time.Duration
	cost   time.Duration // of one refault
	seen   float64       // share of a refault's cost that memory PSI counts

	reads    int     // per period
	key      []int   // rank to key; keysPerPage of them share a page
	firstHot int     // page
	area     float64 // below the Zipf curve

	next, prev []int32 // the LRU ring; entry n is the head: next is the newest, prev the oldest
	resident   []bool
	usage      int // pages

	taken int // by the last step
	in    int // refaults in this period
	cold  int // the next cold page to be read by a stall
}

const (
	keysPerPage = 4
	zipfTail    = 1 - 0.99
)

// newToy makes a store of n pages of which the newest share hot is read.
func newToy(seed uint64, n int, hot float64, reads int) *toy {
	t := &toy{
		rng:    rand.New(rand.NewPCG(seed, 0)),
		period: time.Second, cost: 15 * time.Microsecond, reads: reads,
		next: make([]int32, n+1), prev: make([]int32, n+1), resident: make([]bool, n), usage: n,
	}
	for i := range n + 1 { // page 0 is the oldest
		t.next[i], t.prev[i] = int32((i+n)%(n+1)), int32((i+1)%(n+1))
	}
	for i := range t.resident {
		t.resident[i] = true
	}
	t.setHot(hot)
	return t
}

// setHot makes the newest share of the store the part that is read.
func (t *toy) setHot(hot float64) {
	n := len(t.resident)
	t.firstHot = n - int(hot*float64(n))
	t.key = t.rng.Perm((n - t.firstHot) * keysPerPage)
	t.area = (math.Pow(float64(len(t.key)+1), zipfTail) - 1) / zipfTail
}

// zipf draws a rank, 0 the most popular, with probability about (rank+1)^-0.99: the inverse of the integral of that
// curve, which is close enough for a model and needs no table.
func (t *toy) zipf() int {
	return int(math.Pow(1+zipfTail*t.rng.Float64()*t.area, 1/zipfTail)) - 1
}

func (t *toy) unlink(p int) { t.next[t.prev[p]], t.prev[t.next[p]] = t.next[p], t.prev[p] }

func (t *toy) touch(p int) {
	if t.resident[p] {
		t.unlink(p)
	} else {
		t.resident[p] = true
		t.usage++
		t.in++
	}
	head := int32(len(t.resident))
	first := t.next[head]
	t.next[head], t.prev[p], t.next[p], t.prev[first] = int32(p), head, first, int32(p)
}

// shrink evicts the least recently used pages.
func (t *toy) shrink(bytes int64) {
	t.taken = min(int(bytes/page), t.usage)
	head := len(t.resident)
	for range t.taken {
		p := int(t.prev[head])
		t.unlink(p)
		t.resident[p] = false
	}
	t.usage -= t.taken
}

// stall reads n cold pages once.
func (t *toy) stall(n int) {
	for range n {
		t.touch(t.cold % t.firstHot)
		t.cold++
	}
}

// run lets one period pass and returns what a sampler would see at its end.
func (t *toy) run() Sample {
	for range t.reads {
		t.touch(t.firstHot + t.key[min(t.zipf(), len(t.key)-1)]/keysPerPage)
	}
	s := Sample{
		Period: t.period, Usage: int64(t.usage) * page, Floor: 16 << 20,
		PSI: true, MemSome: time.Duration(t.seen * float64(t.in) * float64(t.cost)),
		RefaultAnon: uint64(t.in), CostAnon: t.cost, Reclaimed: int64(t.taken) * page,
	}
	t.in, t.taken = 0, 0
	return s
}
