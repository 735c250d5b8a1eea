package sim

// mglru models the multi-generational LRU (mm/vmscan.c, Linux 6.1 to 6.12):
//
//   - Two to four generations for each of swap-backed and file pages, which share the youngest (max_seq) and have
//     their own oldest (min_seq).
//   - Ageing (inc_max_seq) opens a generation and walks the page tables: what was accessed since the last walk moves
//     there. It runs when a kind that is to be evicted from has only two generations left.
//   - Eviction takes from the oldest generation. A page whose accessed bit is set goes to the youngest instead
//     (the rmap walk); a file page whose tier, the logarithm of its reads through descriptors, refaults more
//     than the lowest tier is moved one generation up (sort_folio).
//   - Which kind goes first follows from the refaults of the two, weighed by swappiness (get_type_to_scan).
//
// Memory PSI: the kernel counts a refault when the generation it was evicted from is still the oldest. How often
// that holds depends on details no model of this size has; on 6.12 it was measured at 27 to 30 %, and the model takes
// three in ten rather than the rule. Activations are the same ones.
//
// Simplified: one lruvec; no bloom filters, so a walk sees every page; no time-based protection (min_ttl_ms).
type mglru struct {
	c      *cgroup
	lists  [kinds][generations]list // by sequence number, modulo
	oldest [kinds]uint32            // min_seq
	newest uint32                   // max_seq
	size   int                      // batch, scaled

	gone, came [kinds][tiers]float64 // evicted or protected, and refaulted, by tier; halved at each ageing
	counted    float64               // share of a refault that is still to be counted
}

const (
	generations    = 4
	minGenerations = 2
	tiers          = 4
	maxReads       = 8   // reads beyond this do not raise the tier
	countedShare   = 0.3 // of refaults that memory PSI counts; measured on Linux 6.12
)

func newMGLRU(c *cgroup) *mglru {
	g := &mglru{c: c, newest: generations - 1, size: max(1, batch/c.scale)}
	for kind := range kinds {
		for i := range generations {
			g.lists[kind][i] = newList(c.m)
		}
	}
	return g
}

func (g *mglru) put(p int32, seq uint32) {
	pg := &g.c.m.pages[p]
	pg.gen = uint8(seq % generations)
	g.lists[pg.flags.kind()][pg.gen].push(p)
}

func (g *mglru) forget(p int32) {
	pg := &g.c.m.pages[p]
	g.lists[pg.flags.kind()][pg.gen].take(p)
}

// admit puts what a page table maps into the youngest generation, what is read through a descriptor into the oldest.
func (g *mglru) admit(p int32) {
	pg := &g.c.m.pages[p]
	pg.refs = 0
	if pg.flags&mapped != 0 {
		g.put(p, g.newest)
		return
	}
	g.put(p, g.oldest[pg.flags.kind()])
}

func (g *mglru) read(p int32) {
	if pg := &g.c.m.pages[p]; pg.refs < maxReads {
		pg.refs++
	}
}

// tier is the logarithm of the reads since a page came in, not counting the one that brought it.
func (pg *page) tier() int {
	switch {
	case pg.refs < 2:
		return 0
	case pg.refs == 2:
		return 1
	case pg.refs < 5:
		return 2
	}
	return tiers - 1
}

func (g *mglru) back(p int32) (counted, activated bool) {
	pg := &g.c.m.pages[p]
	kind := pg.flags.kind()
	if pg.shadow == g.oldest[kind] {
		g.came[kind][pg.tier()]++
	}
	g.admit(p)
	if g.counted += countedShare; g.counted >= 1 {
		g.counted--
		return true, true
	}
	return false, false
}

func (g *mglru) total(kind int) (n int) {
	for i := range generations {
		n += g.lists[kind][i].n
	}
	return n
}

// inactive: the two youngest generations are what the kernel reports as active.
func (g *mglru) inactive() (anon, file int) {
	var n [kinds]int
	for kind := range kinds {
		for seq := g.oldest[kind]; seq+1 < g.newest; seq++ {
			n[kind] += g.lists[kind][seq%generations].n
		}
	}
	return n[anonKind], n[fileKind]
}

// kind is get_type_to_scan: files, unless they come back more often for their share of swappiness.
func (g *mglru) kind() (kind int, ok bool) {
	anon, files := g.total(anonKind) > 0 && g.c.s.swap(), g.total(fileKind) > 0
	switch {
	case !anon:
		return fileKind, files
	case !files:
		return anonKind, true
	}
	few := float64(2 * g.size) // MIN_LRU_BATCH
	if wins(g.came[anonKind][0], g.gone[anonKind][0], swappiness, g.came[fileKind][0], g.gone[fileKind][0], 200-swappiness, few) {
		return fileKind, true
	}
	return anonKind, true
}

// wins is positive_ctrl_err: the second refaults no more than the first, each for its gain.
func wins(came, gone, gain, came2, gone2, gain2, few float64) bool {
	return came2 < few || came2*(gone+few)*gain <= (came+1)*gone2*gain2
}

// evictable is get_tier_idx: tiers above it are protected. The larger gain leaves a margin, so that a
// tier has to be clearly worse.
func (g *mglru) evictable(kind int) int {
	came, gone := &g.came[kind], &g.gone[kind]
	for t := 1; t < tiers; t++ {
		if !wins(came[0], gone[0], 2, came[t], gone[t], 3, float64(2*g.size)) {
			return t - 1
		}
	}
	return tiers - 1
}

func (g *mglru) reclaim(n int) (scanned, stolen int) {
	most, refused := patience*g.c.resident(), g.c.refused+patience*n+batch
	for stolen < n && scanned < most && g.c.refused < refused {
		kind, ok := g.kind()
		if !ok {
			break
		}
		if g.newest-g.oldest[kind] < minGenerations {
			g.age()
		}
		if g.lists[kind][g.oldest[kind]%generations].n == 0 {
			g.oldest[kind]++
			scanned++ // an empty cgroup must end this loop, too
			continue
		}
		looked, got := g.shrink(kind, n-stolen)
		scanned, stolen = scanned+looked, stolen+got
	}
	return scanned, stolen
}

// age opens a generation and moves there what was accessed.
func (g *mglru) age() {
	for kind := range kinds {
		if g.newest-g.oldest[kind] == generations-1 { // no room: the oldest joins the next (inc_min_seq)
			from, seq := &g.lists[kind][g.oldest[kind]%generations], g.oldest[kind]+1
			for from.n > 0 {
				p := from.m.pages[from.head].next // its youngest becomes the oldest of those that join
				from.take(p)
				g.joinOld(p, seq)
			}
			g.oldest[kind]++
		}
		for t := range tiers {
			g.gone[kind][t] /= 2
			g.came[kind][t] /= 2
		}
	}
	g.newest++
	g.c.m.visits += int64(g.c.n)
	pages := g.c.m.pages[g.c.first : g.c.first+g.c.n]
	for i := range pages {
		if pg := &pages[i]; pg.flags&(resident|accessed) == resident|accessed {
			pg.flags &^= accessed
			g.forget(g.c.first + int32(i))
			g.put(g.c.first+int32(i), g.newest)
		}
	}
}

// joinOld puts p at the old end.
func (g *mglru) joinOld(p int32, seq uint32) {
	pg := &g.c.m.pages[p]
	pg.gen = uint8(seq % generations)
	l := &g.lists[pg.flags.kind()][pg.gen]
	g.c.m.push(l.last(), p) // behind the oldest; the last of an empty list is its head
	l.n++
}

// shrink looks at one batch of the oldest generation.
func (g *mglru) shrink(kind, want int) (scanned, stolen int) {
	seq := g.oldest[kind]
	l := &g.lists[kind][seq%generations]
	evictable := g.evictable(kind)
	for range min(g.size, l.n) {
		if stolen == want {
			break
		}
		p := l.last()
		pg := &g.c.m.pages[p]
		l.take(p)
		scanned++
		switch t := pg.tier(); {
		case pg.flags&accessed != 0:
			pg.flags &^= accessed
			g.put(p, g.newest)
		case t > evictable:
			g.gone[kind][t]++
			g.put(p, seq+1)
		case !g.c.evict(p):
			g.put(p, g.newest)
		default:
			g.gone[kind][t]++
			pg.shadow = seq
			stolen++
		}
	}
	return scanned, stolen
}
