package demo

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/psi"
	"github.com/spillway-io/spillway/internal/swap"
)

// member is one cgroup with one process.
type member struct {
	name string
	path string   // as the daemon names it
	dirs []string // its directories: memory hierarchy first, then the one with PSI
	proc *process
}

// sample is what one look at everything saw. The demo looks by itself and does not ask the daemon.
type sample struct {
	at   time.Time
	pool int64 // compressed pools of the host, bytes
	of   []reading
}

// reading is one member in a sample.
type reading struct {
	cgroup.Stat
	stall psi.Totals // memory
	psi   bool       // stall could be read
}

// recorder looks once a second, and whenever asked.
type recorder struct {
	mode   cgroup.Mode
	groups []*cgroup.Group
	stalls []*psi.File // nil where there is none
	quit   chan struct{}
	done   chan struct{}

	mu sync.Mutex
	// +checklocks:mu
	samples []sample
	// +checklocks:mu
	err error
}

func newRecorder(members []*member) (_ *recorder, err error) {
	h, err := cgroup.Discover("/")
	if err != nil {
		return nil, err
	}
	rec := &recorder{mode: h.Mode, quit: make(chan struct{}), done: make(chan struct{})}
	defer func() {
		if err != nil {
			rec.closeFiles()
		}
	}()
	for _, m := range members {
		g, err := h.Open(m.path)
		if err != nil {
			return nil, fmt.Errorf("demo: watch %s: %w", m.name, err)
		}
		rec.groups = append(rec.groups, g)
		// On a v1-only machine, or with PSI off, there is no pressure to read; the report then says so.
		f, err := psi.Open(filepath.Join(m.dirs[len(m.dirs)-1], "memory.pressure"))
		if err != nil {
			f = nil
		}
		rec.stalls = append(rec.stalls, f)
	}
	if _, err := rec.look(); err != nil {
		return nil, err
	}
	go rec.run()
	return rec, nil
}

func (rec *recorder) run() {
	defer close(rec.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-rec.quit:
			return
		case <-tick.C:
		}
		if _, err := rec.look(); err != nil {
			rec.mu.Lock()
			rec.err = errors.Join(rec.err, err)
			rec.mu.Unlock()
			return
		}
	}
}

// look takes one sample and keeps it.
func (rec *recorder) look() (sample, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	mem, err := proc.ReadMeminfo("/")
	if err != nil {
		return sample{}, err
	}
	s := sample{at: time.Now(), pool: mem.Zswap, of: make([]reading, len(rec.groups))}
	if s.pool, err = addZram(s.pool); err != nil {
		return sample{}, err
	}
	for i, g := range rec.groups {
		if err := g.Stat(&s.of[i].Stat); err != nil {
			return sample{}, err
		}
		if f := rec.stalls[i]; f != nil {
			if s.of[i].stall, err = f.Read(); err == nil {
				s.of[i].psi = true
			}
		}
	}
	rec.samples = append(rec.samples, s)
	return s, nil
}

// first returns the sample from before anything was offloaded.
func (rec *recorder) first() sample {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.samples[0]
}

// between returns the samples taken in [from,to].
func (rec *recorder) between(from, to time.Time) (out []sample) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, s := range rec.samples {
		if !s.at.Before(from) && !s.at.After(to) {
			out = append(out, s)
		}
	}
	return out
}

// addZram adds what the zram devices in use as swap occupy.
func addZram(pool int64) (int64, error) {
	areas, err := proc.ReadSwaps("/")
	if err != nil {
		return 0, err
	}
	for _, a := range areas {
		var dev int
		if n, _ := fmt.Sscanf(a.Path, "/dev/zram%d", &dev); n != 1 {
			continue
		}
		_, _, used, err := swap.ZramStat("/", dev)
		if err != nil {
			return 0, err
		}
		pool += used
	}
	return pool, nil
}

// failed returns what ended the looking, if anything did.
func (rec *recorder) failed() error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.err
}

func (rec *recorder) close() {
	close(rec.quit)
	<-rec.done
	rec.closeFiles()
}

func (rec *recorder) closeFiles() {
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

// footprint is how much memory member i occupies wherever it is: what is resident, its part of the compressed
// pool, and the kernel's bookkeeping. On cgroup v2 the pool is charged to the cgroup and part of its usage. On
// v1 it is charged to nobody: then all growth of the host's pools since first is put on the members, in
// proportion to what each has stored. That is exact when nothing else swaps, and too much otherwise.
func (s sample) footprint(i int, first sample, mode cgroup.Mode) int64 {
	return s.of[i].Usage + s.of[i].Swap/4096*pageMeta + s.poolPart(i, first, mode)
}

// poolPart is what member i has in the compressed pools and its usage does not contain. On v1 a page that came
// back is out of the Swap figure although its swap slot may remain: Swap is what is stored, and only that.
func (s sample) poolPart(i int, first sample, mode cgroup.Mode) int64 {
	if mode == cgroup.V2 {
		return 0
	}
	var all int64
	for _, m := range s.of {
		all += m.Swap
	}
	if all == 0 {
		return 0
	}
	return int64(float64(max(0, s.pool-first.pool)) * float64(s.of[i].Swap) / float64(all))
}
