package sim

import "math"

// classic models mm/vmscan.c and mm/workingset.c of Linux 5.9 to 6.x with the multi-generational LRU off:
//
//   - shrink_folio_list: a page whose accessed bit is set is kept the first time and activated the second; an
//     unreferenced one goes. A read through a descriptor activates at the second read (folio_mark_accessed).
//   - shrink_active_list: runs while the inactive list is low (inactive × √(10 × GiB) < active) or refaults were
//     activated since the last reclaim; what leaves the active list carries the workingset flag from then on.
//   - workingset_refault: the shadow holds the cgroup's count of evictions and activations and the flag. A page
//     is activated when no more than the working set went after it; only then does the flag come back, and only with
//     the flag does swap-in count as a memory stall. So a page that was touched once and never active is invisible
//     to memory PSI, which measured exactly 0 on Debian 6.1.
//   - get_scan_count: files alone while the inactive file list is long and none of it came back (cache_trim_mode), else
//     by the cost of refaults, at most 3 to 1 either way before swappiness.
//
// Simplified: one lruvec per cgroup; priorities are a plain loop over batches; executable pages are not favoured;
// writeback takes no time; every mapped page has one mapping.
type classic struct {
	c     *cgroup
	lists [kinds][2]list // inactive, active
	size  int            // batch, scaled
	trim  int            // pages that make the inactive file list long, scaled

	age       uint32         // nonresident age: evictions and activations so far
	cost      [kinds]float64 // recent refaults and write-outs, decaying
	activated [kinds]bool    // a refault was activated since the last reclaim
}

const (
	inactive = iota
	active
)

func newClassic(c *cgroup) *classic {
	k := &classic{c: c, size: max(1, batch/c.scale), trim: max(1, 4096/c.scale)} // file >> DEF_PRIORITY
	for kind := range kinds {
		k.lists[kind] = [2]list{newList(c.m), newList(c.m)}
	}
	return k
}

func (k *classic) put(p int32, on uint8) {
	pg := &k.c.m.pages[p]
	pg.gen = on
	k.lists[pg.flags.kind()][on].push(p)
}

func (k *classic) forget(p int32) {
	pg := &k.c.m.pages[p]
	k.lists[pg.flags.kind()][pg.gen].take(p)
}

func (k *classic) admit(p int32) {
	k.c.m.pages[p].flags &^= referenced | workingset
	k.put(p, inactive)
}

func (k *classic) read(p int32) {
	pg := &k.c.m.pages[p]
	switch {
	case pg.flags&referenced == 0:
		pg.flags |= referenced
	case pg.gen == inactive:
		k.activate(p)
		pg.flags &^= referenced
	}
}

func (k *classic) activate(p int32) {
	k.forget(p)
	k.put(p, active)
	k.age++
}

func (k *classic) back(p int32) (counted, activated bool) {
	pg := &k.c.m.pages[p]
	kind := pg.flags.kind()
	distance := k.age - pg.shadow // wraps as in the kernel
	set := k.lists[fileKind][active].n
	if kind == anonKind {
		set += k.lists[fileKind][inactive].n
	}
	if k.c.s.swap() {
		set += k.lists[anonKind][active].n
		if kind == fileKind {
			set += k.lists[anonKind][inactive].n
		}
	}
	was := pg.flags&workingset != 0
	pg.flags &^= workingset | referenced
	if uint64(distance) > uint64(set) {
		k.put(p, inactive)
		return false, false
	}
	k.activated[kind] = true
	k.age++
	if was {
		pg.flags |= workingset
		k.note(kind, 1)
	}
	k.put(p, active)
	return was, true
}

// note adds to the cost of a list pair; both fade once they exceed a quarter of the pages (lru_note_cost).
func (k *classic) note(kind int, cost float64) {
	k.cost[kind] += cost
	if k.cost[anonKind]+k.cost[fileKind] > float64(k.c.resident())/4 {
		k.cost[anonKind] /= 2
		k.cost[fileKind] /= 2
	}
}

func (k *classic) inactive() (anon, file int) {
	return k.lists[anonKind][inactive].n, k.lists[fileKind][inactive].n
}

// low is inactive_is_low: one to one below 1 GiB, √(10 × GiB) to one above.
func (k *classic) low(kind int) bool {
	in, act := k.lists[kind][inactive].n, k.lists[kind][active].n
	ratio := 1
	if gib := (in + act) * k.c.scale >> 18; gib > 0 {
		ratio = int(math.Sqrt(float64(10 * gib)))
	}
	return in*ratio < act
}

func (k *classic) total(kind int) int { return k.lists[kind][inactive].n + k.lists[kind][active].n }

// trimming is cache_trim_mode: files alone.
func (k *classic) trimming() bool {
	return k.lists[fileKind][inactive].n >= k.trim && !k.low(fileKind) && !k.activated[fileKind]
}

// anonShare is the part of the scanning that goes to swap-backed pages when both pairs are scanned.
func (k *classic) anonShare() float64 {
	total := k.cost[anonKind] + k.cost[fileKind]
	anon := swappiness / (total + k.cost[anonKind] + 1) * float64(k.total(anonKind))
	file := (200 - swappiness) / (total + k.cost[fileKind] + 1) * float64(k.total(fileKind))
	return anon / (anon + file)
}

func (k *classic) reclaim(n int) (scanned, stolen int) {
	most, refused := patience*k.c.resident(), k.c.refused+patience*n+batch
	trim, share := k.trimming(), k.anonShare()
	due, idle := 0.0, 0
	for stolen < n && scanned < most && k.c.refused < refused {
		anon, files := k.total(anonKind) > 0 && k.c.s.swap(), k.total(fileKind) > 0
		kind := fileKind
		switch {
		case !anon && !files:
			return scanned, stolen
		case !files:
			kind = anonKind
		case anon && !trim:
			if due += share; due >= 1 {
				due--
				kind = anonKind
			}
		}
		looked, got := k.shrink(kind, n-stolen)
		scanned, stolen = scanned+looked, stolen+got
		if idle += looked; got > 0 {
			idle = 0
		}
		if trim && idle > k.lists[fileKind][inactive].n/2 {
			trim = false // the kernel's priority has risen and it scans both
		}
	}
	k.activated = [kinds]bool{}
	return scanned, stolen
}

// shrink looks at one batch of the inactive list of a pair, after refilling it from the active one.
func (k *classic) shrink(kind, want int) (scanned, stolen int) {
	in, act := &k.lists[kind][inactive], &k.lists[kind][active]
	if k.low(kind) || k.activated[kind] || in.n == 0 {
		for range min(k.size, act.n) {
			p := act.last()
			act.take(p)
			pg := &k.c.m.pages[p]
			pg.flags = pg.flags&^accessed | workingset
			k.put(p, inactive)
		}
	}
	for range min(k.size, in.n) {
		if stolen == want {
			break
		}
		p := in.last()
		pg := &k.c.m.pages[p]
		scanned++
		switch {
		case pg.flags&(accessed|referenced) == accessed|referenced:
			pg.flags &^= accessed
			k.activate(p)
		case pg.flags&accessed != 0:
			pg.flags = pg.flags&^accessed | referenced
			in.take(p)
			k.put(p, inactive)
		default:
			in.take(p)
			if !k.c.evict(p) {
				k.put(p, active)
				continue
			}
			k.age++
			pg.shadow = k.age
			if kind == anonKind {
				k.note(kind, 1) // a write-out, also into the pool
			}
			stolen++
		}
	}
	return scanned, stolen
}
