package sim

import (
	"fmt"
	"testing"
	"time"
)

// audit counts everything anew and compares it with what the engine kept count of.
func (e *engine) audit() error {
	var used, slots int64
	for i, c := range e.cgroups {
		var in [kinds]int
		var shm, alivePages, pooled, onDiskPages int
		for p := c.first; p < c.first+c.n; p++ {
			f := e.m.pages[p].flags
			switch {
			case int(e.m.pages[p].owner) != i:
				return fmt.Errorf("page %d belongs to cgroup %d, not %d", p, e.m.pages[p].owner, i)
			case f&alive == 0 && f&^static != 0:
				return fmt.Errorf("page %d is dead and has flags %b", p, f)
			case f&alive == 0:
				continue
			case f&resident != 0 && f&inPool != 0, f&inPool != 0 && f&onDisk != 0:
				return fmt.Errorf("page %d is in two places: %b", p, f)
			case f&(resident|inPool|onDisk|file) == 0:
				return fmt.Errorf("page %d is nowhere: %b", p, f)
			case f&file != 0 && f&(inPool|onDisk) != 0:
				return fmt.Errorf("page %d of a file went to swap: %b", p, f)
			case f&poor != 0 && f&inPool != 0:
				return fmt.Errorf("page %d does not compress and is in the pool", p)
			}
			alivePages++
			if f&resident != 0 {
				in[f.kind()]++
				if f&shmem != 0 {
					shm++
				}
			}
			if f&inPool != 0 {
				pooled++
			}
			if f&onDisk != 0 {
				onDiskPages++
			}
		}
		if in != c.in || shm != c.shm || alivePages != c.alive || pooled != c.pooled || onDiskPages != c.slots {
			return fmt.Errorf("cgroup %d has %v resident, %d shmem, %d alive, %d pooled, %d on disk; kept count of %v, %d, %d, %d, %d",
				i, in, shm, alivePages, pooled, onDiskPages, c.in, c.shm, c.alive, c.pooled, c.slots)
		}
		if n := e.listed(c); n != c.resident() {
			return fmt.Errorf("cgroup %d has %d pages on its lists, %d resident", i, n, c.resident())
		}
		used += int64(pooled) * e.s.each
		slots += int64(onDiskPages)
	}
	if used != e.s.used || slots != e.s.slots-e.s.free {
		return fmt.Errorf("%d bytes in the pool and %d slots in use; kept count of %d, %d", used, slots, e.s.used, e.s.slots-e.s.free)
	}
	return nil
}

// listed walks the lists of one cgroup in both directions.
func (e *engine) listed(c *cgroup) (n int) {
	var lists []list
	switch m := c.model.(type) {
	case *classic:
		for kind := range kinds {
			lists = append(lists, m.lists[kind][:]...)
		}
	case *mglru:
		for kind := range kinds {
			lists = append(lists, m.lists[kind][:]...)
		}
	}
	for _, l := range lists {
		there, back := 0, 0
		for p := e.m.pages[l.head].next; p != l.head; p = e.m.pages[p].next {
			there++
		}
		for p := e.m.pages[l.head].prev; p != l.head; p = e.m.pages[p].prev {
			back++
		}
		if there != l.n || back != l.n {
			return -1
		}
		n += l.n
	}
	return n
}

// TestAudit audits every workload on both models, under a law and a limit, period by period.
func TestAudit(t *testing.T) {
	t.Parallel()
	for _, reclaim := range []Reclaim{Classic, MGLRU} {
		for _, w := range Workloads(4 * time.Minute) {
			cfg := quick(w)
			cfg.Reclaim, cfg.Span, cfg.Scan = reclaim, 4*time.Minute, 10*time.Second
			cfg.Cgroups = append(cfg.Cgroups, Cgroup{Workload: w, Limit: 60 * mib})
			cfg.Tiers.Pool = Pool{Capacity: 24 * mib}
			cfg.Tiers.Disk = Disk{Capacity: 300 * mib}
			cfg, err := cfg.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			e, err := newEngine(cfg)
			if err != nil {
				t.Fatal(err)
			}
			e.cfg.Span = cfg.Period
			for period := range int(cfg.Span / cfg.Period) {
				e.run()
				if err := e.audit(); err != nil {
					t.Fatalf("%s, %s, period %d: %v", reclaim, w.Name, period, err)
				}
			}
		}
	}
}
