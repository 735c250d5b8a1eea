// Package endurance keeps what swapping writes to flash within a budget, and says how long a drive lasts. It is pure:
// it takes counters and times and returns prices, allowances and forecasts.
//
// Promise: what steps are allowed to write never makes any ten minutes hold more than the budget of ten minutes,
// whatever the workload does: bursts, pages that are dirtied and evicted for ever, restarts, counters that start
// again, drives that are exchanged. Writes nobody asks leave for (the kernel's own reclaim, other programs where they
// count) cannot be prevented, but are charged, and steps wait for them. The tenth that docs allow on top is for steps
// that write more than they were allowed to, because the kernel frees whole folios.
//
// What counts: with a budget for swapping (the default), the pages the kernel wrote to swap areas, less those that
// went to compressed disks in memory; other programs' writes to the same drive do not count. With a budget derived from
// the drive's rating, every sector written to the drive: who wore it out does not matter to it. Sectors do not say
// whose they were.
//
// Ownership: a Ledger belongs to one goroutine. Failure: a state that cannot be read gives an error and the caller
// starts with Spent, which allows nothing for ten minutes. A clock that is set forward while the program is not running
// shortens what it remembers; while it runs, only differences of times are used.
// Non-goals: reading counters, SMART, write amplification (a rating in TBW counts what the host writes, as this does).
package endurance

import (
	"cmp"
	"slices"
	"time"
)

// Config is a budget.
type Config struct {
	Rate  float64 // bytes a second, > 0
	Burst int64   // bytes that may be written ahead of the even pace, at most and by default a Window's worth
	Whole bool    // everything written to a device counts, not only what swapping writes
	TBW   int64   // bytes a drive is rated for, 0 unknown; for the forecast
}

// Device is one block device's counter. Memory says that it is a compressed disk in memory, which wears nothing.
type Device struct {
	Name    string
	Written int64 // bytes since the device appeared
	Memory  bool
}

// Counters is one look at the kernel's counters.
type Counters struct {
	SwapOut int64    // bytes written to swap areas of all kinds since boot (pswpout)
	Devices []Device // behind swap now
}

// Ledger accounts for the devices behind swap. New makes one; Observe at every period, then Left and Price hold until
// the next.
type Ledger struct {
	cfg      Config
	boot     string
	last     time.Time // of the previous observation, or of the start
	doubtful time.Time // until then a drive nobody knows may have been written on leave
	observed bool      // counters have been seen: the next growth is real
	swapOut  int64
	early    int64 // compressed disks counted this much before SwapOut did
	urgent   bool
	own      *bucket
	drives   map[string]*drive
}

// drive is one device, or a compressed disk of which only the counter matters.
type drive struct {
	written int64 // counter
	known   bool  // written was seen in this boot
	doubt   bool  // written is older than an end that was not clean
	seen    time.Time
	bucket  *bucket // nil for compressed disks
	wear    wear
}

// maxDrives bounds the state: a node has a few, and names that never come back are dropped, oldest first.
const maxDrives = 8

// forgetAfter is when a drive that is behind no swap area any more is dropped.
const forgetAfter = 24 * time.Hour

// New starts with a full bucket. boot names the boot whose counters will be observed, "" if unknown.
func New(cfg Config, boot string, now time.Time) *Ledger {
	return &Ledger{cfg: cfg, boot: boot, last: now, own: newBucket(cfg.Rate, cfg.Burst), drives: map[string]*drive{}}
}

// Spent starts with an empty bucket: for a start that knows that it does not know what was written before.
func Spent(cfg Config, boot string, now time.Time) *Ledger {
	l := New(cfg, boot, now)
	l.own.charge(l.own.limit)
	return l
}

// Tune changes the budget. What was written stays written.
func (l *Ledger) Tune(cfg Config) {
	l.cfg = cfg
	l.own.tune(cfg.Rate, cfg.Burst)
	for _, d := range l.drives {
		if d.bucket != nil {
			d.bucket.tune(cfg.Rate, cfg.Burst)
		}
	}
}

// Observe charges what was written since the last look, and returns what swapping wrote to drives, in bytes.
func (l *Ledger) Observe(now time.Time, c Counters) (own int64) {
	passed := now.Sub(l.last)
	l.last = now
	out := l.own.out()
	l.each(func(b *bucket) { b.pass(passed); b.settle() })
	inMemory := l.observeDrives(now, out, c.Devices)
	d := growth(c.SwapOut, l.swapOut) - inMemory
	if !l.observed {
		d = 0
	}
	l.swapOut, l.observed = c.SwapOut, true
	// A compressed disk may have counted pages that pswpout counts in the next look, but not later.
	own = max(0, d+l.early)
	l.early = min(0, d)
	l.own.charge(own)
	return own
}

// observeDrives returns what was written to compressed disks. out is what steps may have written since the last look.
func (l *Ledger) observeDrives(now time.Time, out int64, devices []Device) (inMemory int64) {
	for _, x := range devices {
		d := l.drives[x.Name]
		if d == nil || (d.bucket == nil) != x.Memory {
			d = &drive{}
			if !x.Memory {
				d.bucket = l.newDriveBucket(now)
			}
			l.drives[x.Name] = d
			l.urgent = true
		}
		l.urgent = l.urgent || x.Written < d.written
		n := growth(x.Written, d.written)
		if !d.known { // what it counted before is not ours, but for what steps may have written since the last look
			n = 0
			if d.bucket != nil {
				d.bucket.charge(out)
			}
		}
		if d.doubt && x.Written < d.written && d.bucket != nil { // what was written before it began again, nobody saw
			d.bucket.charge(d.bucket.limit)
		}
		d.written, d.known, d.doubt, d.seen = x.Written, true, false, now
		if x.Memory {
			inMemory += n
			continue
		}
		d.bucket.charge(n)
		d.wear.add(now, n)
	}
	for name, d := range l.drives {
		if now.Sub(d.seen) > forgetAfter {
			delete(l.drives, name)
		}
	}
	for len(l.drives) > maxDrives {
		delete(l.drives, l.oldest())
	}
	return inMemory
}

// newDriveBucket begins with the promises that are out: a step that was allowed before the drive was seen may write to
// it. Shortly after an end that was not clean the drive may have been seen,
// and written, after the state was saved.
func (l *Ledger) newDriveBucket(now time.Time) *bucket {
	b := newBucket(l.cfg.Rate, l.cfg.Burst)
	b.promised = l.own.promised
	if now.Before(l.doubtful) {
		b.charge(b.limit)
	}
	return b
}

func (l *Ledger) oldest() (name string) {
	for n, d := range l.drives {
		if o := l.drives[name]; o == nil || cmp.Or(d.seen.Compare(o.seen), cmp.Compare(n, name)) < 0 {
			name = n
		}
	}
	return name
}

// growth of a counter; one that went back began again at zero and has counted everything since.
func growth(now, before int64) int64 {
	if now < before {
		return max(now, 0)
	}
	return min(now-before, most)
}

// buckets calls f for those that bind. A drive that left swap within the last Window still does: it may be back before
// a step has ended.
func (l *Ledger) buckets(f func(*bucket)) {
	if !l.cfg.Whole {
		f(l.own)
		return
	}
	any := false
	for _, d := range l.drives {
		if d.bucket != nil && l.last.Sub(d.seen) < Window {
			if d.doubt { // not seen since a kill: what it was written before that is not known
				f(&bucket{limit: 1, burst: 1, spent: 1})
			}
			f(d.bucket)
			any = true
		}
	}
	if !any { // swap on a device nobody knows: what the kernel says it wrote is all there is
		f(l.own)
	}
}

// Left is how many bytes steps may still make the kernel write, now.
func (l *Ledger) Left() int64 {
	left := most
	l.buckets(func(b *bucket) { left = min(left, b.left()) })
	return left
}

// Price is the share of the budget that is gone, from 0, nothing, to 1, all. With several drives it is the dearest's,
// because the kernel chooses.
func (l *Ledger) Price() (price float64) {
	l.buckets(func(b *bucket) { price = max(price, b.price()) })
	return price
}

// Promise sets n bytes aside for a step that begins; Fulfil says that it ended. What it wrote is counted by the next
// two observations, and until then the promise stands.
func (l *Ledger) Promise(n int64) { l.each(func(b *bucket) { b.promised[0] += n }) }

// Fulfil ends a promise of n bytes.
func (l *Ledger) Fulfil(n int64) {
	l.each(func(b *bucket) {
		n := min(n, b.promised[0]) // a drive that appeared later
		b.promised[0] -= n
		b.promised[1] += n
	})
}

func (l *Ledger) each(f func(*bucket)) {
	f(l.own)
	for _, d := range l.drives {
		if d.bucket != nil {
			f(d.bucket)
		}
	}
}

// Urgent says, once, that the state should be saved now: a drive appeared or its counter began again, which nobody
// could tell after a kill.
func (l *Ledger) Urgent() bool {
	u := l.urgent
	l.urgent = false
	return u
}

// Report says how each drive wears, those behind swap now, by name.
func (l *Ledger) Report() []Wear {
	out := make([]Wear, 0, len(l.drives))
	for name, d := range l.drives {
		if d.bucket != nil && d.seen.Equal(l.last) {
			out = append(out, d.wear.report(name, l.cfg.TBW, l.last))
		}
	}
	slices.SortFunc(out, func(a, b Wear) int { return cmp.Compare(a.Device, b.Device) })
	return out
}
