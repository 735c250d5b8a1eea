package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// loop is a cgroup that touches all of its memory in turn, once in so many periods: nothing of it is cold. What is
// taken is any of its pages, as from a kernel whose lists know no order among pages that were all touched lately, or
// the newest, so that nothing comes back for a whole turn.
type loop struct {
	rng      *rand.Rand
	resident []bool
	at       int // the next page to be touched
	turn     int // pages touched in a period
	cost     time.Duration
	newest   bool
}

func newLoop(seed uint64, pages, periods int, cost time.Duration) *loop {
	l := &loop{rng: rand.New(rand.NewPCG(seed, 1)), resident: make([]bool, pages), turn: pages / periods, cost: cost}
	for i := range l.resident {
		l.resident[i] = true
	}
	return l
}

// run lets the law decide for so many periods and returns the pages that came back in each.
func (l *loop) run(law Law, periods int) (back []int) {
	usage, took := len(l.resident), 0
	for range periods {
		in := 0
		for range l.turn {
			if !l.resident[l.at] {
				l.resident[l.at] = true
				in++
			}
			l.at = (l.at + 1) % len(l.resident)
		}
		usage += in
		d := law.Decide(Sample{Period: time.Second, Usage: int64(usage) * page, PSI: true, RefaultAnon: uint64(in), CostAnon: l.cost,
			Reclaimed: int64(took) * page, Anon: int64(usage) * page})
		took = int(d.Step / page)
		for n, p := took, l.at; n > 0; {
			if p = (p + len(l.resident) - 1) % len(l.resident); !l.newest {
				p = l.rng.IntN(len(l.resident))
			}
			if l.resident[p] {
				l.resident[p] = false
				n--
			}
		}
		usage -= took
		back = append(back, in)
	}
	return back
}

// In a loop nothing is cold, and each descent that finds that out costs its service.
func TestLoopIsLeftAlone(t *testing.T) {
	for i, c := range []struct {
		mib, seconds int
		cost         time.Duration
	}{
		{384, 15, 15 * time.Microsecond},
		{192, 20, 5 * time.Microsecond},
		{192, 20, 100 * time.Microsecond},
		{64, 5, 15 * time.Microsecond},
		{1024, 120, 15 * time.Microsecond},
	} {
		for _, newest := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d MiB in %d s at %v a page, newest %v", c.mib, c.seconds, c.cost, newest), func(t *testing.T) {
				l := newLoop(uint64(i), c.mib<<8, c.seconds, c.cost)
				l.newest = newest
				law, err := New(Composite, Params{Ratio: 0.01})
				if err != nil {
					t.Fatal(err)
				}
				back := l.run(law, 1200)
				share := func(from, to int) (sum float64) {
					for _, n := range back[from:to] {
						sum += float64(n) / float64(len(l.resident))
					}
					return sum
				}
				// A law that begins again after each hold of ten periods has 1.2 to 2 times the memory come back in
				// the first part and the last alike.
				first, last := share(0, 600), share(600, 1200)
				if first > 0.7 || last > 0.2 {
					t.Errorf("in periods 0 to 600 %.2f of its memory came back (want at most 0.7), in 600 to 1200 %.2f (0.2)", first, last)
				}
			})
		}
	}
}
