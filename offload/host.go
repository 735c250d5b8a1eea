package offload

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/psi"
	"github.com/spillway-io/spillway/offload/tier"
)

// stepTimeout bounds one write of the worker. A step is 1 % of a cgroup, tens of milliseconds on a healthy
// machine; one that takes seconds is hurting somebody.
const stepTimeout = 2 * time.Second

// tiersEvery is how often the tiers' own figures and those of their devices are read: a dozen small files. They are
// needed for the net saving, which is a minute's figure, and for what the disks have written.
const tiersEvery = 3 * time.Second

// hostState is the machine's own figures; it belongs to the goroutine in Run.
type hostState struct {
	mem       proc.Meminfo
	vm        proc.Vmstat
	tiers     []tier.Tier
	tiersAt   time.Time
	memPSI    *psi.File // nil: PSI is off or absent, psiErr says why
	ioPSI     *psi.File
	psiErr    error
	prevMem   psi.Totals
	prevIO    psi.Totals
	memSome   float64
	ioSome    float64
	noSwap    bool
	swapFull  bool
	lowMemory bool
	until     time.Time // no step before this
	why       string
	measuring bool            // the canary is at work
	settled   time.Time       // until then its stalls may show
	steps     context.Context // ends when the brake is pulled
	stop      context.CancelFunc
	disk0     map[string]uint64 // sectors written per device when the daemon first saw it behind swap
	written   int64             // bytes written to those devices since
}

func (a *Agent) openHost() {
	h := &a.host
	for _, f := range []struct {
		name string
		dst  **psi.File
	}{{"memory", &h.memPSI}, {"io", &h.ioPSI}} {
		p, err := psi.Open(a.pressurePath(f.name))
		if err == nil {
			if _, rerr := p.Read(); rerr != nil {
				p.Close()
				err = rerr
			}
		}
		if err != nil {
			h.psiErr = err
			continue
		}
		*f.dst = p
	}
	if h.memPSI != nil {
		h.psiErr = nil
	}
	h.disk0 = map[string]uint64{}
}

// sampleDisks sums what was written to the devices behind swap since each was first seen there.
func (a *Agent) sampleDisks(now time.Time) {
	devices := a.tiers.Devices()
	if len(devices) == 0 && !slices.ContainsFunc(a.host.tiers, func(t tier.Tier) bool { return t.Kind == tier.KindZram }) {
		a.sampleWear(now, nil)
		return
	}
	disks, err := proc.ReadDisks(a.deps.Root)
	if err != nil {
		a.warnOnce("disks", "device figures unreadable", err)
		return
	}
	a.sampleWear(now, disks)
	h := &a.host
	var sum int64
	for _, d := range disks {
		if !slices.Contains(devices, d.Name) {
			continue
		}
		before, seen := h.disk0[d.Name]
		if !seen {
			before, h.disk0[d.Name] = d.SectorsWritten, d.SectorsWritten
		}
		sum += int64(diff(d.SectorsWritten, before)) * sector
	}
	h.written = max(h.written, sum)
}

func (a *Agent) pressurePath(name string) string {
	return path.Join(a.deps.Root, "proc/pressure", name)
}

func (a *Agent) closeHost() {
	if a.host.memPSI != nil {
		a.host.memPSI.Close()
	}
	if a.host.ioPSI != nil {
		a.host.ioPSI.Close()
	}
	if a.host.stop != nil {
		a.host.stop()
	}
	a.tiers.Close()
	a.reader.Close()
}

// sampleHost reads the machine's figures once a period.
func (a *Agent) sampleHost(now time.Time, period time.Duration) error {
	h := &a.host
	if err := a.reader.Meminfo(&h.mem); err != nil {
		return fmt.Errorf("offload: meminfo: %w", err)
	}
	if err := a.reader.Vmstat(&h.vm); err != nil {
		return fmt.Errorf("offload: vmstat: %w", err)
	}
	if period == 0 || now.Sub(h.tiersAt) >= tiersEvery {
		if err := a.tiers.Refresh(); err != nil {
			a.warnOnce("tiers", "tiers unreadable", err)
		}
		h.tiers, h.tiersAt = a.tiers.Tiers(), now
		a.sampleBalance()
		a.sampleDisks(now)
	}
	h.noSwap = h.mem.SwapTotal == 0
	used := h.mem.SwapTotal - h.mem.SwapFree
	h.swapFull = !h.noSwap && float64(used) > a.cfg.Stop.SwapUsed*float64(h.mem.SwapTotal)
	h.lowMemory = float64(h.mem.Available) < a.cfg.Stop.Available*float64(h.mem.Total)
	a.samplePressure(period)
	if h.lowMemory {
		a.stopUntil(now.Add(a.cfg.Stop.Hold), fmt.Sprintf("only %.1f %% of memory is available (stop.available)", 100*float64(h.mem.Available)/float64(h.mem.Total)))
	}
	return nil
}

// samplePressure reads the host's own pressure.
func (a *Agent) samplePressure(period time.Duration) {
	h := &a.host
	read := func(f *psi.File, prev *psi.Totals, some *float64) {
		if f == nil {
			return
		}
		if t, err := f.Read(); err == nil {
			*some = share(usec(diff(t.Some, prev.Some)), period)
			*prev = t
		}
	}
	read(h.memPSI, &h.prevMem, &h.memSome)
	read(h.ioPSI, &h.prevIO, &h.ioSome)
}

// braked says whether the host-wide brake is on.
func (h *hostState) braked() bool { return time.Now().Before(h.until) }

// stepContext is the context for the next steps: the brake ends it, and so does stepTimeout.
func (h *hostState) stepContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if h.steps == nil || h.steps.Err() != nil {
		h.steps, h.stop = context.WithCancel(ctx)
	}
	return context.WithTimeout(h.steps, stepTimeout)
}

// stopUntil pulls the brake: steps in flight are interrupted and none is begun before until.
func (a *Agent) stopUntil(until time.Time, why string) {
	h := &a.host
	fresh := !h.braked()
	h.until, h.why = until, why
	if h.stop != nil {
		h.stop()
	}
	if fresh {
		a.log.Warn("offloading stopped", "reason", why, "until", until.Format(time.RFC3339))
	}
	a.mu.Lock()
	a.view.paused, a.view.pausedUntil = why, until
	a.mu.Unlock()
}

// watchPressure waits on the kernel's own trigger, so that the brake does not depend on the period. Without
// PSI it returns: sampleHost then brakes on available memory alone, and Status says so.
func (a *Agent) watchPressure(ctx context.Context, cfg Stop, brake chan<- time.Time) {
	window, err := psi.AllowedWindow(time.Second)
	if err != nil {
		a.log.Warn("capabilities unreadable; asking for the common trigger window", "error", err)
		window = 2 * time.Second
	}
	stall := time.Duration(cfg.MemPressure * float64(window))
	tr, err := psi.OpenTrigger(a.pressurePath("memory"), stall, window)
	if err != nil {
		a.log.Warn("no host pressure trigger; the brake uses available memory only", "error", err)
		return
	}
	defer tr.Close()
	totals, err := psi.Open(a.pressurePath("memory"))
	if err != nil {
		a.log.Warn("host pressure unreadable; the brake uses available memory only", "error", err)
		return
	}
	defer totals.Close()
	before, err := totals.Read()
	for err == nil {
		if err = tr.Wait(ctx); err != nil {
			break
		}
		// A window that needs no capability starts from another clock's total: on 6.18 its first event reports
		// everything since boot. What fires for less than stall since the last look is no pressure.
		var now psi.Totals
		if now, err = totals.Read(); err != nil {
			break
		}
		real := usec(diff(now.Some, before.Some)) >= stall
		before = now
		if real && !send(ctx, brake, time.Now().Add(cfg.Hold)) {
			return
		}
	}
	if ctx.Err() == nil {
		a.log.Warn("host pressure trigger lost; the brake uses available memory only", "error", err)
	}
}
