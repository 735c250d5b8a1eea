package sim

import "time"

// Workload is what one cgroup does: parts that share its memory, and what changes over time. A part's pages are all
// touched once before the run begins, in order, except those of a Churn.
type Workload struct {
	Name    string
	Parts   []Part
	Phases  []Phase
	Service Latency // of one request that meets no fault; zero: 50 µs, p99 250 µs, as redis on one core
}

// Pattern is how a part touches its pages.
type Pattern uint8

const (
	Idle  Pattern = iota // never again
	Zipf                 // the hot part with a Zipf distribution of exponent 0.99 over 1 KiB keys strewn over its pages
	Scan                 // all pages, one after the other, in a loop
	Churn                // jobs: each writes its own share of the pages once and then goes, freeing them
)

// Kind is what backs a part's pages.
type Kind uint8

const (
	Anon   Kind = iota // anonymous
	File               // page cache, read through descriptors
	Mapped             // page cache, touched through page tables
	Shmem              // tmpfs and shared memory
)

// Part is one region of a cgroup's memory with one pattern.
type Part struct {
	Name    string
	Kind    Kind
	Pattern Pattern
	Size    int64         // bytes
	Hot     float64       // share of the pages that Zipf reads, at the young end, in (0,1]; zero: 1
	Rate    float64       // touches a second, ≥ 0; a Churn writes at the rate its jobs come
	Writes  float64       // share of the touches that make the page dirty, in [0,1]
	Poor    float64       // share of the pages that do not compress, in [0,1]
	Jobs    int           // of a Churn, alive at once; ≥ 2
	Every   time.Duration // of a Churn, between two jobs
	Request bool          // a touch is a request whose latency counts
}

// Phase is a change at a moment. Zero fields change nothing.
type Phase struct {
	At   time.Duration // since the start
	Part int           // index
	Hot  float64       // the hot share from now on
	Move bool          // other pages are hot from now on, as far from the old ones as the part allows
	Load float64       // factor on the part's first Rate
	Read int64         // bytes of pages that are not hot, read once now: a stall, as by a backup or a rare query
}

const mib = 1 << 20

// Workloads returns the eight workloads of the comparison, for runs of length span: changes happen at fixed shares of
// it. All are about 400 MiB, except the file tree (2 GiB) and the sidecar (120 MiB).
func Workloads(span time.Duration) []Workload {
	at := func(share float64) time.Duration { return time.Duration(share * float64(span)).Truncate(time.Second) }
	store := Part{Name: "store", Pattern: Zipf, Size: 400 * mib, Hot: 0.4, Rate: 3000, Request: true}
	with := func(p Part, change func(*Part)) Part { change(&p); return p }
	small := with(store, func(p *Part) { p.Size, p.Hot = 200*mib, 0.5 })
	return []Workload{
		{Name: "zipf", Parts: []Part{store}},
		{Name: "phases", Parts: []Part{store}, Phases: []Phase{
			{At: at(0.35), Move: true}, {At: at(0.50), Hot: 0.2}, {At: at(0.65), Hot: 0.4}, {At: at(0.80), Load: 2},
		}},
		// One pass in ten minutes, over more than the default pool holds (400 MiB compress to 160).
		{Name: "scan", Parts: []Part{
			with(store, func(p *Part) { p.Size, p.Hot = 100*mib, 0.5 }),
			{Name: "scan", Pattern: Scan, Size: 400 * mib, Rate: 170},
		}},
		// Half of it does not compress and so goes to the disk; a pass in ten minutes makes it dirty again.
		{Name: "redirty", Parts: []Part{
			small, {Name: "rewritten", Pattern: Scan, Size: 200 * mib, Rate: 85, Writes: 1, Poor: 0.5},
		}},
		{Name: "incompressible", Parts: []Part{with(store, func(p *Part) { p.Poor = 0.9 })}},
		{Name: "shmem-churn", Parts: []Part{
			small, {Name: "jobs", Kind: Shmem, Pattern: Churn, Size: 200 * mib, Jobs: 8, Every: 30 * time.Second},
		}},
		{Name: "file-tree", Parts: []Part{
			{Name: "heap", Pattern: Zipf, Size: 32 * mib, Rate: 300},
			{Name: "tree", Kind: File, Pattern: Zipf, Size: 2048 * mib, Hot: 0.1, Rate: 3000, Request: true},
		}},
		{Name: "sidecar", Parts: []Part{
			{Name: "loop", Pattern: Zipf, Size: 16 * mib, Rate: 50, Request: true},
			{Name: "heap", Pattern: Idle, Size: 104 * mib},
		}},
	}
}

// WorkloadNamed returns the one of Workloads(span) with that name.
func WorkloadNamed(name string, span time.Duration) (w Workload, ok bool) {
	for _, w := range Workloads(span) {
		if w.Name == name {
			return w, true
		}
	}
	return Workload{}, false
}
