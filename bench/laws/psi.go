package laws

import (
	"math"
	"time"
)

// average is one of the kernel's running pressure averages (avg10, avg60), rebuilt from stall times: the share of every
// 2 s enters with a fixed weight, as kernel/sched/psi.c does it:
//
//	avg ← avg × decay + share × (1 − decay)
//
// It follows from the kernel's figure in two ways that no law here can notice: samples longer than 2 s are taken as
// evenly spread over their length, and the kernel's rounding (1/2048 of a percent) is left out.
type average struct {
	decay float64
	value float64 // share of time in [0,1]

	since time.Duration // of the update that is under way
	stall float64       // ns of stall in it
}

// The kernel's decay per update, EXP_10s and EXP_60s of kernel/sched/psi.c: 1/exp(2/10) and 1/exp(2/60) in 2048ths.
const (
	psiEvery = 2 * time.Second
	decay10  = 1677. / 2048
	decay60  = 1981. / 2048
)

// add lets period pass with stall in it. It needs 0 ≤ stall ≤ period.
func (a *average) add(period, stall time.Duration) {
	share := float64(stall) / float64(period)
	first := min(period, psiEvery-a.since)
	a.since += first
	a.stall += share * float64(first)
	if a.since < psiEvery {
		return
	}
	a.update(a.stall/float64(psiEvery), 1)
	rest := period - first
	a.update(share, float64(rest/psiEvery))
	a.since = rest % psiEvery
	a.stall = share * float64(a.since)
}

// update enters the same share times over.
func (a *average) update(share, times float64) {
	a.value = share + (a.value-share)*math.Pow(a.decay, times)
}
