package offload

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/offload/mix"
	"github.com/spillway-io/spillway/offload/policy"
)

// comeback tells which refaults of a cgroup's files our own steps caused. Others evict, too: the kernel when the host
// or an ancestor's limit is short, DAMON, a neighbour's readahead. A law that brakes on those would stop where it did
// no harm. So no more pages count against it than steps took from files and were not seen coming back. What of a
// refault is ours cannot be told; the oldest claim is as good as any, and where everything evicted comes back, ours do,
// too, and all count. Pressure counts whatever its cause. A daemon that was started again has taken nothing yet.
type comeback struct {
	taken  int64   // by steps that ended since the last read, of both kinds
	owed   float64 // bytes of files that steps took and that have not come back; half is forgotten in owedHalf
	ours   uint64  // pages of the last period's refaults that count
	others uint64  // and those that do not
	mixer  uint64  // ours since the mixer last asked
}

// owedHalf is how long what a step took stays a claim: files that were deleted or are never read again would otherwise
// be one for ever, against which a neighbour's evictions are held. Ten minutes are a hundred periods of 6 s.
const owedHalf = 10 * time.Minute

// took notes a step that ended. When the kernel did all that was asked, at least that much went, even if the cgroup
// read as much anew meanwhile and its usage did not fall.
func (c *comeback) took(fell, asked int64, all bool) {
	if all {
		fell = max(fell, asked)
	}
	c.taken += fell
}

// note adds a period: file is what steps took from files, back the pages of files that came back.
func (c *comeback) note(file int64, back uint64, period time.Duration) {
	c.taken = 0
	c.owed = c.owed*math.Exp2(-float64(period)/float64(owedHalf)) + float64(max(file, 0))
	// Up to a page more: the fading must not make of the last page that comes back a stranger's.
	c.ours = min(back, uint64(math.Ceil(c.owed/float64(4*bytesize.KiB))))
	c.others = back - c.ours
	c.owed = max(0, c.owed-float64(c.ours)*float64(4*bytesize.KiB))
	c.mixer += c.ours
}

// attribute completes s by what a refault of a file costs, and notes whose the refaults are and where t's pages went.
func (a *Agent) attribute(t *target, s *policy.Sample) {
	s.CostFile = a.fileCost(t, s)
	grown, charge := t.stat.Swap-t.prev.Swap, int64(0)
	if a.h.Mode == cgroup.V2 {
		charge = t.stat.Zswap - t.prev.Zswap
	} else if a.balance.pool {
		a.balance.joint.Add(&t.blend.pool, grown, t.watched)
	}
	_, file := mix.Took(t.files.taken, grown, s.RefaultAnon, charge)
	t.files.note(file, s.RefaultFile, s.Period)
}

// fileCost is the mean cost of one of the period's file refaults, 0 while it is not measured.
//
// Refaults count pages, and readahead brings many of them for one wait: on ext4 on a virtual disk (Linux 6.18, median
// of five runs of TestFileCanaryOnThisHost, whose -v prints it) a page costs 81 µs alone and 1.4 µs in order. Charging
// each the former stops a server that reads whole files, charging each the latter lets a mapped index thrash. A wait in
// a mapping is a major fault; those that anonymous refaults do not explain are charged in full, the rest as readahead.
// A wait in read(2) is no fault, but the IO pressure counts all of it, against half the share of time; so where that
// cannot be read, every page is charged in full.
func (a *Agent) fileCost(t *target, s *policy.Sample) time.Duration {
	m := &a.balance.files
	n := s.RefaultFile
	if !s.PSI || t.ioPSI == nil || n == 0 || m.InOrder <= 0 || m.InOrder >= m.P50 {
		return m.P50
	}
	waits := min(n, diff(diff(t.stat.MajorFaults, t.prev.MajorFaults), s.RefaultAnon))
	share := float64(waits) / float64(n)
	return time.Duration(share*float64(m.P50) + (1-share)*float64(m.InOrder))
}

// strangers is what a decision says of refaults that were not held against it; "" for fewer than a MiB.
func (c *comeback) strangers() string {
	n := bytesize.Size(c.others) * 4 * bytesize.KiB
	if n < bytesize.MiB {
		return ""
	}
	return fmt.Sprintf("; %v of file cache came back that no step had taken", n)
}
