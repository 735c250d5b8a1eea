package policy

import (
	"fmt"

	"github.com/spillway-io/spillway/internal/bytesize"
)

func nothing(r Reason, detail string) Decision { return Decision{Reason: r, Detail: detail} }

// take completes d with a step of n bytes that the signals reduced to left, in (0,1], of a full one.
func (d *Decision) take(s Sample, n int64, w Reading, left float64, note string) {
	d.Step = n
	if n == 0 {
		d.Reason = TooSmall
		d.Detail = "takes nothing: the step from " + bytes(s.Usage) + " is below one page" + note
		return
	}
	d.Detail = fmt.Sprintf("takes %s, %s of %s", bytes(n), percent(float64(n)/float64(s.Usage)), bytes(s.Usage))
	if left >= nearlyFull {
		d.Reason = Steady
		d.Detail += ": every signal is far below its target" + note
		return
	}
	d.Reason, d.Signal = Eased, w.Signal
	d.Detail += fmt.Sprintf(": %s, leaves %s of a full step%s", w.text(), percent(left), note)
}

// nearlyFull is where a step still counts as a full one; a signal is hardly ever exactly zero.
const nearlyFull = 0.9

// text is a reading for people: "refault-cost 0.12 % of the time (target 0.2 %)".
func (r Reading) text() string {
	of := "of the time"
	switch r.Signal {
	case promotionRate:
		of = "of the working set a minute"
	case endurance:
		of = "of the write budget"
	}
	return fmt.Sprintf("%s %s %s (target %s)", r.Signal, percent(r.Value), of, percent(r.Target))
}

// percent prints a share with two digits, more only where a whole number has them.
func percent(share float64) string {
	p := 100 * share
	if p >= 10 {
		return fmt.Sprintf("%.0f %%", p)
	}
	return fmt.Sprintf("%.2g %%", p)
}

func periods(n int) string {
	if n == 1 {
		return "1 period"
	}
	return fmt.Sprintf("%d periods", n)
}

func bytes(n int64) string { return bytesize.Size(n).String() }
