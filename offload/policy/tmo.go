package policy

import "math"

// tmo is the law of "TMO: Transparent Memory Offloading in Datacenters" (Weiner et al., ASPLOS 2022,
// section 3.3, the Senpai controller):
//
//	reclaim = current_mem × reclaim_ratio × max(0, 1 − PSI_some / PSI_threshold)
//
// every 6 s, at most 1 % of current_mem. IO pressure is watched beside memory pressure and the smaller step wins.
// The law remembers nothing, and it has no term for refaults: on kernels whose memory pressure does not count
// them it has no brake. Without readable pressure it takes nothing, because the formula has no value.
type tmo struct {
	p Params
}

func (*tmo) Name() string { return TMO }

func (l *tmo) Decide(s Sample) Decision {
	s, ok := s.sane()
	if !ok {
		return nothing(NoSignal, "takes nothing: the sample has no period or no usage")
	}
	if d, stop := outerStop(s); stop {
		return d
	}
	if !s.PSI {
		return nothing(NoSignal, "takes nothing: this cgroup has no readable pressure and the tmo law has no other brake")
	}
	in := pressure(s, l.p)
	w, left := worst(in)
	d := Decision{Inputs: in}
	switch share := math.Min(l.p.MaxStep, l.p.Ratio*left); {
	case left <= 0:
		d.Reason, d.Signal = over(w.Signal), w.Signal
		d.Detail = "takes nothing: " + w.text()
	case s.Usage <= s.Floor:
		d.Reason = AtFloor
		d.Detail = "takes nothing: " + bytes(s.Usage) + " used is not above the floor of " + bytes(s.Floor)
	default:
		d.take(s, s.step(share), w, left, "")
	}
	return d
}

// pressure reads the two PSI signals.
func pressure(s Sample, p Params) []Reading {
	return []Reading{
		{Signal: memPSI, Value: s.share(s.MemSome), Target: p.MemPressure},
		{Signal: ioPSI, Value: s.share(s.IOSome), Target: p.IOPressure},
	}
}

// outerStop is what no law may overrule.
func outerStop(s Sample) (Decision, bool) {
	switch {
	case s.HostPressure:
		return nothing(HostPressure, "takes nothing: the whole host is under memory pressure"), true
	case s.SwapFull:
		return nothing(SwapFull, "takes nothing: swap is nearly full, anonymous memory has nowhere to go"), true
	case s.WritePrice >= 1:
		d := nothing(WriteBudget, "takes nothing: swapping has written to flash what its budget allows for ten minutes")
		d.Signal = endurance
		return d, true
	}
	return Decision{}, false
}
