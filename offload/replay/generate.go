package replay

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
)

// Model is a made-up fleet, fitted to what g-swap published of a real one: 32 % of memory not touched for 120 s on
// average, and more than 43 % of it in one job of ten (section 3 of the paper). The rest is assumed: one job in ten
// with hardly anything cold, three jobs in four running all week with a daily wave of load, the others batch jobs
// that come and go.
//
// A job's pages are touched at random, each at its own rate, so that ages and promotions agree with each other:
// memory of rate λ contributes e^(-λa) to what is older than a, and λ times that to what is promoted from there. On
// top come bursts that touch part of the cold memory at once, noise, and a start in which memory is filled and
// touched far more than later.
type Model struct {
	Seed     uint64
	Jobs     int           // in [1, 1e6]
	Length   time.Duration // of the trace; at least one interval
	Interval time.Duration // at least a second
}

// idle is the mean time between two touches of a page, by kind; the first is the working set's, and the last kind
// is as good as never touched.
var idle = [...]time.Duration{
	20 * time.Second,
	3 * time.Minute, 8 * time.Minute, 25 * time.Minute, 90 * time.Minute, 6 * time.Hour, 36 * time.Hour, 20_000 * time.Hour,
}

// usual is how a typical job's cold memory is made up of the kinds after the first. It is chosen so that the
// published setting stores about a fifth of what is cold, as the paper reports.
var usual = [len(idle) - 1]float64{0.38, 0.26, 0.14, 0.07, 0.05, 0.04, 0.06}

const (
	levels   = 64 // of load, from lowest to highest
	lowest   = 0.25
	highest  = 2.0
	pageSize = 4096
)

// curve is what one load does to the kinds: the share of each that is older than an age, and the share of each that
// is promoted from there in one interval.
type curve struct {
	old, back [policy.Ages][len(idle)]float64
}

// Generate makes the fleet, one job at a time; the Trace can be walked again and yields the same.
func Generate(m Model) Trace {
	curves := make([]curve, levels)
	for l := range curves {
		load := lowest + (highest-lowest)*float64(l)/(levels-1)
		for a := range policy.Ages {
			for k, mean := range idle {
				rate := load / mean.Seconds()
				curves[l].old[a][k] = math.Exp(-rate * policy.Age(a).Seconds())
				curves[l].back[a][k] = rate * m.Interval.Seconds() * curves[l].old[a][k]
			}
		}
	}
	return Trace{Interval: m.Interval, Source: "generated", Jobs: func(yield func(*Job, error) bool) {
		order := rand.New(rand.NewPCG(m.Seed, math.MaxUint64)).Perm(m.Jobs)
		var j Job
		for i := range m.Jobs {
			// A place of its own in the distribution for each job: the shares are met by a fleet of any seed.
			rng := rand.New(rand.NewPCG(m.Seed, uint64(i)))
			m.job(&j, i, rng, (float64(order[i])+rng.Float64())/float64(m.Jobs), curves)
			if !yield(&j, nil) {
				return
			}
		}
	}}
}

// coldJobs: below it a job has hardly anything cold; above, shares spread around the middle one's.
const (
	hotJobs    = 0.12
	middleCold = 0.31 // of the other jobs' median
	coldSpread = 0.43 // of the logit
	coldLarger = 0.2  // how much larger cold jobs are, by the logarithm
)

// life is what a job keeps through its intervals.
type life struct {
	kinds   [len(idle)]float64 // share of its memory of each kind
	size    float64            // bytes when it is full
	filling float64            // seconds: time constant of its start
	wave    float64            // amplitude of the daily load
	phase   float64
	bursts  float64 // a second
	noise   float64
}

// job fills j; place in (0,1) is where it stands among all jobs by its share of cold memory.
func (m Model) job(j *Job, i int, rng *rand.Rand, place float64, curves []curve) {
	spread := func(median, sigma float64) float64 { return median * math.Exp(sigma*rng.NormFloat64()) }
	var l life
	z := 0.0
	share := 0.01 + 0.09*place/hotJobs
	l.size = spread(512<<20, 1)
	if place > hotJobs {
		z = math.Sqrt2 * math.Erfinv(2*(place-hotJobs)/(1-hotJobs)-1)
		share = 1 / (1 + math.Exp(-(math.Log(middleCold/(1-middleCold)) + coldSpread*z)))
		l.size = spread(1<<30, 1) * math.Exp(coldLarger*z)
	}
	l.kinds = mix(share, rng)
	l.filling = spread(480, 0.5)
	l.bursts = 1 / spread((10*time.Hour).Seconds(), 1)
	l.noise = 0.2 + 0.3*rng.Float64()

	life := m.when(j, rng)
	if batch := j.Age == 0 && life < m.Length-j.Start; !batch {
		l.wave = 0.6 * rng.Float64()
		l.phase = 0.4 * rng.NormFloat64() // one region: most days begin together
	}
	j.Name = "job-" + strconv.Itoa(i)
	n := max(1, int(life/m.Interval))
	if cap(j.Intervals) < n {
		j.Intervals = make([]Interval, n)
	}
	j.Intervals = j.Intervals[:n]
	l.run(j, m.Interval, rng, curves)
}

// when sets a job's start and age and returns how long it runs within the trace.
func (m Model) when(j *Job, rng *rand.Rand) time.Duration {
	j.Start, j.Age = 0, 0
	starts := func() { j.Start = time.Duration(rng.Float64()*float64(m.Length)) / m.Interval * m.Interval }
	switch kind := rng.Float64(); {
	case kind < 0.65: // a service that was there before
		j.Age = time.Duration(3600*math.Exp(rng.Float64()*math.Log(60*24))) * time.Second
	case kind < 0.75: // one that was deployed
		starts()
	default:
		starts()
		run := 5 * time.Hour.Hours() * math.Exp(rng.NormFloat64())
		return min(max(time.Duration(run*float64(time.Hour)), 10*time.Minute, m.Interval), m.Length-j.Start)
	}
	return m.Length - j.Start
}

// mix draws how a job's memory is made up, so that share of it is older than policy.Age(0) at the usual load.
func mix(share float64, rng *rand.Rand) (kinds [len(idle)]float64) {
	const spread = 0.6
	sum, old := 0.0, 0.0
	cold := kinds[1:]
	for k, u := range usual {
		cold[k] = u * math.Exp(spread*rng.NormFloat64())
		sum += cold[k]
		old += cold[k] * math.Exp(-policy.Age(0).Seconds()/idle[k+1].Seconds())
	}
	all := min(share*sum/old, 0.95) // of the memory, all cold kinds together
	for k := range cold {
		cold[k] *= all / sum
	}
	kinds[0] = 1 - all
	return kinds
}

// run fills the intervals.
func (l *life) run(j *Job, interval time.Duration, rng *rand.Rand, curves []curve) {
	day := (24 * time.Hour).Seconds()
	since, part := math.Inf(1), 0.0 // the last burst: seconds ago, and the share of the cold memory it touched
	for i := range j.Intervals {
		now := j.Start + time.Duration(i)*interval
		age := (j.Age + time.Duration(i+1)*interval).Seconds() // at the interval's end
		load := 1 + l.wave*math.Sin(2*math.Pi*now.Seconds()/day+l.phase)
		c := &curves[int((levels-1)*(min(max(load, lowest), highest)-lowest)/(highest-lowest)+0.5)]
		starting := math.Exp(-age / l.filling)
		size := l.size * (1 - starting)
		since += interval.Seconds()
		burst := rng.Float64() < l.bursts*interval.Seconds()
		if burst {
			since, part = 0, 0.02*math.Exp(rng.Float64()*math.Log(30))
		}
		lively := math.Exp(l.noise*rng.NormFloat64()) * (1 + 10*starting)
		v := &j.Intervals[i]
		oldSum, backSum := 0.0, 0.0
		for a := policy.Ages - 1; a >= 0; a-- {
			old, back := 0.0, 0.0
			for k, w := range l.kinds {
				old += w * c.old[a][k]
				back += w * c.back[a][k]
			}
			at := policy.Age(a).Seconds()
			switch {
			case at > age:
				old, back = 0, 0
			case burst:
				back += part * old
			case at > since:
				old, back = old*(1-part), back*(1-part)
			}
			back *= lively
			v.Cold[a] = pages(size * max(old-oldSum, 0))
			v.Promo[a] = pages(size * max(back-backSum, 0))
			oldSum, backSum = max(old, oldSum), max(back, backSum)
		}
		v.WorkingSet = pages(size * (1 - oldSum))
	}
}

// pages rounds to whole ones.
func pages(bytes float64) int64 { return int64(bytes/pageSize+0.5) * pageSize }
