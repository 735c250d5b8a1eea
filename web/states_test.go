package web

import (
	"math"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
)

// empty is a daemon without roots: it observes and manages nothing.
func empty() *fake {
	f := demo()
	f.cgroups = f.cgroups[4:]
	f.decisions = nil
	f.status.Roots, f.status.Managed = nil, 0
	f.status.Host.SavingNet, f.status.Host.PoolBytes, f.status.Host.StoredBytes, f.status.Host.DiskWritten = 0, 0, 0, 0
	for i := range f.history {
		f.history[i] = admin.Point{Time: f.history[i].Time, MemSome: f.history[i].MemSome, IOSome: f.history[i].IOSome}
	}
	f.status.Will = []string{"observe every cgroup"}
	f.status.Wont = []string{"offload anything: there are no roots (no kubepods here; name cgroups with --root or offload.roots)"}
	return f
}

// stale answers, but its loop stopped 40 s ago.
func stale() *fake {
	f := demo()
	f.made = time.Time{}
	for i := range f.history {
		f.history[i].Time = f.history[i].Time.Add(-40 * time.Second)
	}
	return f
}

// nan is what JSON cannot say.
func nan() float64 { return math.NaN() }
