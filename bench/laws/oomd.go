package laws

import (
	"fmt"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
)

// Oomd is the senpai plugin of oomd in its immediate back-off mode, the one made for TMO: src/oomd/plugins/Senpai.cpp
// and Senpai.h of github.com/facebookincubator/oomd, read at commit 88c28fdedcf7. Once an interval, and after that at
// every tick until it may, it asks whether
//
//	max(avg10, avg60) of memory "some" < pressure_pct  and  max(avg10, avg60) of io "some" < io_pressure_pct
//
// and if so reclaims max_probe × (current − floor), where
//
//	floor = max(memory.min, limit_min + current − (file + min(free swap, anon)))
//
// with file and anon as on the kernel's lists, which have tmpfs among anon. An interval of 6 ticks is 7 ticks long: the
// count goes to zero and the tick after that acts.
//
// The pressure is all or nothing: just below its target it takes as much as at zero. There is no term for refaults.
// The averages are older than what the last reclaim did, by up to a minute.
//
// Not here, because it is off by default: swap_validation (inverted in the original, see slips_test.go) and
// modulate_swappiness, which scales vm.swappiness of the whole host by swap-out rate and fill during the write; a
// step has no such side effect. The other mode, which moves memory.high like Senpai2019, is not here either.
type Oomd struct {
	mem10, mem60, io10, io60 average

	wait time.Duration // until the law may act
}

// Defaults of Senpai.h, by the names of the plugin's arguments; the tick is oomd's --interval.
const (
	oomdTick     = 5 * time.Second // how often plugins run
	oomdInterval = 6               // interval, ticks
	oomdMem      = 0.1 / 100       // pressure_pct, share of time
	oomdIO       = 0.1 / 100       // io_pressure_pct, share of time
	oomdMaxProbe = 0.01            // max_probe
	oomdLimitMin = 100 << 20       // limit_min_bytes
)

// NewOomd makes one with the defaults of the plugin.
func NewOomd() *Oomd {
	return &Oomd{
		mem10: average{decay: decay10}, mem60: average{decay: decay60},
		io10: average{decay: decay10}, io60: average{decay: decay60},
		wait: oomdPause,
	}
}

// oomdPause is from one action to the next.
const oomdPause = (oomdInterval + 1) * oomdTick

// Name implements policy.Law.
func (*Oomd) Name() string { return NameOomd }

// Decide implements policy.Law.
func (l *Oomd) Decide(s policy.Sample) policy.Decision {
	s, ok := sane(s)
	if !ok {
		return senseless()
	}
	if !s.PSI {
		return nothing(policy.NoSignal, "this cgroup has no readable pressure")
	}
	l.mem10.add(s.Period, s.MemSome)
	l.mem60.add(s.Period, s.MemSome)
	l.io10.add(s.Period, s.IOSome)
	l.io60.add(s.Period, s.IOSome)
	l.wait = max(0, l.wait-s.Period)
	if d, stop := outerStop(s); stop {
		return d
	}
	if l.wait > 0 {
		return nothing(Waiting, "looks again in "+l.wait.String())
	}
	mem, io := max(l.mem10.value, l.mem60.value), max(l.io10.value, l.io60.value)
	d := policy.Decision{Inputs: []policy.Reading{
		{Signal: memPSI, Value: mem, Target: oomdMem}, {Signal: ioPSI, Value: io, Target: oomdIO},
	}}
	switch {
	case mem >= oomdMem:
		d.Reason, d.Signal = policy.MemPressure, memPSI
	case io >= oomdIO:
		d.Reason, d.Signal = policy.IOPressure, ioPSI
	default:
		return l.probe(d, s)
	}
	d.Detail = fmt.Sprintf("takes nothing: the higher of avg10 and avg60 is %.2g %% for memory and %.2g %% for io", 100*mem, 100*io)
	return d
}

func (l *Oomd) probe(d policy.Decision, s policy.Sample) policy.Decision {
	floor := s.Usage + oomdLimitMin - (s.File - s.Shmem) - min(s.SwapFree, s.Anon+s.Shmem)
	s.Floor = max(s.Floor, floor)
	if s.Usage > s.Floor {
		l.wait = oomdPause
	}
	return take(d, s, oomdMaxProbe*float64(s.Usage-s.Floor), 1, "")
}
