package offload

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/offload/endurance"
	"github.com/spillway-io/spillway/offload/mix"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/tier"
)

// wearState is what the agent knows about the wear of the drives behind swap; it belongs to the goroutine in Run.
type wearState struct {
	ledger *endurance.Ledger // nil: switched off
	boot   string
	price  float64
	begun  bool // counters have been seen
	saved  time.Time
	saves  sync.WaitGroup
	own    int64 // bytes swapping wrote to drives since the daemon started
	unpaid int64 // of these, not yet shared out
	out    int64 // sum of targets' out
}

// targetWear is one target's part of it.
type targetWear struct {
	promised int64     // for the step in flight
	out      int64     // bytes that went towards a drive since they were last shared out
	inPool   bool      // its pages may not leave the compressed pool
	asked    time.Time // when inPool was read
}

// inPoolEvery is how often a cgroup is asked whether its pages may leave the compressed pool: people set that once.
const inPoolEvery = 5 * time.Minute

// openWear begins the accounting, from what the last daemon left.
func (a *Agent) openWear(now time.Time) {
	if a.cfg.Endurance.Off {
		return
	}
	w, cfg := &a.wear, a.cfg.Endurance.budget()
	boot, err := sys.BootID(a.deps.Root)
	if err != nil {
		a.log.Debug("boot not identified; counters of an earlier daemon are not continued", "error", err)
	}
	w.boot = boot
	switch s, err := a.loadWear(); {
	case err != nil:
		a.log.Warn("wear state not read; nothing is swapped to a drive for ten minutes, and the drives' history begins again", "error", err)
		w.ledger = endurance.Spent(cfg, boot, now)
	case s == nil:
		w.ledger = endurance.New(cfg, boot, now)
	default:
		w.ledger = endurance.Restore(cfg, *s, boot, now)
	}
}

// tuneWear applies another budget.
func (a *Agent) tuneWear(now time.Time) {
	w := &a.wear
	switch {
	case a.cfg.Endurance.Off:
		w.ledger, w.price = nil, 0
	case w.ledger == nil:
		a.openWear(now)
	default:
		w.ledger.Tune(a.cfg.Endurance.budget())
		w.price = w.ledger.Price()
	}
	a.showWear()
}

// sampleWear charges what was written since the last look. disks are the devices' counters of now.
func (a *Agent) sampleWear(now time.Time, disks []proc.Disk) {
	w := &a.wear
	if w.ledger == nil {
		return
	}
	c := endurance.Counters{SwapOut: int64(a.host.vm.PswpOut) * int64(os.Getpagesize())}
	for _, d := range disks {
		if i := slices.IndexFunc(a.host.tiers, func(t tier.Tier) bool {
			return t.State == tier.Active && (t.Device == d.Name || t.Kind == tier.KindZram && t.Name == d.Name)
		}); i >= 0 {
			c.Devices = append(c.Devices, endurance.Device{Name: d.Name, Written: int64(d.SectorsWritten) * sector, Memory: a.host.tiers[i].Memory()})
		}
	}
	own := w.ledger.Observe(now, c)
	first := !w.begun
	if !first { // else some of it is from before this daemon
		w.own += own
		w.unpaid += own
	}
	w.begun = true
	w.price = w.ledger.Price()
	a.shareOut()
	a.showWear()
	if first {
		return
	}
	if w.ledger.Urgent() || now.Sub(w.saved) >= saveWearEvery {
		w.saved = now
		a.saveWear(false)
	}
}

const sector = 512 // of /proc/diskstats, whatever the drive's own is

// shareOut attributes what swapping wrote to the cgroups whose pages went out meanwhile. The kernel does not say whose
// page a write carried, so each gets its share of the pages.
func (a *Agent) shareOut() {
	w := &a.wear
	if w.unpaid == 0 || w.out == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.targets {
		if t.wear.out > 0 {
			t.row.written += int64(float64(w.unpaid) * float64(t.wear.out) / float64(w.out))
			t.wear.out = 0
		}
	}
	w.unpaid, w.out = 0, 0
}

// noteOut notes how many bytes of t went towards a drive since the last read: the kernel's own count where it has one
// (v2 since 6.12), else by how much what lies in swap and not in the compressed pool grew.
func (a *Agent) noteOut(t *target) {
	if a.wear.ledger == nil || !t.havePrev || !a.balance.disk {
		return
	}
	out := (t.stat.Swap - t.stat.Zswapped) - (t.prev.Swap - t.prev.Zswapped)
	if t.stat.SwapOut > 0 {
		out = int64(diff(t.stat.SwapOut, t.prev.SwapOut)) * int64(os.Getpagesize())
	}
	if out > 0 {
		t.wear.out += out
		a.wear.out += out
	}
}

// writePrice is what t's law pays for a step now: nothing where its pages stay in memory, or it has none that could be
// swapped, or where only its file cache will be taken.
func (a *Agent) writePrice(t *target, now time.Time) float64 {
	w := &a.wear
	if w.ledger == nil || w.price == 0 || !a.mayWrite(t, now) {
		return 0
	}
	if w.price >= 1 && a.tellsFiles() {
		return 0 // see spend
	}
	return w.price
}

// tellsFiles says whether the kernel can be told to take file cache alone.
func (a *Agent) tellsFiles() bool { return a.balance.steering != mix.Deaf }

// mayWrite says whether a step on t can end on a drive.
func (a *Agent) mayWrite(t *target, now time.Time) bool {
	if !a.balance.disk || t.stat.Anon+t.stat.Shmem <= 0 || t.stat.SwapMax == 0 || a.cfg.Params[t.class].FileOnly {
		return false
	}
	if a.balance.pool && a.h.Mode == cgroup.V2 && now.Sub(t.wear.asked) >= inPoolEvery {
		t.wear.asked, t.wear.inPool = now, !a.mayWriteBack(t)
	}
	return !(a.balance.pool && t.wear.inPool)
}

// spend fits a step into what may still be written, and sets that much aside for it. With the budget spent it goes on
// with file cache alone, where the kernel can be told.
func (a *Agent) spend(t *target, now time.Time, choice cgroup.Swappiness, d *policy.Decision) cgroup.Swappiness {
	w := &a.wear
	if w.ledger == nil || d.Step <= 0 || choice == cgroup.FileOnly || !a.mayWrite(t, now) {
		return choice
	}
	// The kernel may take a folio more than it is asked for.
	worst := func(step int64) int64 { return a.writesOf(t, min(step+grain, t.stat.Anon+t.stat.Shmem)) }
	left := w.ledger.Left()
	if worst(d.Step) > left {
		if a.tellsFiles() {
			d.Detail += "; file cache only: the budget for writing to flash has " + bytesize.Size(left).String() + " left"
			a.bound(t, d)
			return cgroup.FileOnly
		}
		page := int64(4 * bytesize.KiB)
		d.Step = min(d.Step, max(left/a.writesOf(t, 1)-grain, 0)/page*page)
		d.Detail += fmt.Sprintf("; the budget for writing to flash has %v left", bytesize.Size(left))
		if d.Step == 0 {
			d.Reason, d.Signal = policy.WriteBudget, "endurance"
			return choice
		}
	}
	if !a.cfg.DryRun && a.deps.Worker != nil {
		t.wear.promised = worst(d.Step)
		w.ledger.Promise(t.wear.promised)
	}
	return choice
}

// spent ends the promise of t's step.
func (a *Agent) spent(t *target) {
	if a.wear.ledger != nil && t.wear.promised > 0 {
		a.wear.ledger.Fulfil(t.wear.promised)
	}
	t.wear.promised = 0
}

// showWear makes the figures visible.
func (a *Agent) showWear() {
	w, cfg := &a.wear, a.cfg.Endurance
	var e *admin.Endurance
	if w.ledger != nil {
		b := cfg.budget()
		e = &admin.Endurance{
			Budget: int64(b.Rate * 86400), Whole: b.Whole, Rating: b.TBW, Price: w.price, Left: w.ledger.Left(), Written: w.own, Drives: []admin.Drive{},
		}
		for _, d := range w.ledger.Report() {
			e.Drives = append(e.Drives, admin.Drive{
				Device: d.Device, Written: d.Total, Since: d.Since, Ten: d.Ten, Hour: d.Hour, Day: d.Day, Years: d.Years, Forecast: strings.ToValidUTF8(d.Text(), "?"),
			})
		}
	}
	a.mu.Lock()
	a.view.wear = e
	a.mu.Unlock()
}
