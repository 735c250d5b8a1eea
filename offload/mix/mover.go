package mix

// Machine is what switching the kernel's shrinker of the pool depends on. It works on everybody's pages, managed or
// not.
type Machine struct {
	Pool, Disk bool    // zswap is in use, and a device that is no memory is behind it
	Anyhow     bool    // wanted by configuration, whoever's pages they are
	Budget     bool    // what is written to the disk is bounded
	Tells      bool    // the kernel can be told per cgroup whose pages are to stay (memory.zswap.writeback)
	Ours       int64   // bytes before compression in the pool that belong to managed cgroups
	Stored     int64   // bytes before compression in the pool
	Price      float64 // share of the budget that is gone
}

// Mover decides whether the kernel is to move long-cold pages from the pool to the disk.
type Mover struct {
	wanted, spent bool
}

// Decide says whether the shrinker is to be on, and why it is not.
func (m *Mover) Decide(x Machine) (on bool, why string) {
	if x.Price >= 1 {
		m.spent = true
	} else if x.Price < fineAgain {
		m.spent = false
	}
	// Most, and to end less than a quarter: between the two it stays as it is.
	most := x.Stored >= moveStep && x.Ours > x.Stored/2 || m.wanted && x.Ours >= x.Stored/4
	m.wanted, why = false, ""
	switch {
	case !x.Pool || !x.Disk:
		return false, "there is no disk behind the pool"
	case x.Anyhow:
	case !x.Budget:
		return false, "what is written to the disk is not bounded (endurance.off)"
	case !x.Tells:
		return false, "nothing could keep pages that are needed soon off the disk"
	case !most:
		return false, "little of the pool belongs to managed cgroups, and the shrinker would take everybody's"
	}
	m.wanted = true
	if m.spent {
		return false, "the budget for writing to flash is spent"
	}
	return true, ""
}

// Paused says that only the budget keeps the shrinker off now.
func (m *Mover) Paused() bool { return m.wanted && m.spent }
