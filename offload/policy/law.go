package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Names of the laws.
const (
	TMO       = "tmo"
	Composite = "composite"
	GSwap     = "gswap"
)

// Names lists the laws, the default first.
func Names() []string { return []string{Composite, TMO, GSwap} }

// New makes the named law for one cgroup. Zero fields of p take Defaults(name); any other value outside
// the range its comment states is an error.
func New(name string, p Params) (Law, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("policy: unknown law %q; use %q, %q or %q", name, Composite, TMO, GSwap)
	}
	p, err := p.withDefaults(name)
	if err != nil {
		return nil, err
	}
	switch name {
	case TMO:
		return &tmo{p: p}, nil
	case GSwap:
		return &gswap{p: p}, nil
	}
	return newComposite(p), nil
}

// Defaults returns the named law's parameters, the zero Params for an unknown name.
//
// Ratio 0.0005 a period, MaxStep 0.01, memory and IO pressure 0.001 are the published TMO setting, chosen
// there by A/B tests in production with a period of 6 s: memory nobody touches then halves in 2.3 hours.
// The composite law keeps them and adds two of its own.
//
// RefaultCost 0.002, two thousandths of the time: at the 10 to 20 µs that a page takes to come back from a
// compressed pool this is 100 to 200 pages a second. A service that answers 3,000 requests a second then has at
// most one in fifteen lengthened, by less than a network round trip varies, and the mean grows by 0.7 µs. It is twice
// the memory-pressure target on purpose: pressure counts only the waiting that the kernel thought avoidable, the
// estimate here counts every page, also those that read-ahead brought along. And it is where the law stops at once,
// not where it settles: near the working set it rests long before (see knee), so a burst of a few hundred cold
// pages stands out. On a disk tier with 1 ms a page the same share is 2 pages a second, as careful as it should be.
//
// Hold 10 periods: one minute in production. A service that was hurt gets at least that long to bring back
// what it needs before anything is taken again.
//
// ComeBack 0.15: a law without a memory settles where as much comes back as it takes. Less stops sooner: what it costs
// in saving and gives in accuracy was measured (docs/bench/offload.md, W11).
//
// Promotion 0.0005 and Percentile 95, for the ages of cgroups whose memory is tracked: a quarter of gswap's target,
// because what is idle for a little less than that is a few pages that cost most of the faults; and a burst is
// forgotten after twenty times its length, not fifty, because the signals answer it at once. Found in simulation
// (docs/bench/offload.md).
//
// The gswap law reads neither pressure nor cost. Promotion 0.002 of the working set a minute is the published
// target, found there by A/B tests over months. Percentile 98 lets one past minute in fifty have been worse.
// Warmup 10 min is five scans of 120 s: before it hardly any age can be told. Percentile and Warmup were tuned
// there for the fleet and not published; `spillway offload tune` does the same from a trace.
func Defaults(name string) Params {
	p := Params{Ratio: 0.0005, MaxStep: 0.01, MemPressure: 0.001, IOPressure: 0.001}
	switch name {
	case TMO:
		return p
	case Composite:
		p.RefaultCost, p.Hold, p.ComeBack = 0.002, 10, 0.15
		p.Promotion, p.Percentile = 0.0005, 95
		return p
	case GSwap:
		return Params{Ratio: p.Ratio, MaxStep: p.MaxStep, Promotion: 0.002, Percentile: 98, Warmup: 10 * time.Minute}
	}
	return Params{}
}

// maxHold keeps a mistaken configuration from switching a cgroup off for good: 10,000 periods of 6 s are
// most of a day.
const maxHold = 10_000

// maxWarmup is there for the same reason.
const maxWarmup = 7 * 24 * time.Hour

func (p Params) withDefaults(name string) (Params, error) {
	d := Defaults(name)
	for _, f := range []struct {
		what string
		val  *float64
		def  float64
		most float64
		open bool // the upper end is excluded
	}{
		{"ratio", &p.Ratio, d.Ratio, 1, false},
		{"max step", &p.MaxStep, d.MaxStep, 0.01, false},
		{"memory pressure target", &p.MemPressure, d.MemPressure, 1, true},
		{"io pressure target", &p.IOPressure, d.IOPressure, 1, true},
		{"refault cost target", &p.RefaultCost, d.RefaultCost, 1, true},
		{"come-back share", &p.ComeBack, d.ComeBack, 1, true},
		{"promotion target", &p.Promotion, d.Promotion, 1, true},
		{"percentile", &p.Percentile, d.Percentile, 100, false},
	} {
		v := *f.val
		if v == 0 {
			*f.val = f.def
			continue
		}
		if !(v > 0 && v <= f.most) || f.open && v == f.most { // written so that NaN is refused
			end := "]"
			if f.open {
				end = ")"
			}
			return p, fmt.Errorf("policy: %s %v outside (0, %v%s", f.what, v, f.most, end)
		}
	}
	if p.Hold < 0 || p.Hold > maxHold {
		return p, fmt.Errorf("policy: hold %d outside [0, %d] periods", p.Hold, maxHold)
	}
	if p.Warmup < 0 || p.Warmup > maxWarmup {
		return p, fmt.Errorf("policy: warm-up %v outside [0, %v]", p.Warmup, maxWarmup)
	}
	p.Hold = cmp.Or(p.Hold, d.Hold)
	p.Warmup = cmp.Or(p.Warmup, d.Warmup)
	return p, nil
}

// page is the unit of a step. 4 KiB is right also for kernels with larger pages: they round again.
const page = 4096

// sane returns s with what makes no sense made harmless; ok is false when nothing can be concluded from it.
func (s Sample) sane() (_ Sample, ok bool) {
	if s.Period <= 0 || s.Usage <= 0 {
		return s, false
	}
	s.Floor = max(s.Floor, 0)
	s.MemSome, s.IOSome = max(s.MemSome, 0), max(s.IOSome, 0)
	s.CostAnon, s.CostFile = max(s.CostAnon, 0), max(s.CostFile, 0)
	s.Reclaimed = max(s.Reclaimed, 0)
	if !(s.WritePrice > 0) { // NaN, too
		s.WritePrice = 0
	}
	return s, true
}

// share of the period that d takes, in [0,∞).
func (s Sample) share(d time.Duration) float64 { return float64(d) / float64(s.Period) }

// step is the largest page-aligned size that is at most share of the usage and leaves the floor.
func (s Sample) step(share float64) int64 {
	room := s.Usage - s.Floor
	if room <= 0 || !(share > 0) {
		return 0
	}
	want := float64(s.Usage) * math.Min(share, 1)
	n := room
	if want < float64(room) {
		n = int64(want)
	}
	return n / page * page
}

// worst returns the reading closest to its target and how much of a step it leaves, in [0,1].
func worst(in []Reading) (w Reading, left float64) {
	left = 1
	for _, r := range in {
		if f := 1 - r.Value/r.Target; f < left {
			w, left = r, f
		}
	}
	return w, math.Max(0, left)
}

// Signals, as they are named in a Reading.
const (
	memPSI      = "mem-psi"
	ioPSI       = "io-psi"
	refaultCost = "refault-cost"
	endurance   = "endurance"

	promotionRate = "promotion-rate"
	coldAge       = "cold-age"
)

// over maps a signal to the reason for taking nothing while it is at or above its target.
func over(signal string) Reason {
	switch signal {
	case memPSI:
		return MemPressure
	case ioPSI:
		return IOPressure
	case promotionRate:
		return PromotionRate
	}
	return RefaultCost
}
