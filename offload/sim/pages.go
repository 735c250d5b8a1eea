package sim

// page is one page of one cgroup, or the head of a list. Links are indices into the same slice, so that a run
// allocates nothing and the collector sees no pointers.
type page struct {
	next, prev int32  // on the list that gen names, on the pool's list, or on none
	last       int32  // tick of the last touch
	out        int32  // tick of the last eviction
	shadow     uint32 // what the reclaim model remembers of the eviction
	flags      flags
	owner      uint16 // index of the cgroup
	gen        uint8  // the reclaim model's list
	refs       uint8  // reads since it came in, for the tiers of MGLRU
}

type flags uint16

const (
	alive      flags = 1 << iota // written or read at least once, and not freed since
	resident                     // in memory
	file                         // backed by a file: dropped, and read again from there
	shmem                        // tmpfs: lives on the anonymous lists and goes to swap, but is counted with files
	mapped                       // touched through a page table, which leaves only the accessed bit
	accessed                     // the accessed bit of the page table
	referenced                   // the kernel's own bit: seen once, the second time counts
	workingset                   // was active once before it went (classic)
	dirty                        // differs from its copy on disk, if there is one
	poor                         // does not compress
	inPool                       // lives in the compressed pool
	onDisk                       // has a slot on the swap device; a resident page may keep it as long as it is clean
)

// kind is the index of a page's list pair: swap-backed or file.
func (f flags) kind() int {
	if f&file != 0 {
		return fileKind
	}
	return anonKind
}

const (
	anonKind = iota // anonymous and shmem
	fileKind
	kinds
)

// memory is every page of a run, followed by the heads of the lists.
type memory struct {
	pages []page
	now   int32 // tick

	visits int64 // pages looked at so far, by touches, reclaim and page table walks: the cost of a run
}

// newList makes an empty list. It must not be called once a *page is held.
func (m *memory) newList() int32 {
	h := int32(len(m.pages))
	m.pages = append(m.pages, page{next: h, prev: h})
	return h
}

// push puts p at the young end of the list with head h.
func (m *memory) push(h, p int32) {
	first := m.pages[h].next
	m.pages[p].next, m.pages[p].prev = first, h
	m.pages[first].prev = p
	m.pages[h].next = p
}

func (m *memory) unlink(p int32) {
	next, prev := m.pages[p].next, m.pages[p].prev
	m.pages[prev].next, m.pages[next].prev = next, prev
}

// oldest is the page at the old end, or the head itself of an empty list.
func (m *memory) oldest(h int32) int32 { return m.pages[h].prev }
