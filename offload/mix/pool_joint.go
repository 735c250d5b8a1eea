package mix

import (
	"math"
	"time"
)

// Joint splits the growth of a compressed pool that is charged to nobody (cgroup v1, zram) among the cgroups whose
// pages went there or came back. It belongs to one machine and one goroutine.
//
// All it can read is one sum: the pool grew by Σ shareᵢ × netᵢ, where netᵢ is by how much what cgroup i has in swap
// grew. It closes a window whenever half a MiB has moved and corrects the shares along the flows (normalised least mean
// squares, Widrow and Hoff 1960), which needs one number a cgroup. Where cgroups are always stepped in the same
// proportion the sum cannot tell them apart. So a share learned from sums is a suspicion; what is evidence is a
// window in which nearly all that moved was one cgroup's. A suspect gets such windows by being stepped alone, in turns
// with the others being stepped without it.
//
// Failure: a window that the cgroups' flows do not explain (somebody unmanaged swaps, the kernel writes the pool back)
// says nothing.
type Joint struct {
	moved  []*Pool // with a flow in this window
	ages   []time.Duration
	tick   Tick // of the window so far
	ticks  int
	probe  *Pool // the suspect, nil for none
	alone  bool  // it is its turn
	turn   int   // ticks left of this turn
	idle   int   // ticks of its turns in which nothing of it moved
	rounds int   // turns it has had
	fresh  bool  // a turn has just begun: what moves until the next look was decided before
	spent  int   // ticks until somebody may be looked at for want of evidence alone

	out, occupied float64 // by all, lately: bytes out, and what the pool and the disk grew by
}

// Tick is what a pool did between two looks at it, in bytes.
type Tick struct {
	Stored int64 // growth of what it holds, before compression
	Pool   int64 // growth of the memory it occupies
	Disk   int64 // written to swap areas past it, ≥ 0
	Mixed  bool  // some of that for want of room, or moved there from the pool: then refusals say nothing
}

// jointly is what Joint keeps of one cgroup.
type jointly struct {
	net   int64   // flow in this window
	share float64 // by the sums; 0: nothing known
	seen  float64 // bytes out of it that went into share
	quiet float64 // seen below which it is not suspected again
}

const (
	window     = 512 << 10 // smaller flows drown in the allocator's grain and in what others do
	windowLong = 32        // ticks after which a window is closed, or dropped if it is still under a quarter of that
	rate       = 0.5       // of an error that one window corrects: a single odd one turns nothing over
	mostly     = 0.8       // of a window's flow: it is evidence about one cgroup
	unclear    = 0.25      // of a window's flow that may be unexplained
	suspicious = 0.5       // share from which a cgroup is looked at alone
	firstGuess = 1. / 3    // as text shrinks
	suspectAt  = 2 << 20   // bytes out before it is suspected; at 16 MiB a share above 0.73 is a verdict by itself
	convictAt  = 16 << 20
	auditAt    = 32 << 20 // bytes out after which it is looked at alone for want of any evidence
	auditPause = 8        // ticks without such a look for each tick of a look
	// Where the pool as a whole shrinks this well, no cgroup that matters can hide in it, and looks are as much rarer.
	shrinksWell = 0.45
	rarer       = 8
	turnTicks   = 8
	maxIdle     = 8
	maxRounds   = 16 // so many turns without enough evidence: it moves too little to matter now
)

// Add notes that what p's cgroup has in swap grew by net bytes (negative: came back or was freed).
func (j *Joint) Add(p *Pool, net int64, age time.Duration) {
	if net == 0 {
		return
	}
	net = min(max(net, -maxFlow), maxFlow)
	if p.joint.net == 0 {
		j.moved, j.ages = append(j.moved, p), append(j.ages, age)
	}
	if p.joint.net += net; p.joint.net == 0 {
		p.joint.net = 1 // it is in the list already
	}
}

const maxFlow = 1 << 44

// Close ends a tick.
func (j *Joint) Close(t Tick) {
	j.tick.Stored += min(max(t.Stored, -maxFlow), maxFlow)
	j.tick.Pool += min(max(t.Pool, -maxFlow), maxFlow)
	j.tick.Disk += min(max(t.Disk, 0), maxFlow)
	j.tick.Mixed = j.tick.Mixed || t.Mixed
	j.ticks++
	flow := j.flow()
	if j.probe != nil && j.alone {
		if j.idle++; j.probe.joint.net != 0 {
			j.idle = 0
		}
	}
	fresh := j.fresh
	j.fresh = false // before settle, which may begin a turn
	if flow >= window || j.ticks >= windowLong || fresh {
		j.settle(flow)
	}
	j.next()
}

func (j *Joint) flow() (sum float64) {
	for _, p := range j.moved {
		sum += math.Abs(float64(p.joint.net))
	}
	return sum
}

// settle learns from the window and begins another.
func (j *Joint) settle(flow float64) {
	if flow >= window/4 {
		j.learn(flow)
	}
	for _, p := range j.moved {
		p.joint.net = 0
	}
	j.moved, j.ages, j.tick, j.ticks = j.moved[:0], j.ages[:0], Tick{}, 0
}

func (j *Joint) learn(flow float64) {
	var sum, square float64
	for _, p := range j.moved {
		x := float64(p.joint.net)
		sum, square = sum+x, square+x*x
	}
	occupied, refused := float64(j.tick.Pool), 0.0
	if !j.tick.Mixed { // a refused page occupies all of itself
		refused = min(max(0, sum-float64(j.tick.Stored)), float64(j.tick.Disk))
	}
	if math.Abs(float64(j.tick.Stored)+refused-sum) > unclear*flow {
		return
	}
	occupied += refused
	j.note(sum, occupied)
	wrong := occupied
	for _, p := range j.moved {
		if p.joint.share == 0 {
			p.joint.share = firstGuess
		}
		wrong -= p.joint.share * float64(p.joint.net)
	}
	for i, p := range j.moved {
		x := float64(p.joint.net)
		others := occupied - (wrong + p.joint.share*x) // by the shares before this window
		if x >= mostly*flow {
			out := int64(x)
			p.Note(Growth{Own: true, Out: out, Stored: out, Pool: int64(occupied - others)}, j.ages[i])
			p.joint.quiet = p.joint.seen + x + auditAt
		}
	}
	for i, p := range j.moved {
		x := float64(p.joint.net)
		p.joint.share = min(max(p.joint.share+rate*x*wrong/square, 0.01), 1)
		if x <= 0 {
			continue
		}
		p.joint.seen += x
		if p.poor || p.joint.seen < p.joint.quiet { // what it was seen to do alone counts for more
			continue
		}
		if p.joint.share > poorShare && p.joint.seen >= convictAt {
			p.condemn(p.joint.share, convictAt, j.ages[i])
			continue
		}
		audit := p.joint.seen >= auditAt && j.spent <= 0
		if j.probe == nil && (audit || p.joint.share > suspicious && p.joint.seen >= suspectAt) {
			j.begin(p)
		}
	}
}

// note remembers what all that moved in a window came to.
func (j *Joint) note(out, occupied float64) {
	if out <= 0 || occupied < 0 {
		return
	}
	if j.out, j.occupied = j.out+out, j.occupied+occupied; j.out > memory {
		j.out, j.occupied = j.out/2, j.occupied/2
	}
}

// shrinks says whether what lately went out as a whole shrank well.
func (j *Joint) shrinks() bool { return j.out >= evidence && j.occupied <= shrinksWell*j.out }

func (j *Joint) begin(p *Pool) {
	j.probe, j.alone, j.fresh, j.turn, j.idle, j.rounds = p, true, true, turnTicks+1, 0, 0
	p.out, p.occupied = 0, 0 // afresh: contents change
}

// next moves the turns on.
func (j *Joint) next() {
	p := j.probe
	if p == nil {
		j.spent = max(0, j.spent-1)
		return
	}
	j.spent += auditPause
	if j.shrinks() {
		j.spent += (rarer - 1) * auditPause
	}
	if _, known := p.Share(); p.poor || known {
		j.end(auditAt)
		return
	}
	if j.idle >= maxIdle || j.rounds >= maxRounds {
		j.end(evidence)
		return
	}
	if j.turn--; j.turn > 0 {
		return
	}
	j.settle(j.flow()) // what follows is somebody else's
	j.alone, j.fresh, j.turn = !j.alone, true, turnTicks
	if j.alone {
		j.rounds++
	}
}

// end lets the suspect be for so many bytes more.
func (j *Joint) end(quiet float64) {
	j.probe.joint.quiet = j.probe.joint.seen + quiet
	j.probe = nil
}

// Waits says whether no anonymous memory is to be taken from p's cgroup in this tick, so that the pool's growth can be
// told apart.
func (j *Joint) Waits(p *Pool) bool {
	return j.probe != nil && (p == j.probe) != j.alone
}

// Forget drops p, whose cgroup is gone.
func (j *Joint) Forget(p *Pool) {
	if j.probe == p {
		j.probe = nil
	}
	for i, q := range j.moved {
		if q == p {
			j.moved, j.ages = append(j.moved[:i], j.moved[i+1:]...), append(j.ages[:i], j.ages[i+1:]...)
			j.tick.Mixed = true
			break
		}
	}
}

// Likely is Share, or what the sums make of it while p was not seen alone; false when too little was sent to tell.
func (p *Pool) Likely() (float64, bool) {
	if share, ok := p.Share(); ok {
		return share, true
	}
	return p.joint.share, p.joint.seen >= suspectAt
}
