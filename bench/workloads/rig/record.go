package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/psi"
)

// Sample is what one look at everything saw.
type Sample struct {
	At      time.Time
	Pool    int64  // zswap's compressed pool of the host, bytes
	Stored  int64  // what it holds before compression, bytes
	SwapOut uint64 // pages that left for swap, host-wide, zswap's included
	Device  int64  // pages that were written to a swap device in spite of zswap, as far as the kernel says; else -1
	Poor    int64  // pages that zswap refused because they compress badly; -1 when unknown
	Cgroups int    // memory cgroups that the kernel keeps, dying ones included
	Of      []Reading
}

// Reading is one member in a sample.
type Reading struct {
	cgroup.Stat
	Stall  psi.Totals // memory
	HasPSI bool
}

// Recorder looks once a second, and whenever asked.
type Recorder struct {
	mode   cgroup.Mode
	names  []string
	groups []*cgroup.Group
	stalls []*psi.File // nil where there is none
	quit   chan struct{}
	done   chan struct{}

	mu sync.Mutex
	// +checklocks:mu
	samples []Sample
	// +checklocks:mu
	err error
}

// Watch begins to look at all members. The first sample is taken before it returns.
func (r *Rig) Watch() (_ *Recorder, err error) {
	rec := &Recorder{mode: r.h.Mode, quit: make(chan struct{}), done: make(chan struct{})}
	defer func() {
		if err != nil {
			rec.closeFiles()
		}
	}()
	for _, m := range r.members {
		g, err := r.h.Open(m.Path)
		if err != nil {
			return nil, fmt.Errorf("rig: watch %s: %w", m.Name, err)
		}
		rec.groups, rec.names = append(rec.groups, g), append(rec.names, m.Name)
		f, err := psi.Open(filepath.Join(m.Dirs[len(m.Dirs)-1], "memory.pressure"))
		if err != nil {
			f = nil // v1 alone, or PSI is off: there is no pressure to report
		}
		rec.stalls = append(rec.stalls, f)
	}
	if _, err := rec.Look(); err != nil {
		return nil, err
	}
	r.rec = rec
	go rec.run()
	return rec, nil
}

func (rec *Recorder) run() {
	defer close(rec.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-rec.quit:
			return
		case <-tick.C:
		}
		if _, err := rec.Look(); err != nil {
			rec.mu.Lock()
			rec.err = errors.Join(rec.err, err)
			rec.mu.Unlock()
			return
		}
	}
}

// Look takes one sample and keeps it.
func (rec *Recorder) Look() (Sample, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	mem, err := proc.ReadMeminfo("/")
	if err != nil {
		return Sample{}, err
	}
	vm, err := proc.ReadVmstat("/")
	if err != nil {
		return Sample{}, err
	}
	s := Sample{
		At: time.Now(), Pool: mem.Zswap, Stored: mem.Zswapped, SwapOut: vm.PswpOut + vm.ZswpOut, Device: int64(vm.PswpOut + vm.ZswpWb),
		Poor: zswapPoor(), Cgroups: memoryCgroups(), Of: make([]Reading, len(rec.groups)),
	}
	for i, g := range rec.groups {
		if err := g.Stat(&s.Of[i].Stat); err != nil {
			return Sample{}, err
		}
		if f := rec.stalls[i]; f != nil {
			if s.Of[i].Stall, err = f.Read(); err == nil {
				s.Of[i].HasPSI = true
			}
		}
	}
	rec.samples = append(rec.samples, s)
	return s, nil
}

// zswapPoor sums what zswap refused because it did not compress; the kernel says so in debugfs only.
func zswapPoor() int64 {
	sum, seen := int64(0), false
	for _, name := range []string{"reject_compress_poor", "reject_compress_fail"} {
		b, err := os.ReadFile("/sys/kernel/debug/zswap/" + name)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			sum, seen = sum+n, true
		}
	}
	if !seen {
		return -1
	}
	return sum
}

// memoryCgroups is the kernel's own count; it includes the removed ones that something still pins.
func memoryCgroups() int {
	b, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "memory" {
			n, _ := strconv.Atoi(f[2])
			return n
		}
	}
	return 0
}

// Between returns the samples taken in [from,to].
func (rec *Recorder) Between(from, to time.Time) (out []Sample) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, s := range rec.samples {
		if !s.At.Before(from) && !s.At.After(to) {
			out = append(out, s)
		}
	}
	return out
}

// First is the sample from before anything was offloaded.
func (rec *Recorder) First() Sample {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.samples[0]
}

// Err is what ended the looking, if anything did.
func (rec *Recorder) Err() error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.err
}

func (rec *Recorder) close() {
	close(rec.quit)
	<-rec.done
	rec.closeFiles()
}

func (rec *Recorder) closeFiles() {
	for _, g := range rec.groups {
		g.Close()
	}
	for _, f := range rec.stalls {
		if f != nil {
			f.Close()
		}
	}
}

// pageMeta is the kernel's bookkeeping for one page that is swapped out into zswap, in bytes.
const pageMeta = 67

// Footprint is how much memory member i occupies wherever it is, in bytes: what is resident, its part of the
// compressed pool, and the kernel's bookkeeping. On cgroup v2 the pool is charged to the cgroup. On v1 it is
// charged to nobody: all growth of the pool since the first sample is put on the members, in proportion to what
// each has in swap. That is exact when nothing else swaps, and too much otherwise.
func (rec *Recorder) Footprint(s Sample, i int) int64 {
	return s.Of[i].Usage + s.Of[i].Swap/4096*pageMeta + rec.poolPart(s, i)
}

func (rec *Recorder) poolPart(s Sample, i int) int64 {
	if rec.mode == cgroup.V2 {
		return 0
	}
	var all int64
	for _, m := range s.Of {
		all += m.Swap
	}
	if all == 0 {
		return 0
	}
	return int64(float64(max(0, s.Pool-rec.First().Pool)) * float64(s.Of[i].Swap) / float64(all))
}
