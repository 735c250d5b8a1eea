package heat

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// memory is pages whose last touch is known exactly, and the three ways in which a kernel tells of it.
type memory struct {
	rng   *rand.Rand
	now   time.Time
	pages []simPage
	gens  []simGen // ascending
}

type simPage struct {
	here    bool
	touched time.Time
	bit     bool // one bit a page: since the last scan
	gather  bool // since the last clearing
	age     uint8
	accessd bool // what ageing harvests
	gen     uint64
}

type simGen struct {
	seq  uint64
	born time.Time
}

func newMemory(seed uint64, n int) *memory {
	m := &memory{rng: rand.New(rand.NewPCG(seed, 7)), now: time.Unix(1e9, 0), pages: make([]simPage, n)}
	m.gens = []simGen{{0, m.now}, {1, m.now}}
	for i := range m.pages {
		m.touch(i)
	}
	return m
}

func (m *memory) touch(i int) {
	p := &m.pages[i]
	if !p.here { // a page that comes in lands in the youngest generation
		p.gen = m.gens[len(m.gens)-1].seq
	}
	p.here, p.touched, p.bit, p.gather, p.accessd = true, m.now, true, true, true
}

// evict takes up to n pages of the oldest generation away.
func (m *memory) evict(n int) {
	for i := range m.pages {
		if p := &m.pages[i]; n > 0 && p.here && p.gen == m.gens[0].seq && !p.accessd {
			p.here = false
			n--
		}
	}
}

// pass lets d go by, in which each page of touch is touched once at some time.
func (m *memory) pass(d time.Duration, touch []int) {
	end := m.now.Add(d)
	at := make([]time.Duration, len(touch))
	for i := range at {
		at[i] = time.Duration(m.rng.Int64N(int64(d)))
	}
	slices.Sort(at)
	start := m.now
	for i, p := range touch {
		m.now = start.Add(at[i])
		m.touch(p)
	}
	m.now = end
}

// colder is the truth: bytes that were not touched for idle.
func (m *memory) colder(idle time.Duration) (n int64) {
	for _, p := range m.pages {
		if p.here && m.now.Sub(p.touched) >= idle {
			n += 4096
		}
	}
	return n
}

func (m *memory) tally() *Tally {
	var t Tally
	for i := range m.pages {
		if p := &m.pages[i]; p.here {
			p.age = t.See(p.age, p.bit, 4096)
			p.bit = false
		}
	}
	return &t
}

func (m *memory) sight() (s Sight) {
	for _, p := range m.pages {
		switch {
		case !p.here:
			continue
		case p.gather:
			s.Touched += 4096
		default:
			s.Idle += 4096
		}
		s.Total += 4096
	}
	return s
}

func (m *memory) clear() {
	for i := range m.pages {
		m.pages[i].gather = false
	}
}

func (m *memory) generations() (out []Generation) {
	for _, g := range m.gens {
		gen := Generation{Seq: g.seq, Age: m.now.Sub(g.born)}
		for _, p := range m.pages {
			if p.here && p.gen == g.seq {
				gen.Bytes += 4096
			}
		}
		out = append(out, gen)
	}
	return out
}

// age does what the kernel does for "+": harvest, make one generation, and merge the oldest two beyond four.
func (m *memory) age() {
	youngest := m.gens[len(m.gens)-1].seq
	for i := range m.pages {
		if p := &m.pages[i]; p.accessd {
			p.accessd, p.gen = false, youngest
		}
	}
	if len(m.gens) == 4 {
		for i := range m.pages {
			if p := &m.pages[i]; p.gen == m.gens[0].seq {
				p.gen = m.gens[1].seq
			}
		}
		m.gens = m.gens[1:]
	}
	m.gens = append(slices.Clone(m.gens), simGen{youngest + 1, m.now})
}

func checkHistogram(t interface{ Errorf(string, ...any) }, what string, h Histogram) {
	for i, a := range h {
		if a.Bytes < 0 || a.Idle < 0 || i > 0 && a.Idle <= h[i-1].Idle {
			t.Errorf("%s is no histogram: %v", what, h)
			return
		}
	}
}

// Whatever is touched and evicted, no source claims that more is cold than is, at any age, and the totals agree.
func TestNothingLooksColderThanItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 60).Draw(t, "pages"))
		scan := time.Duration(rapid.Int64Range(1, 600).Draw(t, "scan")) * time.Second
		var l Ladder
		var earlier []time.Time
		for range rapid.IntRange(1, 45).Draw(t, "scans") {
			m.pass(scan, rapid.SliceOfN(rapid.IntRange(0, len(m.pages)-1), 0, 30).Draw(t, "touch"))
			byBit := m.tally().Reading(m.now, earlier, "bit")
			earlier = slices.Insert(earlier, 0, m.now)
			before := m.generations()
			m.age()
			byGen, ok := l.Climb(m.now, before, m.generations(), "gen")
			if !ok {
				t.Fatalf("no reading of %d generations", len(m.gens))
			}
			for _, r := range []Reading{byBit, byGen} {
				checkHistogram(t, r.Source+" cold", r.Cold)
				checkHistogram(t, r.Source+" promo", r.Promo)
				if got, want := r.Cold.Total(), m.colder(0); got != want {
					t.Errorf("%s: %d bytes in all, want %d", r.Source, got, want)
				}
				for _, a := range r.Cold {
					if got, want := r.Cold.Colder(a.Idle), m.colder(a.Idle); got > want {
						t.Errorf("%s: %d bytes idle for %v, in truth %d; %v", r.Source, got, a.Idle, want, r.Cold)
					}
					if a.Bytes > 0 && a.Idle > r.Span {
						t.Errorf("%s: %d bytes idle for %v after a span of %v", r.Source, a.Bytes, a.Idle, r.Span)
					}
				}
			}
			m.evict(rapid.IntRange(0, 10).Draw(t, "evict"))
		}
	})
}

// With a part that is always hot and one that never is, every source draws the exact curve.
func TestTwoPartsAreToldApart(t *testing.T) {
	const scan, pages, hot = 2 * time.Minute, 100, 30
	m := newMemory(1, pages)
	var l Ladder
	var e Epochs
	var earlier []time.Time
	e.Cleared(m.now)
	m.clear()
	var rs []Reading
	for range 40 {
		var touch []int
		for i := range hot {
			touch = append(touch, i)
		}
		m.pass(scan, touch)
		before := m.generations()
		m.age()
		byGen, _ := l.Climb(m.now, before, m.generations(), "gen")
		rs = []Reading{byGen, m.tally().Reading(m.now, earlier, "bit"), e.See(m.now, m.sight(), "epoch")}
		if e.Over(m.now) {
			e.Cleared(m.now)
			m.clear()
		}
		earlier = slices.Insert(earlier, 0, m.now)
	}
	for _, r := range rs {
		for _, p := range r.Curve() {
			if want := int64(pages-hot) * 4096; p.Bytes != want || !p.Known {
				t.Errorf("%s: %d bytes idle for %v (known: %v), want %d; %v", r.Source, p.Bytes, p.Idle, p.Known, want, r.Cold)
			}
		}
		if want := int64(hot) * 4096; r.WorkingSet != want {
			t.Errorf("%s: working set %d, want %d", r.Source, r.WorkingSet, want)
		}
		if r.Scan != scan || r.Promo == nil || r.Promo.Colder(scan) != 0 {
			t.Errorf("%s: scan %v, promotions %v; want none beyond one scan", r.Source, r.Scan, r.Promo)
		}
	}
}

// What comes back after ten minutes is a promotion from the age of eight: that is what the last scan had seen.
func TestPromotionsCarryTheAgeReached(t *testing.T) {
	const scan = 2 * time.Minute
	m := newMemory(3, 50)
	var l Ladder
	var e Epochs
	var earlier []time.Time
	e.Cleared(m.now)
	m.clear()
	for i := range 6 {
		var touch []int
		if i == 5 {
			touch = []int{1, 2, 3, 4}
		}
		m.pass(scan, touch)
		before := m.generations()
		m.age()
		byGen, _ := l.Climb(m.now, before, m.generations(), "gen")
		byBit := m.tally().Reading(m.now, earlier, "bit")
		byEpoch := e.See(m.now, m.sight(), "epoch")
		earlier = slices.Insert(earlier, 0, m.now)
		if i < 5 {
			continue
		}
		const perMin = 4 * 4096 / 2
		for _, c := range []struct {
			r    Reading
			most time.Duration
		}{{byBit, 8 * time.Minute}, {byEpoch, 10 * time.Minute}, {byGen, byGen.Span}} { // generations: from the oldest, of any age
			if got := c.r.Promo.Colder(c.most); got != perMin {
				t.Errorf("%s: %d bytes a minute came back after %v, want %d; %v", c.r.Source, got, c.most, int64(perMin), c.r.Promo)
			}
			if got := c.r.Promo.Colder(c.most + scan); got != 0 {
				t.Errorf("%s: %d bytes a minute came back after more than %v; %v", c.r.Source, got, c.most, c.r.Promo)
			}
		}
	}
}

// Within an epoch the age it has reached is exact; what an older epoch knew never exceeds it.
func TestAnEpochIsExactAtItsOwnAge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 60).Draw(t, "pages"))
		scan := time.Duration(rapid.Int64Range(16, 900).Draw(t, "scan")) * time.Second
		var e Epochs
		for range rapid.IntRange(1, 60).Draw(t, "scans") {
			if e.Over(m.now) {
				e.Cleared(m.now)
				m.clear()
			}
			m.pass(scan, rapid.SliceOfN(rapid.IntRange(0, len(m.pages)-1), 0, 20).Draw(t, "touch"))
			age := m.now.Sub(e.start)
			r := e.See(m.now, m.sight(), "epoch")
			checkHistogram(t, "cold", r.Cold)
			checkHistogram(t, "promo", r.Promo)
			if got, want := r.Cold.Colder(tidy(age, scan)), m.colder(age); got != want {
				t.Errorf("%d bytes idle for %v, in truth %d; %v", got, age, want, r.Cold)
			}
			if r.Cold.Total() != m.colder(0) {
				t.Errorf("%d bytes in all, in truth %d", r.Cold.Total(), m.colder(0))
			}
		}
	})
}

func TestShortScansDoNotFillTheMemory(t *testing.T) {
	var e Epochs
	var l Ladder
	at := time.Unix(1e9, 0)
	e.Cleared(at)
	gens := func(n uint64) (out []Generation) {
		for i := range uint64(4) {
			out = append(out, Generation{Seq: n + i, Age: time.Duration(3-i) * time.Second, Bytes: 4096})
		}
		out[0].Bytes *= int64(n)
		return out
	}
	for i := range 3500 {
		at = at.Add(time.Second)
		e.See(at, Sight{Total: 10, Idle: 5, Touched: 5}, "epoch")
		l.Climb(at, gens(uint64(i)), gens(uint64(i)+1), "gen")
	}
	if len(e.cold) > 150 || len(e.promo) > 150 || len(l.known) > maxRungs || len(l.known) < 10 {
		t.Errorf("%d and %d points, %d rungs", len(e.cold), len(e.promo), len(l.known))
	}
}
