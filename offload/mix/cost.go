package mix

import (
	"fmt"
	"time"
)

// Seeds for the cost of one refault until it is measured: 10 to 20 µs from a compressed pool, about 100 µs for a file
// read from a good SSD; the same as the composite law's.
const (
	seedAnon = 15 * time.Microsecond
	seedFile = 100 * time.Microsecond
)

const (
	// fade is what a period leaves of what was noted before: half is gone after 20 periods, two minutes of 6 s.
	// Shorter, and a step's bytes are forgotten before they come back; longer, and a changed workload is not seen.
	fade = 0.966
	// enough is how many bytes of a kind must stand in the balance before its cost means anything: 16 pages.
	enough = 16 * page
	// stale is how many periods without any of a kind its cost is still believed.
	stale = 20
	// maxShare keeps the net bytes above zero for pages that hardly shrink.
	maxShare = 0.95
)

// kind is what taking one kind of memory has cost lately: time lost on refaults and net bytes freed, both fading.
type kind struct {
	name  string
	lost  float64 // nanoseconds
	freed float64 // bytes
	idle  int     // periods since any was taken

	wait  int // steps until it may be asked for again to learn its cost
	pause int // what wait becomes next
}

// note adds one period. A byte in a compressed pool frees less than a byte, so what is paid for it buys less.
func (k *kind) note(took int64, poolShare float64, back uint64, cost, seed time.Duration) {
	if cost == 0 {
		cost = seed
	}
	k.lost = k.lost*fade + float64(min(back, maxPages))*float64(cost)
	k.freed = k.freed*fade + float64(took)*(1-poolShare)
	if k.idle = min(k.idle+1, stale); took >= page {
		k.idle = 0
	}
}

func (k *kind) known() bool { return k.freed >= enough && k.idle < stale }

// cost is nanoseconds a byte.
func (k *kind) cost() float64 { return k.lost / max(k.freed, 1) }

// nearlyFree is a cost of one µs a MiB: a page in a hundred thousand comes back.
const nearlyFree = 1e3 / (1 << 20)

// cheapNow says of the only known kind that more of it can be asked for.
func (k *kind) cheapNow() bool { return k.cost() <= nearlyFree }

// asked notes an exploration. Each waits twice as long as the one before, until the kind proves the cheaper one.
func (k *kind) asked() {
	k.wait, k.pause = k.pause, min(2*k.pause, longPause)
}

func (k *kind) cheaper() { k.wait, k.pause = 0, shortPause }

func perMiB(nsPerByte float64) string {
	d := time.Duration(min(nsPerByte*(1<<20), float64(time.Hour)))
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.0f µs", float64(d)/1e3)
}
