package offload

import (
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/offload/tier"
)

// sustain is how long a saving must last before it is reported. Ten minutes would hide a rollout's first
// hour behind its warm-up; a minute is ten periods and outlives any single refault burst.
const sustain = time.Minute

// pageMeta is the kernel's own cost of one page that is swapped out: its swap map and cgroup id (3 B) and, in
// zswap, an entry and its tree slot (about 56 + 8 B). Measured as slab growth it lies between 60 and 70 B.
const pageMeta = 67

// saving accounts one cgroup: bytes of DRAM it no longer uses, net of what holding them elsewhere costs.
//
//	net = swapped out − its share of the compressed pool − metadata + files kept out
//
// where swapped out leaves out pages that are back in memory and still have their slot: v2 counts those in swap
// and in swap cache; v1 takes a page off swap as soon as it is charged to memory again.
//
// and what is reported is the smallest net of the last minute: a page that comes straight back saved nothing.
type saving struct {
	fileTaken int64 // file bytes that steps took and that have not come back
	buckets   [6]bucket
	net       int64
}

type bucket struct {
	slot int64 // ten-second slot number, 0 unused
	min  int64
}

func (s *saving) reset() { *s = saving{} }

// tookFile notes file bytes that a step dropped.
func (s *saving) tookFile(n int64) { s.fileTaken += max(n, 0) }

// refaultedFile notes file bytes that came back.
func (s *saving) refaultedFile(n int64) { s.fileTaken = max(s.fileTaken-n, 0) }

// update computes the net saving at now. pool is this cgroup's share of the compressed pools, in bytes;
// peakFile the largest file cache seen, which bounds what dropping files can have saved.
func (s *saving) update(now time.Time, st cgroup.Stat, mode cgroup.Mode, peakFile, pool int64) {
	out := st.Swap
	if mode == cgroup.V2 {
		out = max(st.Swap-st.SwapCached, 0)
	}
	meta := st.Swap / int64(4*bytesize.KiB) * pageMeta
	files := min(s.fileTaken, max(peakFile-st.File, 0))
	s.net = out - pool - meta + files
	s.note(now)
}

// note says that the net saving still is what it was.
func (s *saving) note(now time.Time) {
	slot := now.Unix() / int64(sustain.Seconds()/float64(len(s.buckets)))
	b := &s.buckets[slot%int64(len(s.buckets))]
	if b.slot != slot {
		*b = bucket{slot: slot, min: s.net}
	}
	b.min = min(b.min, s.net)
}

// sustained is the smallest net of the last minute, and 0 before a minute has been seen.
func (s *saving) sustained(now time.Time) int64 {
	slot := now.Unix() / int64(sustain.Seconds()/float64(len(s.buckets)))
	least, seen := s.net, 0
	for _, b := range s.buckets {
		if b.slot != 0 && slot-b.slot < int64(len(s.buckets)) {
			least = min(least, b.min)
			seen++
		}
	}
	if seen < len(s.buckets)-1 {
		return 0
	}
	return max(least, 0)
}

// poolShare is what t's swapped pages occupy in compressed pools. v2 charges zswap's pool to the cgroup; on v1,
// and for zram, it is charged to nobody and shared out by the bytes stored.
func (a *Agent) poolShare(t *target, split map[string]int64) int64 {
	var sum int64
	for _, tr := range a.host.tiers {
		if !tr.Memory() || tr.Stored <= 0 {
			continue
		}
		if tr.Kind == tier.KindZswap && a.h.Mode == cgroup.V2 {
			sum += t.stat.Zswap
			continue
		}
		sum += int64(float64(split[tr.Name]) * float64(tr.Used) / float64(tr.Stored))
	}
	return sum
}
