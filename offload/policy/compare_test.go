package policy

import (
	"testing"
	"time"
)

// demo is the store of `make demo`, 400 MB, 40 % of it read with Zipf 0.99 at 3,000 GET/s, decided on every second. A
// law that does so with ratio 0.01 does in two minutes what production does in hours. To be quick it is scaled: each
// page stands for four, each read for four, and a refault costs what four do.
func demo(seed uint64) *toy {
	m := newToy(seed, 97_600/scale, 0.4, 3000/scale)
	m.cost *= scale
	m.seen = 0.3 // of a refault's cost, as measured for pages of a hot set on Linux 6.18
	return m
}

const scale = 4

var demoParams = Params{Ratio: 0.01}

// trace is what a law did to a toy.
type trace struct {
	usage, refaults []float64 // MB, pages
	decisions       []Decision
}

func follow(m *toy, l Law, periods int, before func(i int)) (tr trace) {
	for i := range periods {
		if before != nil {
			before(i)
		}
		s := m.run()
		d := l.Decide(s)
		m.shrink(d.Step)
		tr.usage = append(tr.usage, scale*float64(s.Usage)/1e6)
		tr.refaults = append(tr.refaults, scale*float64(s.RefaultAnon))
		tr.decisions = append(tr.decisions, d)
	}
	return tr
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}

func mustNew(t testing.TB, name string, p Params) Law {
	t.Helper()
	l, err := New(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestSteadyState runs both laws on equal stores. Where they settle, composite must cause at most 0.8 of the
// faults of tmo at about equal saving. On an exact LRU no law can beat another at exactly the same size, because
// the size alone decides what is missing; what composite does better is to stop where the curve bends.
func TestSteadyState(t *testing.T) {
	t.Parallel()
	const settle, end = 300, 600
	for seed := uint64(1); seed <= 2; seed++ {
		c := follow(demo(seed), mustNew(t, Composite, demoParams), end, nil)
		m := follow(demo(seed), mustNew(t, TMO, demoParams), end, nil)
		full := c.usage[0]
		saved := (full - mean(c.usage[settle:])) / (full - mean(m.usage[settle:]))
		faults := mean(c.refaults[settle:]) / mean(m.refaults[settle:])
		t.Logf("seed %d: composite %.0f MB %.0f refaults/s, tmo %.0f MB %.0f refaults/s: saving %.2f, faults %.2f",
			seed, mean(c.usage[settle:]), mean(c.refaults[settle:]), mean(m.usage[settle:]), mean(m.refaults[settle:]), saved, faults)
		if saved < 0.9 {
			t.Errorf("seed %d: composite saves %.2f of what tmo saves", seed, saved)
		}
		if faults > 0.8 {
			t.Errorf("seed %d: composite causes %.2f of the faults of tmo", seed, faults)
		}
	}
}

// TestDescent: from 400 MB to the working set in about as many steps as the ratio allows, then rest.
func TestDescent(t *testing.T) {
	t.Parallel()
	tr := follow(demo(4), mustNew(t, Composite, demoParams), 900, nil)
	at := 0
	for at < len(tr.usage) && tr.usage[at] > 170 {
		at++
	}
	if at > 95 { // 400 × 0.99^86 = 168
		t.Errorf("needed %d periods to 170 MB, want at most 95", at)
	}
	steps, low, high := 0, tr.usage[300], tr.usage[300]
	for i := 300; i < len(tr.usage); i++ {
		low, high = min(low, tr.usage[i]), max(high, tr.usage[i])
		if tr.decisions[i].Step > 0 {
			steps++
		}
	}
	t.Logf("170 MB after %d periods; then %.0f to %.0f MB, a step in %d of 600 periods", at, low, high, steps)
	if high/low > 1.08 {
		t.Errorf("oscillates between %.0f and %.0f MB", low, high)
	}
	if steps > 150 {
		t.Errorf("takes a step in %d of 600 periods: nibbling, not resting", steps)
	}
}

// TestStalls injects 20 reads of cold data that memory pressure does not see. Composite must answer each
// within two periods by a zero step that names refault cost; tmo never does.
func TestStalls(t *testing.T) {
	t.Parallel()
	const first, every, stalls = 150, 37, 20
	for _, name := range []string{Composite, TMO} {
		m := demo(5)
		m.seen = 0
		injected := func(i int) bool { return i >= first && (i-first)%every == 0 && i < first+every*stalls }
		tr := follow(m, mustNew(t, name, demoParams), first+every*stalls, func(i int) {
			if injected(i) {
				m.stall(500 / scale) // 2,000 keys, 7.5 ms
			}
		})
		answered, calm, alarms, recent := 0, 0, 0, 0
		for i, d := range tr.decisions {
			zero := func(d Decision) bool { return d.Step == 0 && d.Reason == RefaultCost && d.Signal == refaultCost }
			switch {
			case injected(i):
				recent = 2
				if zero(d) || i+1 < len(tr.decisions) && zero(tr.decisions[i+1]) {
					answered++
				}
			case recent == 0:
				calm++
				if zero(d) {
					alarms++
				}
			}
			recent = max(0, recent-1)
		}
		share := float64(alarms) / float64(calm)
		t.Logf("%s: %d of %d stalls answered, false alarms in %.1f %% of %d calm periods", name, answered, stalls, 100*share, calm)
		if name == TMO {
			if answered != 0 {
				t.Errorf("tmo answered %d stalls without a refault term: the comparison is broken", answered)
			}
			continue
		}
		if answered != stalls {
			t.Errorf("composite answered %d of %d stalls", answered, stalls)
		}
		if share > 0.05 {
			t.Errorf("composite raised a false alarm in %.1f %% of calm periods", 100*share)
		}
	}
}

// TestShrinkingWorkingSet: half of what was hot is never read again; the law must find that out by itself, also after
// its probes had become rare.
func TestShrinkingWorkingSet(t *testing.T) {
	t.Parallel()
	m := demo(6)
	tr := follow(m, mustNew(t, Composite, demoParams), 1800, func(i int) {
		if i == 900 {
			m.setHot(0.2)
			m.reads /= 2
		}
	})
	before, after := mean(tr.usage[800:900]), mean(tr.usage[1700:])
	t.Logf("rests at %.0f MB, then at %.0f MB", before, after)
	if after > 0.65*before {
		t.Errorf("still at %.0f MB of %.0f MB, 900 periods after half the working set went cold", after, before)
	}
}

// TestGrowingWorkingSet: everything becomes hot; the law must give way at once and rest higher.
func TestGrowingWorkingSet(t *testing.T) {
	t.Parallel()
	m := demo(7)
	m.seen = 0
	tr := follow(m, mustNew(t, Composite, demoParams), 1200, func(i int) {
		if i == 400 {
			m.setHot(0.8)
		}
	})
	for i := 402; i < 410; i++ {
		if tr.decisions[i].Step > 0 {
			t.Errorf("period %d: takes %d bytes while the working set comes back", i, tr.decisions[i].Step)
		}
	}
	t.Logf("%.0f MB before, %.0f MB after; refaults %.0f/s at the end", tr.usage[399], mean(tr.usage[1100:]), mean(tr.refaults[1100:]))
	if mean(tr.usage[1100:]) < 1.5*tr.usage[399] {
		t.Errorf("rests at %.0f MB although the working set doubled from %.0f MB", mean(tr.usage[1100:]), tr.usage[399])
	}
}

// TestProduction runs the published setting, 6 s and 0.05 %, on the same store for six simulated hours: slow, but
// it arrives, and nothing hurts on the way.
func TestProduction(t *testing.T) {
	t.Parallel()
	m := newToy(8, 97_600/8, 0.4, 6*3000/8) // an eighth of the store, of its reads and so of its refaults
	m.period, m.seen = 6*time.Second, 0.3
	tr := follow(m, mustNew(t, Composite, Params{}), 6*600, nil)
	n := len(tr.usage)
	share := mean(tr.usage[n-100:]) / tr.usage[0]
	backOffs := 0
	for _, d := range tr.decisions {
		if d.Reason == RefaultCost || d.Reason == MemPressure {
			backOffs++
		}
	}
	t.Logf("%d periods: resident %.2f of the store, %d back-offs, %.1f refaults a period", n, share, backOffs, mean(tr.refaults[n-100:])/scale)
	if share > 0.5 {
		t.Errorf("still %.2f of the store is resident", share)
	}
	if backOffs > n/100 {
		t.Errorf("%d back-offs in %d periods", backOffs, n)
	}
}
