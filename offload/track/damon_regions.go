package track

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// extent is [start,end) of a process's addresses.
type extent struct{ start, end uint64 }

// region is what DAMON shows of an extent: in how many samplings of the last aggregation its one sampled page had been
// touched, and for how many aggregations that figure has been the same.
type region struct {
	extent
	accesses, age uint64
}

// span is an extent and since when it has been watched. DAMON lets a region grow with its mapping, and gives the new
// part the age of the old.
type span struct {
	extent
	since time.Time
}

// vma is a mapping with memory that this process alone has mapped.
type vma struct {
	extent
	private int64 // bytes
}

func (v vma) full() bool { return v.private >= int64(v.end-v.start) }

const (
	// maxTargets bounds the processes that are watched, ourselves included; the largest come first.
	maxTargets = 32
	// maxExtents bounds what is watched of one process; the fullest mappings come first.
	maxExtents = 16
	// minPrivate is what a process must have to be worth one of maxTargets, bytes.
	minPrivate = 1 << 20
	// joined mappings lie this close: each gap costs two files and a region.
	joined = 64 << 10
	// A mapping larger than sparseSize of which less than one part in sparse is there (the shadow memory of a
	// sanitizer) would take all regions for itself.
	sparseSize = 1 << 30
	sparse     = 64
)

// extents says what of a process to watch, ascending and apart from each other.
func extents(vmas []vma) []extent {
	var all []vma
	for _, v := range vmas {
		if size := v.end - v.start; v.private <= 0 || size > sparseSize && uint64(v.private) < size/sparse {
			continue
		}
		if n := len(all); n > 0 && v.start-all[n-1].end <= joined {
			all[n-1].end = v.end
			all[n-1].private += v.private
			continue
		}
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b vma) int { return cmp.Compare(b.private, a.private) })
	all = all[:min(len(all), maxExtents)]
	slices.SortFunc(all, func(a, b vma) int { return cmp.Compare(a.start, b.start) })
	out := make([]extent, 0, len(all))
	for _, v := range all {
		out = append(out, v.extent)
	}
	return out
}

// watch cuts what is wanted from the time at on into spans that remember since when each part has been watched. Both
// are ascending. What has been watched for longer than anybody asks is not told apart, so that spans join again.
func watch(old []span, wanted []extent, at time.Time) (out []span) {
	put := func(e extent, since time.Time) {
		if e.start >= e.end {
			return
		}
		if n := len(out); n > 0 && out[n-1].end == e.start {
			last := &out[n-1]
			if last.since.Equal(since) || at.Sub(last.since) >= longest && at.Sub(since) >= longest {
				last.end = e.end
				if since.After(last.since) {
					last.since = since
				}
				return
			}
		}
		out = append(out, span{e, since})
	}
	for _, w := range wanted {
		from := w.start
		for _, o := range old {
			if o.end <= from || o.start >= w.end {
				continue
			}
			put(extent{from, o.start}, at)
			from = max(from, o.start)
			end := min(o.end, w.end)
			put(extent{from, end}, o.since)
			from = end
		}
		put(extent{from, w.end}, at)
	}
	return out
}

// longest is the age beyond which nobody asks: the last mark of the cold curve.
const longest = time.Hour

// joinSpans is the inverse of watch: what was wanted.
func joinSpans(spans []span) (out []extent) {
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].end == s.start {
			out[n-1].end = s.end
			continue
		}
		out = append(out, s.extent)
	}
	return out
}

// deal gives each target its regions. The kernel shows those of all targets in one list, without saying whose each
// is, but in the order of the targets, and the regions of a target fill what is watched of it from the first byte to
// the last. It reports false when they do not.
func deal(regions []region, targets [][]extent) ([][]region, bool) {
	out := make([][]region, len(targets))
	k := 0
	for i, list := range targets {
		for _, e := range list {
			for at := e.start; at < e.end; k++ {
				if k == len(regions) || regions[k].start != at || regions[k].end <= at || regions[k].end > e.end {
					return nil, false
				}
				at = regions[k].end
				out[i] = append(out[i], regions[k])
			}
		}
	}
	return out, k == len(regions)
}

// idle is for how long a region was not seen touched, as of its last aggregation.
func (r region) idle(aggregation time.Duration) time.Duration {
	if r.accesses > 0 {
		return 0
	}
	if most := uint64(math.MaxInt64 / max(aggregation, 1)); r.age > most {
		return math.MaxInt64
	}
	return time.Duration(r.age) * aggregation
}

// quiet is a part of a mapping that was idle.
type quiet struct {
	extent
	idle time.Duration
	full bool // all of it is there
}

// quietParts cuts the regions of a process by its mappings and by how long each part has been watched. All are
// ascending.
func quietParts(regions []region, spans []span, vmas []vma, at time.Time, aggregation time.Duration) (out []quiet) {
	for i, j, k := 0, 0, 0; i < len(regions) && j < len(spans) && k < len(vmas); {
		r, s, v := regions[i], spans[j], vmas[k]
		e := extent{max(r.start, s.start, v.start), min(r.end, s.end, v.end)}
		if idle := min(r.idle(aggregation), at.Sub(s.since)); idle > 0 && e.start < e.end {
			out = append(out, quiet{e, idle, v.full()})
		}
		switch min(r.end, s.end, v.end) {
		case r.end:
			i++
		case s.end:
			j++
		default:
			k++
		}
	}
	return out
}
