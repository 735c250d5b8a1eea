package replay

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Search says how to look for the best setting.
type Search struct {
	Seed   uint64
	Trials int     // settings to try, the published one among them, in [1, 10000]
	Target float64 // promotions a minute as a share of the working set, in (0,1)
	Within float64 // share of job-minutes that must be at or under Target, in (0,1]
}

// Report is what a search found.
type Report struct {
	Fleet     Fleet   `json:"fleet"`
	Target    float64 `json:"target"`
	Within    float64 `json:"within"`
	Trials    int     `json:"trials"`
	Seed      uint64  `json:"seed"`
	Published Result  `json:"published"` // the defaults on this trace
	// Frontier holds the settings that no other beats in both saving and job-minutes over the target, by saving.
	Frontier []Result `json:"frontier"`
	Winner   *Result  `json:"winner"` // saves most within the target; nil: none keeps it
}

// ErrNothingCold is a trace without any memory older than policy.Age(0): every setting is as good as the other.
var ErrNothingCold = errors.New("replay: the trace knows no cold memory")

// Tune tries random settings on the trace, all in one pass. The paper searched with a Gaussian process because one
// replay of the fleet was expensive to it; here a thousand random ones cost a minute.
func Tune(ctx context.Context, t Trace, s Search, progress func(jobs int)) (Report, error) {
	if s.Trials < 1 || s.Trials > maxSettings || !(s.Within > 0 && s.Within <= 1) {
		return Report{}, errors.New("replay: trials or share of job-minutes out of range")
	}
	fleet, all, err := Replay(ctx, t, s.Target, s.settings(), progress)
	if err != nil {
		return Report{}, err
	}
	r := Report{Fleet: fleet, Target: s.Target, Within: s.Within, Trials: s.Trials, Seed: s.Seed, Published: all[0]}
	if fleet.Cold == 0 {
		return r, ErrNothingCold
	}
	r.Frontier = frontier(all)
	for i := range r.Frontier {
		if 1-r.Frontier[i].Over >= s.Within {
			r.Winner = &r.Frontier[i] // the frontier ascends by saving
		}
	}
	return r, nil
}

// settings draws the trials: K with a tail towards 100, S evenly by its logarithm from a minute to four hours, P by
// its logarithm around the target. They are rounded to what a person would write, so that what goes into a
// configuration is what was replayed.
func (s Search) settings() []Setting {
	rng := rand.New(rand.NewPCG(s.Seed, 0))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, rng.Float64()) }
	out := []Setting{Published()}
	for len(out) < s.Trials {
		digits := math.Pow(10, 1-math.Floor(math.Log10(s.Target)))
		out = append(out, Setting{
			Percentile: math.Round(1000-10*between(0.1, 50)) / 10,
			Warmup:     time.Duration(between(1, 240)) * time.Minute,
			Promotion:  max(math.Round(between(s.Target/8, min(s.Target*4, 0.09))*digits), 1) / digits,
		})
	}
	return out
}

// frontier sorts by job-minutes over the target and keeps what saves more than everything before it.
func frontier(all []Result) []Result {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Over, b.Over), cmp.Compare(b.Saved, a.Saved))
	})
	var out []Result
	for _, r := range all {
		if len(out) == 0 || r.Saved > out[len(out)-1].Saved {
			out = append(out, r)
		}
	}
	return out
}
