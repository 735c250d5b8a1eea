package endurance

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// written is one write as it really happened.
type written struct {
	at     time.Duration
	bytes  int64
	asked  bool // by a step; else by the kernel itself or another program
	device string
}

// world is a machine whose writes are known exactly, with a Ledger that sees only counters, late and now and then.
type world struct {
	t       *rapid.T
	cfg     Config
	start   time.Time
	now     time.Duration
	l       *Ledger
	boot    int
	swapOut int64
	disks   map[string]int64
	memory  int64 // written to a compressed disk
	active  string
	log     []written
	pending []step
	saved   *State
	savedAt time.Duration
}

// step is a step that was allowed: what it will still write, and after how many observations that is done.
type step struct {
	promised, left int64
	age            int
}

func newWorld(t *rapid.T, cfg Config) *world {
	w := &world{t: t, cfg: cfg, start: time.Unix(1_700_000_000, 0), disks: map[string]int64{"sda": 0, "sdb": 0}, active: "sda", boot: 1}
	w.l = New(cfg, w.bootID(), w.start)
	w.observe()
	return w
}

func (w *world) bootID() string { return string(rune('a' + w.boot%20)) }

func (w *world) write(n int64, asked bool) {
	if n <= 0 {
		return
	}
	w.disks[w.active] += n
	w.swapOut += n
	w.log = append(w.log, written{w.now, n, asked, w.active})
}

func (w *world) observe() {
	w.l.Observe(w.start.Add(w.now), Counters{SwapOut: w.swapOut + w.memory, Devices: []Device{
		{Name: w.active, Written: w.disks[w.active]}, {Name: "zram0", Written: w.memory, Memory: true},
	}})
	if w.l.Urgent() { // as the agent does
		w.save(false)
	}
	kept := w.pending[:0]
	for _, s := range w.pending {
		if s.age++; s.age == 1 { // its end: what it wrote may still be on its way for one observation
			w.l.Fulfil(s.promised)
		}
		if s.age < 4 {
			kept = append(kept, s)
		}
	}
	w.pending = kept
}

// tick is one period: some of what steps may write is written, then the ledger looks.
func (w *world) tick(d time.Duration) {
	for i := range w.pending {
		s := &w.pending[i]
		n := s.left
		if s.age < 2 && n > 0 { // the last chance is before the second observation after its end
			n = rapid.Int64Range(0, n).Draw(w.t, "written now")
		}
		s.left -= n
		w.write(n, true)
	}
	w.now += d
	w.observe()
}

// ask takes a step as large as the adversary wants and the ledger allows.
func (w *world) ask(want int64) {
	n := min(want, w.l.Left())
	if n <= 0 {
		return
	}
	w.l.Promise(n)
	w.pending = append(w.pending, step{promised: n, left: n})
}

// land writes everything that is still on its way: a process that ends waits for its steps.
func (w *world) land() {
	for i := range w.pending {
		w.write(w.pending[i].left, true)
	}
	w.pending = nil
}

func (w *world) save(clean bool) {
	b, err := w.l.State(clean).Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := Decode(b)
	if err != nil {
		w.t.Fatalf("own state refused: %v\n%s", err, b)
	}
	w.saved, w.savedAt = &s, w.now
}

// restart ends the daemon and starts the next one; reboot also begins the counters again.
func (w *world) restart(clean, reboot bool, away time.Duration) {
	w.land()
	if clean {
		w.observe()
		w.save(true)
	} else if w.saved == nil || w.now-w.savedAt > time.Minute {
		w.save(false) // the agent saves once a minute and at its start
	}
	w.now += away
	if reboot {
		w.boot++
		w.swapOut, w.memory = 0, 0
		for d := range w.disks {
			w.disks[d] = 0
		}
	}
	w.l = Restore(w.cfg, *w.saved, w.bootID(), w.start.Add(w.now))
	w.save(false)
	w.observe()
}

// check looks at every window that ends with a write somebody was given leave for.
func (w *world) check() {
	limit := int64(1.1 * w.cfg.Rate * Window.Seconds())
	w.checkDevice("", limit)
	if w.cfg.Whole {
		w.checkDevice("sda", limit)
		w.checkDevice("sdb", limit)
	}
}

// checkDevice counts what steps wrote to any device or, where everything counts, what anybody wrote to one.
func (w *world) checkDevice(device string, limit int64) {
	if device == "" && w.cfg.Whole {
		return
	}
	var sum int64
	first := 0
	for i, x := range w.log {
		if device != "" && x.device != device {
			continue
		}
		if x.asked || w.cfg.Whole {
			sum += x.bytes
		}
		for ; x.at-w.log[first].at >= Window; first++ {
			if old := w.log[first]; (device == "" || old.device == device) && (old.asked || w.cfg.Whole) {
				sum -= old.bytes
			}
		}
		if x.asked && sum > limit {
			w.t.Fatalf("%d bytes in the ten minutes before %v (write %d), the budget allows %d", sum, x.at, i, limit)
		}
	}
}

// TestHardBound lets an adversary do its worst: no ten minutes may hold more than 1.1 times the budget of writes that
// were allowed. Time is compressed: hours take milliseconds.
func TestHardBound(t *testing.T) {
	for name, whole := range map[string]bool{"swapping": false, "whole drive": true} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				rate := rapid.Float64Range(100, 1e9).Draw(t, "rate")
				cfg := Config{Rate: rate, Whole: whole, Burst: rapid.SampledFrom([]int64{0, int64(rate), int64(60 * rate)}).Draw(t, "burst")}
				w := newWorld(t, cfg)
				budget := int64(rate * 600)
				for range rapid.IntRange(20, 150).Draw(t, "turns") {
					switch rapid.SampledFrom([]string{"ask", "ask", "burst", "at once", "at once", "tick", "wait", "edge", "replug", "zram", "save", "restart", "kill", "reboot", "crash", "swap drive"}).Draw(t, "what") {
					case "ask":
						w.ask(rapid.Int64Range(1, budget/5+1).Draw(t, "want"))
						w.tick(6 * time.Second)
					case "burst": // re-dirties everything and evicts it again, every period
						for range 10 {
							w.ask(budget)
							w.tick(time.Duration(rapid.Int64Range(1, int64(20*time.Second)).Draw(t, "period")))
						}
					case "at once":
						w.ask(budget)
						for range 3 {
							w.tick(time.Second)
						}
					case "edge": // just before the window forgets
						w.tick(time.Duration(rapid.IntRange(500, 600).Draw(t, "seconds")) * time.Second)
					case "replug": // the drive's counter begins again
						w.land()
						w.observe()
						w.disks[w.active] = 0
						w.tick(time.Second)
					case "tick":
						w.tick(time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "period")))
					case "wait":
						w.tick(time.Duration(rapid.Int64Range(1, int64(15*time.Minute)).Draw(t, "long")))
					case "zram":
						w.memory += rapid.Int64Range(0, budget).Draw(t, "compressed")
						w.tick(time.Second)
					case "save":
						w.save(false)
					case "restart":
						w.restart(true, false, time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "away")))
					case "kill":
						w.restart(false, false, time.Second)
					case "reboot":
						w.restart(true, true, time.Minute)
					case "crash":
						w.restart(false, true, time.Minute)
					case "swap drive":
						w.active = map[string]string{"sda": "sdb", "sdb": "sda"}[w.active]
						w.tick(time.Second)
					}
				}
				w.land()
				w.check()
			})
		})
	}
}

// TestForeignWritesComeFirst: where everything on the drive counts, steps wait for what others wrote.
func TestForeignWritesComeFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, Config{Rate: 1 << 20, Whole: true})
		for range rapid.IntRange(10, 100).Draw(t, "turns") {
			if rapid.Bool().Draw(t, "foreign") {
				w.land()
				w.write(rapid.Int64Range(0, 2000<<20).Draw(t, "foreign bytes"), false)
				w.tick(time.Second)
			}
			w.ask(rapid.Int64Range(1, 200<<20).Draw(t, "want"))
			w.tick(time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "period")))
		}
		w.land()
		w.check()
	})
}

// TestRedirtying is the adversary of the goal: 200 MB dirtied and evicted for ever, for four hours. A law that does not
// look at the budget writes more than ten times as much; this one uses most of it and never more.
func TestRedirtying(t *testing.T) {
	const mb, period = 1_000_000, 6 * time.Second
	start := time.Unix(1_700_000_000, 0)
	l := New(Config{Rate: mb}, "x", start)
	var log []int64
	var counter, naive, total int64
	for i := range int(4 * time.Hour / period) {
		l.Observe(start.Add(time.Duration(i)*period), Counters{SwapOut: counter, Devices: []Device{{Name: "sda", Written: counter}}})
		want := int64(200 * mb)
		naive += want
		n := min(int64(float64(want)*(1-l.Price())), l.Left())
		l.Promise(n)
		l.Fulfil(n)
		counter += n
		total += n
		log = append(log, n)
	}
	perWindow := int(Window / period)
	var worst int64
	for i := range len(log) - perWindow {
		var sum int64
		for _, n := range log[i : i+perWindow] {
			sum += n
		}
		worst = max(worst, sum)
	}
	t.Logf("asked for %d MB, wrote %d MB; worst ten minutes %d MB of 600 MB", naive/mb, total/mb, worst/mb)
	if worst > 660*mb {
		t.Errorf("%d MB in ten minutes, the budget is 600 MB", worst/mb)
	}
	if total < 4*3600*mb*8/10 {
		t.Errorf("only %d MB of a budget of %d MB were used", total/mb, 4*3600)
	}
	if naive < 10*total {
		t.Errorf("the case is too mild: %d MB asked, %d MB written", naive/mb, total/mb)
	}
}
