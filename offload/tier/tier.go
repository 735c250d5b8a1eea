// Package tier knows where evicted pages go on this machine: zswap, zram, swap partitions and swap files.
//
// Promise: Open and Refresh report what the kernel says now, never what was configured; latencies come only
// from Canary and are zero until one ran. A tier's Used and Stored never count a page twice: with zswap in
// front of a file, what the file holds is its used slots minus what zswap stores.
// Ownership: a Set is safe for concurrent use; slices and maps it returns are the caller's.
// Lock order: Set.mu is a leaf, and is never held while the worker is asked for something.
// Failure: a machine without swap is not an error but a Set without tiers whose Advice says what to do.
// Everything that changes the machine goes through the worker, which journals it first and undoes it.
// Non-goals: moving pages between tiers, and choosing a tier for one cgroup.
package tier

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/proc"
)

// Kind is what a tier is made of.
type Kind string

const (
	KindZswap     Kind = "zswap"     // the compressed pool in front of swap areas
	KindZram      Kind = "zram"      // a compressed disk in memory
	KindPartition Kind = "partition" // a block device
	KindFile      Kind = "file"      // a swap file
)

// State says whether pages can go to a tier now.
type State string

const (
	Active    State = "active"    // the kernel puts pages there
	Available State = "available" // the kernel has it, but it is switched off or has nothing behind it
	Absent    State = "off"       // this kernel cannot do it
)

// Tier is one place for evicted pages, as of the last Refresh. Sizes are bytes.
type Tier struct {
	Name     string // "zswap", "zram0", "swap:/path"; unique in a Set
	Kind     Kind
	State    State
	Detail   string // one phrase for people: why it is off, what it sits on
	Path     string // of the swap area; "" for zswap
	Device   string // name of the block device that is written, "" for tiers in memory and when it is unknown
	Size     int64  // most it may occupy: the pool's limit for zswap, the area's size otherwise
	Used     int64  // what it occupies: memory for zswap and zram, disk otherwise
	Stored   int64  // what it holds before compression
	Priority int    // of the swap area; math.MaxInt for zswap, which is always asked first
	Ours     bool   // made or configured by this program and undone at its end

	// The newest canary measurement, zero when there is none.
	Measured Measurement

	slots int64 // swap slots in use by pages that are in this tier and not in zswap
}

// Memory reports whether the tier occupies DRAM itself, so that savings must be counted net of Used.
func (t Tier) Memory() bool { return t.Kind == KindZswap || t.Kind == KindZram }

// Compression is Stored/Used now when the tier holds enough to tell, else what the canary saw, else 0.
func (t Tier) Compression() float64 {
	if t.Memory() && t.Stored >= 4<<20 && t.Used > 0 {
		return float64(t.Stored) / float64(t.Used)
	}
	return t.Measured.Compression
}

// Measurement is what the canary found out about one tier.
type Measurement struct {
	Tier           string
	Pages          int           // pages that were out and were touched back in one by one
	P50, P99, Mean time.Duration // of one such touch
	Compression    float64       // bytes stored / bytes occupied; 1 on a disk, 0 when it could not be told
	PSICounted     float64       // share of the stall that memory PSI saw, in [0,1]; NaN when unknown
	PSIFrom        string        // whose pressure that was, or why it is unknown: one phrase for people
	At             time.Time
	Note           string // what makes this measurement weaker than it looks, "" for nothing
}

// Set is the tiers of one machine.
type Set struct {
	root string       // set by Open
	log  *slog.Logger // set by Open

	mu sync.Mutex
	// +checklocks:mu
	mem *proc.Reader
	// +checklocks:mu
	seen machine // what the last Refresh found
	// +checklocks:mu
	tiers []Tier // derived from seen
	// +checklocks:mu
	devices map[string]string // swap area path → block device, so that a refresh resolves new paths only
	// +checklocks:mu
	measured map[string]Measurement
	// +checklocks:mu
	file FileCost
	// +checklocks:mu
	made []made // what Apply changed, oldest first
}

// Open finds the tiers below root ("/" in production). A nil log discards. Close releases what it holds.
func Open(root string, log *slog.Logger) (*Set, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	mem, err := proc.OpenReader(root)
	if err != nil {
		return nil, fmt.Errorf("tier: open: %w", err)
	}
	s := &Set{root: root, log: log, mem: mem, devices: map[string]string{}, measured: map[string]Measurement{}}
	if err := s.Refresh(); err != nil {
		mem.Close()
		return nil, err
	}
	return s, nil
}

// Close releases the held files. It undoes nothing: that is the worker's job. Idempotent.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mem.Close()
}

// Refresh reads used and stored bytes again, and notices areas and knobs that changed. It costs a handful of
// small reads and is meant for every period. On an error the previous state stays.
func (s *Set) Refresh() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := look(s.root, s.mem, s.devices)
	if err != nil {
		return err
	}
	s.seen = m
	s.deriveLocked()
	return nil
}

// +checklocks:s.mu
func (s *Set) deriveLocked() {
	s.tiers = assemble(s.seen)
	for i := range s.tiers {
		t := &s.tiers[i]
		t.Measured = s.measured[t.Name]
		for _, m := range s.made {
			t.Ours = t.Ours || m.tier == t.Name
		}
	}
}

// Tiers returns the tiers in the order in which the kernel fills them, those that are off last.
func (s *Set) Tiers() []Tier {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Tier(nil), s.tiers...)
}

// Primary is the tier that an anonymous page goes to first now; false when there is no swap at all.
func (s *Set) Primary() (Tier, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return primary(s.tiers)
}

// Advice is one sentence on what this machine lacks to offload anonymous memory, "" when nothing.
func (s *Set) Advice() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return advice(s.tiers)
}

// Pool returns what the compressed tiers occupy in memory and what they hold before compression.
func (s *Set) Pool() (used, stored int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tiers {
		if t.Memory() {
			used, stored = used+t.Used, stored+t.Stored
		}
	}
	return used, stored
}

// Devices names the block devices that swapping writes to, each once, for counting sectors written.
func (s *Set) Devices() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	seen := map[string]bool{"": true}
	for _, t := range s.tiers {
		if !seen[t.Device] {
			seen[t.Device] = true
			names = append(names, t.Device)
		}
	}
	return names
}

// Record keeps m as the newest measurement of its tier. One of an unknown tier is kept too: the tier may come back.
func (s *Set) Record(m Measurement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if math.IsInf(m.PSICounted, 0) {
		m.PSICounted = math.NaN()
	}
	s.measured[m.Tier] = m
	s.deriveLocked()
}

// Split attributes the swapped bytes of one cgroup to tiers by name. zswapped is what zswap holds of them when
// known (cgroup v2); otherwise the host's shares are used (v1, where the kernel does not say). The values add
// up to swap; tiers with nothing are left out.
func (s *Set) Split(swap, zswapped int64, known bool) map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return split(s.tiers, swap, zswapped, known)
}
