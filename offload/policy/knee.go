package policy

import "math"

// knee remembers the safe size of one cgroup: the smallest size known not to hurt.
//
// It is found in three ways. One is the balance of a descent: once too much of what was lately taken comes back,
// at a rate that costs something, the pages still resident are in use. Another is being hurt twice at about
// the same size shortly after taking something; once may have been chance. The third is a way down that was stopped
// and is undone by the time the next one is due: nothing of what it took was cold, so the size it began at is the safe
// one. A cgroup that touches all its memory in turn shows that only after a whole turn, when a lot is gone; how long
// that took is also for how long a probe must be watched.
//
// From then on the law rests at that size, and takes only what the cgroup grows beyond it. Now and then it
// probes half a step below: a probe that comes back doubles the time to the next one, and three in a row that
// stay away say that the working set shrank, so the size is forgotten and looked for again. A size found again
// where it was before keeps its long interval.
type knee struct {
	size   int64 // the safe size in bytes; 0: not known
	strike int64 // where it hurt once; 0: nowhere
	before int64 // the size found before the current one was forgotten
	awake  bool  // above the safe size by more than the slack, and descending back to it

	sinceStep int   // periods since the last step
	usage     int64 // in the last period
	flow      flow  // of the current descent
	trip      trip
	habit     float64 // bytes of file cache that come back in a period without our doing; <0: nothing seen yet

	watch    int     // periods until an effect counts as seen, at least
	lag      int     // periods after which the effect of trips in vain was seen
	harmless float64 // share of time spent on refaults that no size is called safe for
	comeBack float64 // share of what was taken that comes back: the knee

	interval int  // periods between two probes
	next     int  // periods until the next probe
	judging  int  // periods until the last probe is judged; 0: none is open
	wins     int  // probes in a row that stayed away
	probe    flow // since the last probe
}

// flow is what went out of a cgroup and came back in. Means decay unless the flow is that of one probe.
type flow struct {
	steps int
	taken float64 // bytes
	back  float64 // bytes, without the habit
	cost  float64 // share of time spent on refaults, summed like the others
}

// trip is one way down, from the first step after a rest or a hold.
type trip struct {
	top     int64 // usage before its first step, bytes; 0: no step yet
	taken   int64 // bytes asked for
	periods int   // since the first step; once it was stopped, until then
	stopped bool  // by a signal, or because of what came back: not by reaching the safe size
}

const (
	harmlessOf  = 0.05      // of the refault cost target: below it nothing is a knee
	minSteps    = 6         // a descent is judged after this many steps
	memory      = 1. / 6    // weight of the newest period in a descent's flow
	habitMemory = 1. / 8    // weight of the newest period in the habit's mean
	habitGrowth = 1. / 2048 // the habit is a minimum; this lets it follow a workload that changed for hours
	slack       = 0.03      // growth above the safe size that is left alone
	samePlace   = 0.07      // sizes this close count as the same
	undone      = 0.1       // a trip of which no more than this share is still out is undone
	muchSmaller = 0.8       // a cgroup that shrank by itself to this share of the safe size has changed
	maxInterval = 320       // periods between probes, at most: half an hour at 6 s
	inVain      = 0.5       // a probe of which this share came back saved nothing, however little that cost
	winsNeeded  = 3
)

func newKnee(p Params) knee {
	return knee{
		sinceStep: math.MaxInt32, habit: -1,
		watch: max(p.Hold, 1), harmless: harmlessOf * p.RefaultCost, comeBack: p.ComeBack,
	}
}

func (k *knee) firstInterval() int { return min(2*k.patience(), maxInterval) }

// patience is for how long a probe is watched.
func (k *knee) patience() int { return max(k.watch, min(k.lag+k.lag/4, maxInterval/2)) }

// observe learns from a period without a back-off. cost is the share of it spent on refaults.
func (k *knee) observe(s Sample, cost float64) {
	k.usage = s.Usage
	file := float64(s.RefaultFile) * page
	in := float64(s.RefaultAnon)*page + k.unusual(file)
	var out float64
	if k.sinceStep == 0 {
		out = float64(s.Reclaimed)
		k.flow.steps++
	}
	k.flow.taken += out - k.flow.taken*memory
	k.flow.back += in - k.flow.back*memory
	k.flow.cost += cost - k.flow.cost*memory
	if k.judging > 0 {
		k.probe.taken += out
		k.probe.back += in
		k.probe.cost += cost
		k.judge(s)
	}
}

// unusual takes the habit out of the bytes of file cache that came back: a cgroup that reads files in circles does so
// whether or not we take anything. Anonymous memory has no such habit, only what was taken comes back.
func (k *knee) unusual(file float64) float64 {
	switch {
	case k.habit < 0:
		k.habit = file
	case file < k.habit:
		k.habit += (file - k.habit) * habitMemory
	default:
		k.habit += (file - k.habit) * habitGrowth
	}
	return math.Max(0, file-k.habit)
}

// hurts says whether so much of f, which spans so many periods, came back at such a cost that taking does not pay.
func (k *knee) hurts(f flow, periods float64) bool {
	return f.back >= k.comeBack*f.taken && f.cost >= k.harmless*periods
}

func (k *knee) judge(s Sample) {
	if k.judging--; k.judging > 0 {
		return
	}
	if p := k.probe; p.back >= inVain*p.taken || k.hurts(p, float64(k.patience())) {
		k.lost()
		return
	}
	k.interval, k.next = k.firstInterval(), k.firstInterval()
	k.size = min(k.size, s.Usage)
	if k.wins++; k.wins >= winsNeeded {
		k.forget()
	}
}

// lost ends a probe that hurt.
func (k *knee) lost() {
	k.judging, k.wins = 0, 0
	k.interval = min(2*k.interval, maxInterval)
	k.next = k.interval
}

// forget drops the safe size, so that the next descent looks for it again.
func (k *knee) forget() {
	k.before, k.size, k.strike, k.wins, k.judging, k.awake = k.size, 0, 0, 0, 0, false
	k.newDescent()
}

// hurt is a back-off: s is the period in which a signal reached its target. Without a step of ours shortly
// before it, the workload changed by itself and nothing is learnt about sizes.
func (k *knee) hurt(s Sample) {
	at := max(k.usage, page) // the size before the period in which it hurt; by now it has grown again
	ours := k.sinceStep <= 2
	k.stop()
	switch {
	case k.judging > 0:
		k.lost()
		k.size = max(k.size, at)
	case ours && k.size > 0 && near(at, k.size):
		k.size = max(k.size, at)
	case ours && k.strike > 0 && near(at, k.strike):
		k.found(max(at, k.strike))
	case ours:
		k.strike = at
	}
	k.usage = s.Usage
	k.newDescent()
	k.tick()
}

// found sets the safe size.
func (k *knee) found(size int64) {
	if k.before > 0 && near(size, k.before) || k.size > 0 && near(size, k.size) {
		k.interval = min(2*max(k.interval, k.firstInterval()), maxInterval)
	} else {
		k.interval = k.firstInterval()
	}
	k.size, k.before, k.strike, k.next, k.wins, k.awake = size, size, 0, k.interval, 0, false
	k.newDescent()
}

func near(a, b int64) bool {
	return math.Abs(float64(a)-float64(b)) <= samePlace*float64(max(a, b))
}

// interrupt forgets the current descent, because what is seen now says nothing about it.
func (k *knee) interrupt() {
	k.judging, k.trip = 0, trip{}
	k.newDescent()
	k.tick()
}

func (k *knee) newDescent() { k.flow = flow{} }

func (k *knee) tick() {
	if k.sinceStep < math.MaxInt32 {
		k.sinceStep++
	}
	if k.trip.top == 0 || k.trip.stopped {
		return
	}
	k.trip.periods++
	if k.sinceStep > k.patience() {
		k.trip = trip{}
	}
}

// down notes a step that was decided at so much usage.
func (k *knee) down(usage, step int64) {
	if step > 0 && k.trip.top == 0 {
		k.trip.top = usage
	}
	k.trip.taken += step
}

// stop ends a way down.
func (k *knee) stop() { k.trip.stopped = k.trip.taken > 0 }

// wasInVain says, when the next way down is due, whether the last one was undone, and forgets it if it was stopped.
func (k *knee) wasInVain(usage int64) bool {
	t := k.trip
	if !t.stopped {
		return false
	}
	k.trip = trip{}
	if float64(usage) < float64(t.top)-undone*float64(t.taken) {
		return false
	}
	k.lag = max(t.periods, k.lag)
	return true
}

// took says what was decided for the coming period.
func (k *knee) took(step int64) {
	if step > 0 {
		k.sinceStep = -1
	}
	k.tick()
}

type verdict int

const (
	goDown verdict = iota
	rest
	probe
)

// verdict says whether this is the moment for a step.
func (k *knee) verdict(s Sample) verdict {
	switch {
	case k.wasInVain(s.Usage):
		k.found(s.Usage)
	case k.flow.steps >= minSteps && k.flow.taken > 0 && k.hurts(k.flow, 1/memory):
		k.found(s.Usage)
		k.stop()
	}
	above := float64(s.Usage) / float64(max(k.size, 1))
	switch {
	case k.size == 0:
		return goDown
	case above < muchSmaller:
		k.forget()
		return goDown
	case above > 1+slack:
		if !k.awake {
			k.awake = true
			k.newDescent()
		}
		return goDown
	case k.awake && s.Usage-k.size >= page:
		return goDown
	}
	k.awake = false
	if k.judging > 0 {
		return rest
	}
	if k.next--; k.next > 0 {
		return rest
	}
	return probe
}

// postpone puts off a probe that found nothing to take.
func (k *knee) postpone() { k.next = k.firstInterval() }

// probed opens the judgement of the probe that was just decided.
func (k *knee) probed() {
	k.judging, k.probe, k.next = k.patience(), flow{}, max(k.interval, k.patience())
}
