package offload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/psi"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/policy"
)

// target is one cgroup. Fields above mu's band belong to the goroutine in Run; row is guarded by Agent.mu.
type target struct {
	path    string
	inode   uint64
	leaf    bool
	class   class.Class // written by Run under Agent.mu, like the two below
	managed bool
	place   int // in the order of turns
	params  policy.Params

	group           *cgroup.Group // nil unless managed
	psiDir          string
	psiWhy          string    // why there is no pressure; "" when there is
	psiFound        time.Time // when psiDir was last looked up
	memPSI, ioPSI   *psi.File
	havePrevPSI     bool
	prevMem, prevIO psi.Totals

	law       policy.Law
	stat      cgroup.Stat
	prev      cgroup.Stat
	havePrev  bool
	readAt    time.Time // when stat was read
	inFlight  bool
	watched   time.Duration // since this cgroup was first read
	asked     int64         // by the step in flight, or the last one
	debt      int64         // bytes that earlier steps took beyond what they asked for
	reclaimed int64         // by the last finished step
	idle      int           // periods since the last read, while nothing can be due
	rest      policy.Reason // why the agent withheld the last step; "" when it did not
	refreshes int           // reads of the moving figures since the last full one
	blend     blend         // which memory its steps take
	files     comeback      // whose refaults its files' are

	slo *learning // nil: no objective for it

	wear targetWear
	home targetHome // where its pages lie

	row row // guarded by Agent.mu
}

func newTarget(e cgroup.Entry, place int) *target {
	return &target{path: e.Path, place: place, inode: e.Inode, leaf: e.Leaf, psiWhy: "not looked at yet"}
}

func (t *target) close() {
	if t.group != nil {
		t.group.Close()
		t.group = nil
	}
	t.closePSI("not managed")
	t.law, t.havePrev, t.watched, t.slo = nil, false, 0, nil
}

func (t *target) closePSI(why string) {
	for _, f := range []**psi.File{&t.memPSI, &t.ioPSI} {
		if *f != nil {
			(*f).Close()
			*f = nil
		}
	}
	t.psiDir, t.psiWhy, t.havePrevPSI = "", why, false
}

// idleReads is how many periods in a row a cgroup is not read while no step can be due, so that nothing needs a brake;
// see rests.
const idleReads = 10

// withheldReads is the same after a step that the law wanted and the agent withheld: what it waits for may come sooner.
const withheldReads = 4

// rests says whether t needs no read in this period because no step can be due: while it is within a grain of its
// floor, watched by its usage alone, and, if it is small, while it pays back what a step took too much, while its law
// rests, or just after a step was withheld. Most of 200 cgroups on a node are small, and a step of theirs is less than
// half a folio. A large one is read every period: a stall is to be answered at once, also when the answer changes
// nothing.
func (a *Agent) rests(t *target) bool {
	// What is learnt from an SLO is learnt period by period.
	if !t.havePrev || t.inFlight || t.idle >= idleReads || t.slo != nil {
		return false
	}
	near := a.floor(t) + grain // below it no step is taken
	if t.prev.Usage < near {
		if u, err := t.group.Usage(); err == nil && u < near {
			return true
		}
	}
	switch small := t.prev.Usage/100 < grain/2; { // no law takes more than 1 %
	case !small:
		return false
	case t.asked > 0 && t.debt >= t.asked:
		t.debt -= t.asked
		return true
	case t.rest == policy.PoolTurn:
		return t.idle < withheldReads && a.balance.joint.Waits(&t.blend.pool)
	case t.rest != "":
		return t.idle < withheldReads
	}
	law, ok := t.law.(policy.Rester)
	if !ok {
		return false
	}
	periods, most := law.Rest()
	if t.idle >= periods {
		return false
	}
	if most == 0 {
		return true
	}
	u, err := t.group.Usage()
	return err == nil && u <= most
}

// withheld notes whether the agent, not the law, made d a zero step. wanted is the law's.
func (t *target) withheld(d *policy.Decision, wanted int64) {
	t.rest = ""
	if d.Step == 0 && wanted > 0 {
		t.rest = d.Reason
	}
}

// decide samples t, asks its law and, if the answer is a step, adds it to the batch.
func (a *Agent) decide(t *target, now time.Time, period time.Duration) {
	if a.rests(t) {
		t.idle++
		a.mu.Lock()
		t.row.saving.note(now)
		a.mu.Unlock()
		return
	}
	elapsed := period
	if t.havePrev {
		elapsed = now.Sub(t.readAt) // what was counted since then, over skipped periods too
	}
	if law, ok := t.law.(policy.Rester); ok && t.idle > 0 {
		periods, _ := law.Rest()
		law.Skip(min(t.idle, periods))
	}
	t.idle, t.readAt = 0, now
	if err := t.read(); err != nil {
		if !errors.Is(err, cgroup.ErrGone) {
			a.warnOnce("stat "+t.path, "cgroup statistics unreadable", err)
		}
		a.lastScan = time.Time{} // list again at the next tick: this one is gone or changed
		return
	}
	t.watched += elapsed
	s, ok := a.sample(t, elapsed)
	if !ok {
		a.record(t, now, elapsed, policy.Sample{Period: elapsed, Usage: t.stat.Usage, Floor: a.floor(t)}, nil)
		return
	}
	if t.law == nil {
		law, err := a.deps.NewLaw(a.cfg.Law, t.params)
		if err != nil { // Config.check refuses unknown laws
			a.warnOnce("law", "law unusable", err)
			return
		}
		t.law = law
	}
	if t.memPSI == nil && !t.stat.Refaults { // v1 before 6.1 without a cgroup2 directory
		a.record(t, now, elapsed, s, &policy.Decision{
			Reason: policy.NoSignal, Detail: "neither pressure nor refaults can be read for this cgroup, so nothing would stop a mistake: nothing is taken",
		})
		return
	}
	// While the last step is being taken, deciding again would take twice; while the canary measures, the host's
	// pressure is partly our own.
	if t.inFlight || a.host.quiet(now) {
		a.record(t, now, elapsed, s, nil)
		return
	}
	seen := s
	if s.Usage-s.Floor < grain {
		seen.Floor = s.Usage
	}
	seen.WritePrice = a.writePrice(t, now)
	seen.RefaultFile = t.files.ours
	t.slo.advise(&seen)
	d := t.law.Decide(seen)
	d.Detail += t.files.strangers()
	t.slo.withhold(&d)
	wanted := d.Step
	t.reclaimed = 0
	t.repay(&d)
	choice := a.blend(t, s, &d)
	choice = a.spend(t, now, choice, &d)
	t.withheld(&d, wanted)
	a.record(t, now, elapsed, s, &d)
	if d.Step <= 0 || a.cfg.DryRun || a.deps.Worker == nil {
		return
	}
	t.inFlight, t.asked = true, d.Step
	a.batch.targets = append(a.batch.targets, t)
	a.batch.steps = append(a.batch.steps, worker.Step{Cgroup: t.path, Inode: t.inode, Bytes: d.Step, Floor: s.Floor, Swappiness: choice})
}

// batch is the steps decided in one tick; they go to the worker together.
type batch struct {
	targets []*target
	steps   []worker.Step
}

// send hands the tick's steps to the worker.
func (a *Agent) send(ctx context.Context) {
	a.settlePool()
	b := a.batch
	a.batch = batch{}
	if len(b.steps) == 0 {
		return
	}
	ctx, cancel := a.host.stepContext(ctx)
	a.steps.Go(func() {
		defer cancel()
		a.deps.Worker.Steps(ctx, b.steps, func(i int, res worker.StepResult, err error) {
			a.results <- stepDone{t: b.targets[i], res: res, err: err, choice: b.steps[i].Swappiness}
		})
	})
}

// fullEvery is how many reads apart the figures are that people set and that rarely change: limits, protections,
// events. The kernel respects a new protection by itself, whatever we know of it.
const fullEvery = 10

// read refreshes t.stat.
func (t *target) read() error {
	if t.havePrev && t.refreshes < fullEvery {
		t.refreshes++
		return t.group.Refresh(&t.stat)
	}
	t.refreshes = 0
	return t.group.Stat(&t.stat)
}

// grain is the largest unit the kernel frees at once, a folio of 2 MiB: closer to the floor than that, any step
// could go below it.
const grain = int64(2 * bytesize.MiB)

// repay takes what earlier steps took too much off this one, so that the share taken over time is the law's.
func (t *target) repay(d *policy.Decision) {
	if t.debt <= 0 || d.Step <= 0 {
		return
	}
	off := min(t.debt, d.Step)
	t.debt -= off
	d.Step -= off
	d.Detail += fmt.Sprintf("; %v of it was taken ahead: the kernel frees whole folios", bytesize.Size(off))
	if d.Step == 0 {
		d.Reason, d.Signal = policy.TakenAhead, ""
	}
}

// sample turns two reads into the law's input. The first read of a cgroup has no difference yet.
func (a *Agent) sample(t *target, period time.Duration) (policy.Sample, bool) {
	s := policy.Sample{
		Period: period, Usage: t.stat.Usage, Floor: a.floor(t),
		SwapFull: a.host.swapFull, HostPressure: a.host.braked(), Reclaimed: t.reclaimed,
		Anon: t.stat.Anon, File: t.stat.File, Shmem: t.stat.Shmem, Mapped: t.stat.Mapped,
		InactiveAnon: t.stat.InactiveAnon, InactiveFile: t.stat.InactiveFile,
		SwapFree: a.swapFree(t), Age: t.watched, Heat: a.heat.of(t.path, t.inode),
	}
	if first, ok := a.tiers.Primary(); ok {
		s.CostAnon = first.Measured.P50
	}
	ok := t.havePrev
	if ok {
		s.RefaultAnon = diff(t.stat.RefaultAnon, t.prev.RefaultAnon)
		s.RefaultFile = diff(t.stat.RefaultFile, t.prev.RefaultFile)
	}
	a.readPressure(t, &s)
	if ok {
		a.attribute(t, &s)
	}
	return s, ok
}

// readPressure fills in what t stalled in the period. The host's own totals are no bound for it: the kernel weighs the
// processors of each group by how busy that group keeps them, so a cgroup that stalls all the time on one processor
// hardly shows on a host that is busy on sixty-three others.
func (a *Agent) readPressure(t *target, s *policy.Sample) {
	if t.memPSI == nil {
		return
	}
	mem, err := t.memPSI.Read()
	var io psi.Totals
	if err == nil && t.ioPSI != nil {
		io, err = t.ioPSI.Read()
	}
	if err != nil {
		t.closePSI("pressure unreadable: " + err.Error())
		return
	}
	if t.havePrevPSI {
		s.PSI = true
		s.MemSome = usec(diff(mem.Some, t.prevMem.Some))
		s.IOSome = usec(diff(io.Some, t.prevIO.Some))
	}
	t.prevMem, t.prevIO, t.havePrevPSI = mem, io, true
}

// floor is the resident size below which t must not be taken: the configured floor, the kernel's own
// protections, and what cannot be reclaimed at all, because nothing would come of trying.
func (a *Agent) floor(t *target) int64 {
	f := max(int64(a.cfg.Floor), t.stat.Min, t.stat.Low) + t.stat.Unevictable
	if a.host.noSwap || t.stat.SwapMax == 0 && t.havePrev {
		f += t.stat.Anon + t.stat.Shmem
	}
	return f
}

// swapFree is how much swap t can still use, bytes.
func (a *Agent) swapFree(t *target) int64 {
	free := a.host.mem.SwapFree
	if t.stat.SwapMax != cgroup.Unlimited {
		free = min(free, max(t.stat.SwapMax-t.stat.Swap, 0))
	}
	return free
}

type stepDone struct {
	t      *target
	res    worker.StepResult
	err    error
	choice cgroup.Swappiness // that was asked for
}

// finish notes what came of a step.
func (a *Agent) finish(d stepDone) {
	t := d.t
	t.inFlight = false
	a.spent(t)
	taken := max(d.res.Before-d.res.After, 0)
	t.reclaimed = taken
	t.files.took(taken, t.asked, d.err == nil && !d.res.Busy)
	t.debt += max(taken-t.asked, 0)
	t.slo.took(taken)
	a.blended(t, d)
	a.mu.Lock()
	if dec, ok := t.row.finish(d.res, taken, d.err); ok {
		a.view.settle(t.row.recent, dec)
	}
	if d.err == nil {
		a.view.reclaimed += taken
	}
	a.mu.Unlock()
	if d.err != nil && !errors.Is(d.err, context.Canceled) && !errors.Is(d.err, cgroup.ErrGone) {
		a.warnOnce("step "+t.path, "step failed", d.err)
	}
}

// drainSteps waits for the steps in flight; the worker answers each, or died, which answers them all.
func (a *Agent) drainSteps() {
	idle := make(chan struct{})
	go func() { a.steps.Wait(); close(idle) }()
	for {
		select {
		case d := <-a.results:
			a.finish(d)
		case <-idle:
			for len(a.results) > 0 {
				a.finish(<-a.results)
			}
			return
		}
	}
}

// record stores a period's outcome where the admin API finds it. d is nil when nothing was decided.
func (a *Agent) record(t *target, now time.Time, period time.Duration, s policy.Sample, d *policy.Decision) {
	faults := uint64(0)
	if t.havePrev {
		faults = diff(t.stat.MajorFaults, t.prev.MajorFaults)
	}
	split := a.tiers.Split(t.stat.Swap, t.stat.Zswapped, a.h.Mode == cgroup.V2)
	pool := a.poolShare(t, split)
	a.noteOut(t)
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &t.row
	r.stat, r.floor, r.psiWhy = t.stat, s.Floor, t.psiWhy
	r.mix, r.poor = t.placed(), t.blend.poor
	if t.memPSI != nil {
		r.psiWhy = "not seen for a whole period yet"
	}
	r.psi = s.PSI
	r.memSome, r.ioSome = share(s.MemSome, period), share(s.IOSome, period)
	r.refaults = rate(s.RefaultAnon+s.RefaultFile, period)
	r.faults = rate(faults, period)
	r.offloaded = split
	r.peak = max(r.peak, t.stat.Usage)
	if t.havePrev {
		r.saving.refaultedFile(int64(s.RefaultFile) * int64(4*bytesize.KiB))
	}
	if r.took > 0 {
		r.saving.tookFile(min(r.took, r.fileAt-t.stat.File))
		r.took = 0
	}
	r.saving.update(now, t.stat, a.h.Mode, r.peakFile(), pool)
	if d != nil {
		dec := admin.Decision{
			Time: now, Cgroup: t.path, Class: string(t.class), Law: t.law.Name(), Usage: s.Usage, Step: d.Step,
			Reason: string(d.Reason), Signal: d.Signal, Detail: d.Detail, Inputs: inputs(d.Inputs),
		}
		r.push(dec, memory(a.managed))
		r.recent = a.view.count(dec)
	}
	a.noteSizeLocked(t, period, s, d, pool)
	t.prev, t.havePrev = t.stat, true
}

func inputs(rs []policy.Reading) []admin.Input {
	out := make([]admin.Input, len(rs))
	for i, r := range rs {
		out[i] = admin.Input{Signal: r.Signal, Value: r.Value, Target: r.Target}
	}
	return out
}

// diff is a counter's growth; a counter that went back (another kernel object at the same path) grew by nothing.
func diff(now, before uint64) uint64 {
	if now < before {
		return 0
	}
	return now - before
}

func usec(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }

func share(d, period time.Duration) float64 {
	if period <= 0 {
		return 0
	}
	return float64(d) / float64(period)
}

func rate(n uint64, period time.Duration) float64 {
	if period <= 0 {
		return 0
	}
	return float64(n) / period.Seconds()
}
