package sim

import "time"

// Tiers are where evicted pages live. The zero value takes DefaultTiers; File alone means that there is no swap.
type Tiers struct {
	Pool Pool    // compressed pages in memory, in front of the disk
	Disk Disk    // the swap device
	File Latency // reading a page of a file; zero takes the disk's latency
}

// Pool is a compressed pool like zswap. A page that does not compress goes to the disk instead, or stays where it
// is when there is none. When the pool is full its oldest pages are written to the disk.
type Pool struct {
	Latency          // of bringing one page back
	Capacity int64   // bytes of DRAM it may use; zero: no pool
	Ratio    float64 // compressed size of a page that compresses, as a share of the page, in (0,1); zero: 0.4
}

// Disk is a swap device.
type Disk struct {
	Latency
	Capacity int64 // bytes; zero: no device
}

// DefaultTiers are a pool of 128 MiB, compressing 2.5 to 1, over an SSD of 4 GiB. A page comes back in 15 µs
// (p99 40 µs) from the pool and in 100 µs (p99 1 ms) from the SSD: TMO's fleet had a p90 of about 40 µs for zswap
// and of 0.5 to 9 ms for its SSDs; this one is a good one.
func DefaultTiers() Tiers {
	return Tiers{
		Pool: Pool{Latency: Latency{15 * time.Microsecond, 40 * time.Microsecond}, Capacity: 128 << 20, Ratio: 0.4},
		Disk: Disk{Latency: Latency{100 * time.Microsecond, time.Millisecond}, Capacity: 4 << 30},
	}
}

// poolEntry is what the kernel keeps for a page in the pool: the zswap entry and its share of zsmalloc's maps.
const poolEntry = 64

// store is the tiers of one run, shared by its cgroups.
//
// A page that comes back from the pool leaves it, as with exclusive loads (Linux 6.5), and has to be compressed
// again. One that comes back from the disk keeps its slot; while it stays clean, evicting it again writes nothing.
// The slot of a page that got dirty is freed when the page is next evicted; the kernel does it at the write, or later
// when swap is nearly empty.
type store struct {
	m     *memory
	tiers Tiers
	cg    []*cgroup

	pool, disk, file *table
	list             int32 // of the pages in the pool, newest first
	each             int64 // bytes one page needs in the pool
	used             int64 // bytes of the pool
	most             int64 // bytes of the pool at most, scaled
	slots, free      int64 // of the disk, pages
	rejected         int64 // pages that did not compress
	writtenBack      int64 // pages that went from the pool to the disk
}

func newStore(m *memory, t Tiers, scale int64) *store {
	s := &store{m: m, tiers: t, pool: t.Pool.table(), disk: t.Disk.table(), file: t.File.table(), list: m.newList()}
	s.each = int64(t.Pool.Ratio*pageSize) + poolEntry
	s.most = t.Pool.Capacity / scale
	s.slots = t.Disk.Capacity / scale / pageSize
	s.free = s.slots
	return s
}

// put takes a page that is being evicted; false: it has nowhere to go and stays.
func (s *store) put(p int32) bool {
	pg := &s.m.pages[p]
	if pg.flags&file != 0 {
		return true // dropped; what a file has of dirty pages is written by the flusher, with or without us
	}
	if pg.flags&onDisk != 0 {
		if pg.flags&dirty == 0 {
			return true
		}
		s.drop(p)
	}
	switch {
	case s.most > 0 && pg.flags&poor != 0:
		s.rejected++
	case s.most > 0 && s.makeRoom():
		s.m.push(s.list, p)
		pg.flags |= inPool
		s.used += s.each
		s.cg[pg.owner].pooled++
		return true
	}
	return s.write(p)
}

// makeRoom writes the oldest pages of the pool back until one more fits.
func (s *store) makeRoom() bool {
	for s.used+s.each > s.most {
		old := s.m.oldest(s.list)
		if old == s.list || s.free == 0 {
			return false
		}
		s.leavePool(old)
		s.write(old)
		s.writtenBack++
	}
	return true
}

func (s *store) leavePool(p int32) {
	s.m.unlink(p)
	s.m.pages[p].flags &^= inPool
	s.used -= s.each
	s.cg[s.m.pages[p].owner].pooled--
}

func (s *store) write(p int32) bool {
	if s.free == 0 {
		return false
	}
	s.free--
	pg := &s.m.pages[p]
	pg.flags = pg.flags&^dirty | onDisk
	s.cg[pg.owner].now.Written++
	s.cg[pg.owner].slots++
	return true
}

// get brings a page back: what that takes, the tier's median, and whether a device was read.
func (s *store) get(p int32, random uint64) (took, median time.Duration, device bool) {
	pg := &s.m.pages[p]
	switch {
	case pg.flags&file != 0:
		return s.file.draw(random), s.tiers.File.P50, true
	case pg.flags&inPool != 0:
		s.leavePool(p)
		pg.flags |= dirty
		return s.pool.draw(random), s.tiers.Pool.P50, false
	}
	return s.disk.draw(random), s.tiers.Disk.P50, true
}

// drop frees what the tiers hold of p.
func (s *store) drop(p int32) {
	pg := &s.m.pages[p]
	if pg.flags&inPool != 0 {
		s.leavePool(p)
	}
	if pg.flags&onDisk != 0 {
		pg.flags &^= onDisk
		s.free++
		s.cg[pg.owner].slots--
	}
}

// swap says whether swap-backed pages can go anywhere at all.
func (s *store) swap() bool { return s.most > 0 || s.slots > 0 }

// room is the bytes of pages that the tiers can still take, scaled. Pages in the pool take no slot here; in zswap
// each has one behind it, so a disk of this model is one of a kernel's less the pool's pages.
func (s *store) room() int64 {
	if s.slots > 0 {
		return s.free * pageSize
	}
	return max(0, s.most-s.used) / max(s.each, 1) * pageSize
}

// full is the agent's stop mark: four fifths of the swap are in use.
func (s *store) full() bool {
	switch {
	case s.slots > 0:
		return s.free*5 < s.slots
	case s.most > 0:
		return s.used*5 > s.most*4
	}
	return false
}
