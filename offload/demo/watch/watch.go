// Package watch looks at the cgroups of an experiment once a second, by itself: what the daemon says of its own work is
// no measurement of it.
//
// Promise: a Sample is one look at everything, with the host's figures of the same instant; no sample is lost or
// changed later. Ownership: the recorder's goroutine ends with Close, which its maker calls once; until then its
// methods may run at the same time. Lock: Recorder.mu alone, held while the kernel's files are read.
// Failure: the first look that fails ends the looking, and Err says why.
// Non-goals: deciding what a saving is worth; watching the daemon.
package watch

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/psi"
)

// Member is one cgroup to look at.
type Member struct {
	Name     string // for errors
	Path     string // below the memory hierarchy
	Pressure string // the directory with its memory.pressure; "": there is none
}

// Recorder looks once a second, and whenever asked.
type Recorder struct {
	mode   cgroup.Mode
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

// Start begins to look at the members. The first sample is taken before it returns.
func Start(h cgroup.Hierarchy, members []Member) (_ *Recorder, err error) {
	rec := &Recorder{mode: h.Mode, quit: make(chan struct{}), done: make(chan struct{})}
	defer func() {
		if err != nil {
			rec.closeFiles()
		}
	}()
	for _, m := range members {
		g, err := h.Open(m.Path)
		if err != nil {
			return nil, fmt.Errorf("watch: %s: %w", m.Name, err)
		}
		rec.groups = append(rec.groups, g)
		// On a v1-only machine, or with PSI off, there is no pressure to read; Reading.HasPSI then says so.
		var f *psi.File
		if m.Pressure != "" {
			if f, err = psi.Open(filepath.Join(m.Pressure, "memory.pressure")); err != nil {
				f = nil
			}
		}
		rec.stalls = append(rec.stalls, f)
	}
	if _, err := rec.Look(); err != nil {
		return nil, err
	}
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
	s, err := lookAtHost()
	if err != nil {
		return Sample{}, fmt.Errorf("watch: %w", err)
	}
	s.Of = make([]Reading, len(rec.groups))
	for i, g := range rec.groups {
		if err := g.Stat(&s.Of[i].Stat); err != nil {
			return Sample{}, fmt.Errorf("watch: %w", err)
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

// First is the sample from before anything was offloaded.
func (rec *Recorder) First() Sample {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.samples[0]
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

// Footprint is Sample.Footprint of member i with what the recorder knows.
func (rec *Recorder) Footprint(s Sample, i int) int64 { return s.Footprint(i, rec.First(), rec.mode) }

// PoolPart is Sample.PoolPart of member i with what the recorder knows.
func (rec *Recorder) PoolPart(s Sample, i int) int64 { return s.PoolPart(i, rec.First(), rec.mode) }

// Err is what ended the looking, if anything did.
func (rec *Recorder) Err() error {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.err
}

// Close ends the looking.
func (rec *Recorder) Close() {
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
