package mix

import (
	"fmt"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
)

// Growth is what one cgroup sent to the compressed pool in a period, in bytes.
type Growth struct {
	// Own says that the figures are this cgroup's: on cgroup v2 they are, on v1 only the whole pool is known; see
	// Joint.
	Own    bool
	Out    int64 // by which what is swapped out grew, before compression; what came back meanwhile does not count
	Stored int64 // of it, taken by the pool; the rest went to the disk behind because the pool refused it
	Pool   int64 // by which the pool's memory grew
	// Mixed says that the pool also refused pages for want of room, or moved some to the disk: then refusals say
	// nothing.
	Mixed bool
}

const (
	// poorShare is g-swap's rule: a page that needs more than 2,990 of 4,096 bytes is not worth the processor time
	// (Software-Defined Far Memory, ASPLOS 2019).
	poorShare = 0.73
	goodShare = 0.65 // a verdict ends only well below it
	// evidence is how much must have been offered before anything is said, and how much is remembered.
	evidence, memory = 4 << 20, 64 << 20
	firstRetest      = time.Hour // contents change; after a verdict the pool is tried again, each time after twice as long
	lastRetest       = 24 * time.Hour
)

// Pool finds out whether a cgroup's pages shrink.
type Pool struct {
	out, occupied float64 // bytes offered lately, and what they came to occupy; a refused page occupies all of itself
	poor          bool
	since, retest time.Duration // of the verdict, by the cgroup's age; how long it holds
	share         float64       // at the verdict
	joint         jointly       // what is known of it from a pool that is charged to nobody
	judged        int64         // bytes that the verdict rests on
}

// Note adds a period. age is the cgroup's, and only grows.
func (p *Pool) Note(g Growth, age time.Duration) {
	if p.poor && age-p.since >= p.retest {
		p.poor, p.out, p.occupied, p.joint = false, 0, 0, jointly{net: p.joint.net}
	}
	if !g.Own || g.Out <= 0 {
		return
	}
	stored := min(max(g.Stored, 0), g.Out)
	out, occupied := float64(stored), float64(min(max(g.Pool, 0), 2*stored))
	if refused := float64(g.Out - stored); !g.Mixed {
		out, occupied = out+refused, occupied+refused
	}
	p.out, p.occupied = p.out+out, p.occupied+occupied
	if p.out > memory {
		p.out, p.occupied = p.out/2, p.occupied/2
	}
	share, ok := p.Share()
	switch {
	case !ok:
	case !p.poor && share > poorShare:
		p.condemn(share, evidence, age)
	case p.poor && share < goodShare:
		p.poor, p.retest = false, 0
	}
}

// condemn passes the verdict: from so many bytes judged, a byte sent out still occupies share of itself.
func (p *Pool) condemn(share float64, judged int64, age time.Duration) {
	if p.retest == 0 {
		p.retest = firstRetest
	} else {
		p.retest = min(2*p.retest, lastRetest)
	}
	p.poor, p.since, p.share, p.judged = true, age, share, judged
}

// Share is the bytes that a byte sent out lately still occupies; false when too few were sent to tell.
func (p *Pool) Share() (float64, bool) {
	if p.out < evidence {
		return 0, false
	}
	return max(0, p.occupied/p.out), true // halving leaves a rounding
}

// Incompressible says whether this cgroup should not be offered to the pool now, and why.
func (p *Pool) Incompressible() (bool, string) {
	if !p.poor {
		return false, ""
	}
	return true, fmt.Sprintf("a page of it takes %.0f %% of a page in the pool (more than %.0f %% is not worth it; judged from %v); tried again after %v",
		100*p.share, 100*poorShare, bytesize.Size(p.judged), p.retest)
}
