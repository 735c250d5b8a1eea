package sensitivity

import (
	"math"
	"math/rand/v2"
	"time"
)

// service is a made-up workload under a law. Its p99 is what its load makes of it, times noise, plus what the warm
// memory that is gone costs it:
//
//	p99 = base × wave × noise + perMiB × warm
//
// Warm memory goes while the law acts, in proportion to the target, and comes back while it holds; each MiB of it
// causes refaults. Cold memory is saved either way.
type service struct {
	rng    *rand.Rand
	perMiB float64 // µs: the truth that is to be found
	noise  float64 // spread of a period's p99, log units
	tail   float64 // share of periods with a Pareto spike
	warm   float64 // MiB gone now
	t      int
	burst  int // periods left of a burst of load
	phase  float64
	scaled bool // what warm memory costs grows with the load, so that the inflation stays the same
}

const (
	base      = 2000.0 // µs
	warmAt1   = 40.0   // MiB of warm memory gone at multiplier 1
	coldSaved = 200.0  // MiB
	shareWarm = 2e-5   // share of time one warm MiB costs in refaults
)

func newService(seed uint64, perMiB, noise, tail float64) *service {
	rng := rand.New(rand.NewPCG(seed, 99))
	return &service{rng: rng, perMiB: perMiB, noise: noise, tail: tail, phase: rng.Float64() * 2 * math.Pi}
}

// inflates is the perMiB at which the p99 is inflated by f at multiplier 1 and quiet load.
func inflates(f float64) float64 { return (f - 1) * base / warmAt1 }

func (s *service) period(a Advice) Period {
	s.t++
	taken := int64(0)
	if a.Hold {
		s.warm *= 0.3
	} else {
		s.warm += (warmAt1*a.Scale - s.warm) * 0.6
		taken = 1 << 20
	}
	if s.burst--; s.burst < 0 && s.rng.IntN(150) == 0 {
		s.burst = 10 + s.rng.IntN(40)
	}
	wave := 1 + 0.3*math.Sin(2*math.Pi*float64(s.t)/600+s.phase) + 0.05*math.Sin(2*math.Pi*float64(s.t)/37)
	if s.burst > 0 {
		wave *= 1.6
	}
	noise := math.Exp(s.noise * s.rng.NormFloat64())
	if s.rng.Float64() < s.tail {
		noise *= math.Pow(1-s.rng.Float64(), -1/1.5)
	}
	p99 := base*wave*noise + s.perMiB*s.warm
	if s.scaled {
		p99 = (base + s.perMiB*s.warm) * wave * noise
	}
	return Period{
		Known: true, P99: time.Duration(p99 * 1e3), Taken: taken,
		Saved: int64((coldSaved + s.warm) * (1 << 20)), Refaults: s.warm * shareWarm,
	}
}

// journey is where the multiplier went. Blocks are those at which it first did, 0 for never.
type journey struct {
	least, most       float64
	up, down, reached int // first above 1, first below 1, first at Most
}

// run lets l learn about s for n blocks of periods.
func run(l *Learner, s *service, blocks int) journey {
	a, j := Advice{Scale: 1}, journey{least: 1, most: 1}
	for range blocks * block {
		a = l.Observe(s.period(a))
		j.least, j.most = min(j.least, a.Scale), max(j.most, a.Scale)
		for at, is := range map[*int]bool{&j.up: a.Scale > 1, &j.down: a.Scale < 1, &j.reached: a.Scale >= Most} {
			if is && *at == 0 {
				*at = l.blocks
			}
		}
	}
	return j
}
