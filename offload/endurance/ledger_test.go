package endurance

import (
	"math"
	"strings"
	"testing"
	"time"
)

var epoch = time.Unix(1_700_000_000, 0).UTC()

const mib = int64(1) << 20

// see observes n bytes written by swapping to sda, d after the start.
func see(l *Ledger, d time.Duration, n int64) int64 {
	return l.Observe(epoch.Add(d), Counters{SwapOut: n, Devices: []Device{{Name: "sda", Written: n}}})
}

func TestPriceFollowsTheBucket(t *testing.T) {
	l := New(Config{Rate: float64(mib)}, "x", epoch) // 600 MiB in ten minutes
	see(l, 0, 5000*mib)                              // what was written before is not ours
	if l.Price() != 0 || l.Left() != 600*mib {
		t.Fatalf("at the start: price %v, left %d", l.Price(), l.Left())
	}
	see(l, time.Second, 5300*mib)
	if p := l.Price(); math.Abs(p-0.5) > 0.01 {
		t.Errorf("half of it gone: price %v", p)
	}
	see(l, 2*time.Second, 5700*mib)
	if l.Price() != 1 || l.Left() != 0 {
		t.Errorf("more than all of it gone: price %v, left %d", l.Price(), l.Left())
	}
	see(l, 11*time.Minute, 5700*mib)
	if l.Left() >= 600*mib {
		t.Errorf("ten minutes later: left %d, 100 MiB of debt are not paid back yet", l.Left())
	}
	see(l, 13*time.Minute, 5700*mib)
	if l.Price() != 0 || l.Left() != 600*mib {
		t.Errorf("13 minutes later: price %v, left %d", l.Price(), l.Left())
	}
}

func TestPromisesAreNotGivenTwice(t *testing.T) {
	l := New(Config{Rate: float64(mib)}, "x", epoch)
	see(l, 0, 0)
	l.Promise(400 * mib)
	if l.Left() != 200*mib || l.Price() != 0 {
		t.Errorf("left %d price %v with 400 MiB in flight", l.Left(), l.Price())
	}
	see(l, time.Second, 0)
	l.Fulfil(400 * mib)
	see(l, 2*time.Second, 0)
	if l.Left() != 200*mib {
		t.Errorf("left %d one observation after its end: its writes may still be on their way", l.Left())
	}
	see(l, 3*time.Second, 0)
	if l.Left() != 600*mib {
		t.Errorf("left %d two observations after its end, and nothing was written", l.Left())
	}
}

func TestBurstIsADepthOfItsOwn(t *testing.T) {
	l := New(Config{Rate: float64(mib), Burst: 30 * mib}, "x", epoch)
	see(l, 0, 0)
	if l.Left() != 30*mib {
		t.Fatalf("left %d", l.Left())
	}
	see(l, time.Second, 30*mib)
	see(l, 11*time.Second, 30*mib)
	if l.Left() != 10*mib || math.Abs(l.Price()-2./3) > 0.01 {
		t.Errorf("ten seconds at 1 MiB/s later: left %d, price %v", l.Left(), l.Price())
	}
}

// Pages that went to a compressed disk in memory wear nothing, whichever counter moves first.
func TestCompressedDisksAreFree(t *testing.T) {
	l := New(Config{Rate: float64(mib)}, "x", epoch)
	look := func(d time.Duration, swapOut, zram, sda int64) int64 {
		return l.Observe(epoch.Add(d), Counters{SwapOut: swapOut, Devices: []Device{{"zram0", zram, true}, {"sda", sda, false}}})
	}
	look(0, 100*mib, 100*mib, 0)
	if own := look(1*time.Second, 150*mib, 150*mib, 0); own != 0 {
		t.Errorf("%d bytes to drives, all of it went to zram", own)
	}
	if own := look(2*time.Second, 150*mib, 160*mib, 0); own != 0 { // zram counted first
		t.Errorf("%d bytes", own)
	}
	if own := look(3*time.Second, 160*mib, 160*mib, 0); own != 0 {
		t.Errorf("%d bytes, pswpout only caught up", own)
	}
	if own := look(4*time.Second, 200*mib, 170*mib, 30*mib); own != 30*mib {
		t.Errorf("%d bytes to drives, want 30 MiB", own)
	}
}

func TestWholeDriveCountsEverybody(t *testing.T) {
	l := New(Config{Rate: float64(mib), Whole: true}, "x", epoch)
	l.Observe(epoch, Counters{Devices: []Device{{"sda", 0, false}, {"sdb", 0, false}}})
	l.Observe(epoch.Add(time.Second), Counters{Devices: []Device{{"sda", 300 * mib, false}, {"sdb", 0, false}}})
	if l.Left() != 300*mib {
		t.Errorf("left %d: the scarcer drive binds", l.Left())
	}
	l.Observe(epoch.Add(2*time.Second), Counters{Devices: []Device{{"sdb", 0, false}}})
	if left := l.Left(); left < 300*mib || left > 302*mib {
		t.Errorf("left %d just after swapoff of the drive that was written", left)
	}
	l.Observe(epoch.Add(11*time.Minute), Counters{Devices: []Device{{"sdb", 0, false}}})
	if l.Left() != 600*mib {
		t.Errorf("left %d long after it", l.Left())
	}
}

func TestForecast(t *testing.T) {
	l := New(Config{Rate: 1e9, TBW: 600e12}, "x", epoch)
	for i := range 25 * 60 {
		see(l, time.Duration(i)*time.Minute, int64(i)*60*2e6) // 2 MB a second
	}
	w := l.Report()[0]
	// 600e12 / 2e6 / 31557600 = 9.5
	if math.Abs(w.Day-2e6) > 2e4 || math.Abs(w.Hour-2e6) > 5e4 || math.Abs(w.Ten-2e6) > 3e5 || math.Abs(w.Years-9.5) > 0.1 {
		t.Errorf("%+v, want 2 MB/s and 9.5 years", w)
	}
	if got := w.Text(); got != "at the rate of the last day sda lasts 9.5 years" {
		t.Error(got)
	}
	l.Tune(Config{Rate: 1})
	if got := l.Report()[0].Text(); !strings.Contains(got, "offload.endurance.tbw") {
		t.Errorf("without a rating: %q", got)
	}
	l = New(Config{Rate: 1, TBW: 1}, "x", epoch)
	see(l, 0, 0)
	if got := l.Report()[0].Text(); !strings.Contains(got, "less than ten minutes") {
		t.Errorf("at the start: %q", got)
	}
	for i := range 61 {
		see(l, time.Duration(i)*time.Minute, 0)
	}
	if got := l.Report()[0].Text(); got != "nothing was written to sda in the last 1h0m0s" {
		t.Errorf("unused: %q", got)
	}
}

// A gap in watching must not look like a burst: when in it the bytes were written is not known.
func TestForecastAfterAGap(t *testing.T) {
	l := New(Config{Rate: 1e9, TBW: 600e12}, "x", epoch)
	see(l, 0, 0)
	s := l.State(true)
	l = Restore(Config{Rate: 1e9, TBW: 600e12}, s, "x", epoch.Add(10*time.Hour))
	for i := range 30 {
		see(l, 10*time.Hour+time.Duration(i)*time.Minute, 3600*mib)
	}
	if w := l.Report()[0]; !w.Forever || w.Total != 3600*mib {
		t.Errorf("%+v, want no writes since, and all of them in the total", w)
	}
	see(l, time.Hour, 3600*mib) // the clock is set back by hours
	for i := range 20 {
		see(l, time.Hour+time.Duration(i)*time.Minute, 3600*mib)
	}
	if w := l.Report()[0]; w.Over > time.Hour {
		t.Errorf("%+v after the clock was set back", w)
	}
}

func TestReloadKeepsWhatWasSpent(t *testing.T) {
	l := New(Config{Rate: float64(mib)}, "x", epoch)
	see(l, 0, 0)
	see(l, time.Second, 300*mib)
	l.Tune(Config{Rate: 2 * float64(mib)})
	if l.Left() != 900*mib {
		t.Errorf("left %d of a doubled budget with 300 MiB spent", l.Left())
	}
	l.Tune(Config{Rate: float64(mib) / 10})
	if l.Left() != 0 || l.Price() != 1 {
		t.Errorf("left %d price %v of a budget smaller than what was spent", l.Left(), l.Price())
	}
}

func TestDrivesAreForgotten(t *testing.T) {
	l := New(Config{Rate: 1}, "x", epoch)
	for i := range 40 {
		l.Observe(epoch.Add(time.Duration(i)*time.Hour), Counters{Devices: []Device{{Name: string(rune('a' + i%26))}}})
		if len(l.drives) > maxDrives {
			t.Fatalf("%d drives are kept", len(l.drives))
		}
	}
	if got := l.Report(); len(got) != 1 {
		t.Errorf("reports %v, one device is behind swap", got)
	}
}

func BenchmarkObserve(b *testing.B) {
	l := New(Config{Rate: 1e6}, "x", epoch)
	c := Counters{Devices: []Device{{Name: "sda"}, {Name: "zram0", Memory: true}}}
	b.ReportAllocs()
	for i := range b.N {
		c.SwapOut += 4096
		c.Devices[0].Written += 4096
		l.Observe(epoch.Add(time.Duration(i)*time.Second), c)
	}
}
