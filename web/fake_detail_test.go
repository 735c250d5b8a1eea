package web

import (
	"net/http"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/errkind"
)

// Heat answers for managed cgroups like a daemon that tracks access; heat replaces it.
func (f *fake) Heat(cg string) (admin.Heat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.heat != nil {
		return f.heat(cg)
	}
	for _, c := range f.cgroups {
		switch {
		case c.Path != cg:
		case !c.Managed:
			return admin.Heat{}, errkind.Hint(errkind.New(errkind.Unsupported, "offload: %q is only observed (%s), and access is tracked for managed cgroups", cg, c.Why),
				"add it to offload.roots, or watch it yourself: spillway offload heat CGROUP --for 2m")
		default:
			return curve(c.Path, c.Usage, time.Now().Add(-40*time.Second)), nil
		}
	}
	return admin.Heat{}, errkind.New(errkind.NotFound, "offload: no cgroup %q", cg)
}

// curve is a reading after 24 minutes of watching.
func curve(cg string, usage int64, at time.Time) admin.Heat {
	h := admin.Heat{Cgroup: cg, Time: at, Source: "idle-bitmap", Span: admin.Duration(24 * time.Minute), Scan: admin.Duration(2 * time.Minute),
		Seen: usage, WorkingSet: usage * 31 / 100, ScanCPU: admin.Duration(4200 * time.Microsecond)}
	for _, p := range []struct{ minutes, percent int64 }{{1, 74}, {2, 69}, {5, 58}, {15, 33}, {60, 0}} {
		h.Curve = append(h.Curve, admin.HeatPoint{Idle: admin.Duration(time.Duration(p.minutes) * time.Minute), Bytes: usage * p.percent / 100, Known: p.minutes < 60})
	}
	return h
}

// Recommend answers for managed cgroups.
func (f *fake) Recommend(cg string) (out []admin.Recommendation, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.cgroups {
		if c.Path != cg {
			continue
		}
		if !c.Managed {
			return nil, errkind.Hint(errkind.New(errkind.Unavailable, "offload: nothing to recommend for %q: it is only observed: %s", cg, c.Why),
				"put it below a root; a dry run is enough to watch it, but only taking memory shows what is needed")
		}
		out = append(out, admin.Recommendation{Cgroup: cg, Class: c.Class, Resources: admin.Resources{Requests: admin.Requests{Memory: "332Mi"}},
			Request: 332 * mib, UpperBound: true, Usage: c.Peak, Need: 302 * mib, Safe: 289 * mib, Floor: c.Floor, Saving: c.Saving, RefaultCost: 0.0004,
			Watched: admin.Duration(25 * time.Minute), Resting: admin.Duration(9 * time.Minute), Confidence: 0.62, Level: "medium",
			Why: "it has rested for 9m of the 25m it was watched", Raise: "watch it for a day, so that its busy hours are in it"})
	}
	if out == nil {
		return nil, errkind.New(errkind.NotFound, "offload: no cgroup %q", cg)
	}
	return out, nil
}

// detail gives a fake what a daemon knows besides sizes: service levels, wear, and what its kernel can do.
func detail(f *fake, now time.Time) {
	f.cgroups[0].Mix = "weighs 120 of 200 towards anonymous memory: a MiB freed has cost 210 µs of it, 1.1 ms of file cache"
	f.cgroups[0].Written = 19 * mib
	f.cgroups[0].SLO = &admin.SLO{Cgroup: f.cgroups[0].Path, Source: "redis GET probe at 127.0.0.1:6379", State: "good",
		P50: admin.Duration(210 * time.Microsecond), P99: admin.Duration(1430 * time.Microsecond), Requests: 594, MaxP99: admin.Duration(2 * time.Millisecond), MaxInflation: 1.1,
		Multiplier: 1.41421, Why: "raised a notch: even the upper bound leaves the SLO with a margin", Blocks: 118, Pairs: 52,
		PerMiB: &admin.Interval{Estimate: 0.47, Low: new(-0.12), High: new(1.06)}, PerPermille: &admin.Interval{Estimate: 12.2, Low: new(3.1)},
		Inflation: &admin.Interval{Estimate: 1.031, Low: new(0.994), High: new(1.07)}}
	f.cgroups[3].Mix = "takes file cache only: its pages do not shrink and there is only a pool"
	f.cgroups[3].Incompressible = true
	f.status.PSIShare, f.status.PSIShareWhy = new(0.41), "measured in its own cgroup2 directory"
	f.status.FileRefault = &admin.FileRefault{Dir: "/var/lib/spillway", FileSystem: "ext4", P50: admin.Duration(81 * time.Microsecond),
		P99: admin.Duration(240 * time.Microsecond), InOrder: admin.Duration(1400), MeasuredAt: now, Note: "what was just written may still be in the drive's cache"}
	f.status.Can = []string{"weigh file cache against anonymous memory at each step (memory.reclaim swappiness=, by the kernel's version)",
		"keep a cgroup whose pages do not shrink out of the pool (memory.zswap.max)", "let the kernel move what is long cold from the pool to the disk (zswap shrinker_enabled: off)"}
	f.status.Cannot = []string{"take anonymous memory and nothing else (memory.reclaim swappiness=max, Linux 6.16 with cgroup v2)"}
	f.status.Will = append(f.status.Will, "be able to "+f.status.Can[0])
	f.status.Endurance = &admin.Endurance{Budget: 80 * gib, Rating: 600 * 1000 * 1000 * 1000 * 1000, Price: 0.12, Left: 501 * mib, Written: 46 * mib, Drives: []admin.Drive{{
		Device: "nvme0n1", Written: 3*gib + 210*mib, Since: now.Add(-31 * time.Hour), Ten: 72 << 10, Hour: 61 << 10, Day: 1.1e6, Years: 17.3,
		Forecast: "at the rate of the last day nvme0n1 lasts 17.3 years"}}}
}

// stopped has written what it may.
func stopped() *fake {
	f := demo()
	f.status.Endurance.Price, f.status.Endurance.Left, f.status.Endurance.Whole = 1, 0, true
	f.status.Endurance.Drives[0].Years, f.status.Endurance.Drives[0].Forecast = 0, "no forecast for nvme0n1: its rating is not known: set offload.endurance.tbw"
	return f
}

// older is a daemon from before it knew any of this: the fields are missing and the pages are not there.
func older() *fake {
	f := demo()
	for i := range f.cgroups {
		c := &f.cgroups[i]
		c.SLO, c.Mix, c.Incompressible, c.Written = nil, "", false, 0
	}
	s := &f.status
	s.PSIShare, s.PSIShareWhy, s.FileRefault, s.Can, s.Cannot, s.Endurance = nil, "", nil, nil, nil, nil
	return f
}

// without answers 404 to what an older daemon does not have.
func without(h http.Handler, pages ...string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	for _, p := range pages {
		mux.HandleFunc(p, func(w http.ResponseWriter, r *http.Request) {
			admin.WriteError(w, errkind.New(errkind.NotFound, "admin: no such page: %s", r.URL.Path))
		})
	}
	return mux
}
