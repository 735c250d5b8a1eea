package policy

import "math"

// SLO says that the learner of the workload's service level wants no step now: zero.
const SLO Reason = "slo"

const sloP99 = "slo-p99"

// Bounds of Sample.TargetScale; the same as the learner's own, and enforced here again.
const (
	leastScale = 0.25
	mostScale  = 4
)

// targetScale is TargetScale made harmless.
func (s Sample) targetScale() float64 {
	if !(s.TargetScale > 0) || math.IsInf(s.TargetScale, 1) { // also NaN
		return 1
	}
	return max(leastScale, min(s.TargetScale, mostScale))
}

// RefaultShare is the share of the period spent on bringing pages back, at the costs in s, in [0,∞): the composite
// law's refault-cost signal.
func (s Sample) RefaultShare() float64 {
	s, ok := s.sane()
	if !ok {
		return 0
	}
	return s.refaultShare()
}

// Withhold turns a step into none because the learner of the service level wants it so; why is its sentence. What
// already takes nothing keeps its reason: no brake is hidden.
func (d *Decision) Withhold(why string) {
	if d.Step > 0 {
		d.withhold(why)
	}
}

func (d *Decision) withhold(why string) {
	const most = 200
	d.Step, d.Reason, d.Signal = 0, SLO, sloP99
	d.Detail = "takes nothing: " + why[:min(len(why), most)]
}
