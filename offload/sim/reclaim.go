package sim

// Reclaim names a model of the kernel's reclaim.
type Reclaim uint8

const (
	// Classic is the two lists of Linux since 5.9: new pages start inactive, referenced ones get a second chance, a
	// refault is put on the active list when its distance is short, and memory PSI counts a refault only when
	// the page had been active before it went. Debian 6.1 runs it.
	Classic Reclaim = iota
	// MGLRU is the multi-generational LRU of Linux 6.1 and later: four generations, ageing by page table walks,
	// tiers for what is read through file descriptors. Memory PSI counts about 30 % of refaults. Debian 6.12 runs it.
	MGLRU
)

func (r Reclaim) String() string {
	switch r {
	case Classic:
		return "classic"
	case MGLRU:
		return "mglru"
	}
	return "unknown"
}

// model keeps the resident pages of one cgroup in the order in which they go.
type model interface {
	// admit takes in a page touched for the first time.
	admit(p int32)
	// back takes in a page that was evicted. counted: memory PSI sees the wait for it. activated: it was put among
	// the pages in use.
	back(p int32) (counted, activated bool)
	// read notes a read of a resident page through a file descriptor.
	read(p int32)
	// forget takes a resident page that is freed off its list.
	forget(p int32)
	// reclaim evicts up to n pages, the coldest it knows, through c.evict; it looks at as many as it takes, within
	// reason. scanned and stolen are what pgscan and pgsteal would count.
	reclaim(n int) (scanned, stolen int)
	// inactive is the pages on the lists the kernel calls inactive.
	inactive() (anon, file int)
}

// batch is how many pages the kernel isolates at a time (SWAP_CLUSTER_MAX). Scaled runs use a scaled batch.
const batch = 32

// patience bounds a reclaim that finds nothing: it has looked at every page this many times. The kernel gives up after
// 16 rounds without progress; here a second pass sees the bits that the first one cleared. It bounds pages that were
// refused by the tiers in the same way.
const patience = 3

// swappiness is the kernel's default, out of 200.
const swappiness = 60

// list is a ring in memory with its length.
type list struct {
	m    *memory
	head int32
	n    int
}

func newList(m *memory) list { return list{m: m, head: m.newList()} }

func (l *list) push(p int32) { l.m.push(l.head, p); l.n++ }
func (l *list) take(p int32) { l.m.unlink(p); l.n-- }
func (l *list) last() int32  { return l.m.oldest(l.head) }
