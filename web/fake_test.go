package web

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/errkind"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// fake is a daemon made of values; a test changes them under set.
type fake struct {
	mu        sync.Mutex
	status    admin.Status
	cgroups   []admin.Cgroup
	decisions []admin.Decision
	history   []admin.Point
	explain   func(string) (admin.Explanation, error)
	heat      func(string) (admin.Heat, error)
	made      time.Time // when history was true; it is moved along with the clock since
}

func (f *fake) set(change func(*fake)) { f.mu.Lock(); defer f.mu.Unlock(); change(f) }

func (f *fake) Status() admin.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Now = time.Now()
	return s
}

func (f *fake) Cgroups() []admin.Cgroup { f.mu.Lock(); defer f.mu.Unlock(); return f.cgroups }

func (f *fake) History() []admin.Point {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.made.IsZero() {
		return f.history
	}
	out := slices.Clone(f.history)
	for i := range out {
		out[i].Time = out[i].Time.Add(time.Since(f.made).Truncate(time.Second))
	}
	return out
}

func (f *fake) Decisions(cg string, limit int) []admin.Decision {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []admin.Decision
	for _, d := range f.decisions {
		if (cg == "" || d.Cgroup == cg) && len(out) < limit {
			out = append(out, d)
		}
	}
	return out
}

func (f *fake) Explain(cg string) (admin.Explanation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.explain != nil {
		return f.explain(cg)
	}
	for _, c := range f.cgroups {
		if c.Path != cg {
			continue
		}
		ex := admin.Explanation{Cgroup: c, Params: map[string]float64{
			"ratio": 0.005, "max_step": 0.01, "mem_pressure": 0.001, "io_pressure": 0.001, "refault_cost": 0.001, "hold": 3}}
		for _, d := range f.decisions {
			if d.Cgroup == cg {
				ex.Decisions = append(ex.Decisions, d)
			}
		}
		return ex, nil
	}
	return admin.Explanation{}, errkind.New(errkind.NotFound, "offload: explain: no cgroup %q", cg)
}

func (f *fake) Reload(context.Context) error { return nil }

// inputs are the signals of one decision; x is how near refault cost is to its target.
func inputs(mem, io, x float64) []admin.Input {
	return []admin.Input{{Signal: "mem-psi", Value: mem, Target: 0.001}, {Signal: "io-psi", Value: io, Target: 0.001}, {Signal: "refault-cost", Value: x * 0.001, Target: 0.001}}
}

func decision(at time.Time, cg, class string, usage int64, reason, signal string) admin.Decision {
	d := admin.Decision{Time: at, Cgroup: cg, Class: class, Law: "composite", Usage: usage, Reason: reason, Signal: signal}
	switch reason {
	case "steady", "eased":
		d.Step = usage / 200 / 4096 * 4096
		d.Reclaimed = d.Step - d.Step/16/4096*4096
		d.Took = admin.Duration(24 * time.Millisecond)
		d.Inputs = inputs(0.00012, 0.0002, 0.31)
		d.Detail = "all signals are below their targets; refault cost is at 31 % of its target"
	case "refault-cost":
		d.Inputs = inputs(0.0001, 0.0004, 1.7)
		d.Detail = "refaults cost 0.17 % of the period, target 0.10 %: nothing is taken and the last step is given time"
	case "hold":
		d.Inputs = inputs(0.0001, 0.0002, 0.5)
		d.Detail = "2 of 3 periods of rest after a brake"
	case "floor":
		d.Inputs = inputs(0, 0, 0)
		d.Detail = "usage is at the floor of 16 MiB"
	default:
		d.Inputs = inputs(0, 0, 0)
		d.Detail = "class off: nothing is taken"
	}
	return d
}

// demo is what the daemon of `make demo` looks like after 24 minutes: two redis twins of which one is
// offloaded, a sidecar with a cold heap, a batch job.
func demo() *fake {
	now := time.Now().Truncate(time.Second)
	f := &fake{made: now}
	const n = 240 // periods of 6 s
	r := rand.New(rand.NewPCG(7, 1))
	for i := range n {
		x := float64(i) / n
		cold := 330e6 * (1 - math.Exp(-4.2*x)) / (1 - math.Exp(-4.2))
		pool := cold * 0.31
		disk := 40e6 * max(0, x-0.45) / 0.55
		p := admin.Point{Time: now.Add(time.Duration(i-n+1) * 6 * time.Second),
			Resident: int64(1.13e9 - cold - disk + 6e6*r.Float64()), Stored: int64(cold), Pool: int64(pool), Disk: int64(disk),
			Saving:  int64(cold + disk - pool - 6e6),
			MemSome: 0.0004*r.Float64() + 0.002*math.Exp(-math.Pow((x-0.62)/0.012, 2)), IOSome: 0.001*r.Float64() + 0.009*math.Exp(-math.Pow((x-0.62)/0.015, 2))}
		f.history = append(f.history, p)
	}
	last := f.history[n-1]
	row := func(path, class string, managed bool, usage, zswap, disk int64) admin.Cgroup {
		c := admin.Cgroup{Path: path, Class: class, Managed: managed, Why: "below the root /kubepods", Usage: usage, Peak: usage + zswap + disk,
			Floor: 16 * mib, Anon: usage * 9 / 10, File: usage / 10, Offloaded: map[string]int64{}, PSI: true, MemSome: 0.00012, IOSome: 0.0003}
		if !managed {
			c.Why, c.PSI, c.PSIWhy = "outside the roots", false, "its tasks are in no cgroup2 directory of their own"
		}
		if zswap > 0 {
			c.Offloaded["zswap"] = zswap
		}
		if disk > 0 {
			c.Offloaded["swap:/var/lib/spillway/swapfile"] = disk
		}
		c.Saving = zswap*69/100 + disk
		return c
	}
	f.cgroups = []admin.Cgroup{
		row("/kubepods/online/redis-a", "latency", true, 289*mib, 124*mib, 11*mib),
		row("/kubepods/online/redis-b", "off", true, 421*mib, 0, 0),
		row("/kubepods/online/sidecar", "tax", true, 41*mib, 118*mib, 21*mib),
		row("/kubepods/offline/batch", "throughput", true, 62*mib, 72*mib, 6*mib),
		row("/system.slice/containerd.service", "latency", false, 88*mib, 0, 0),
		row("/system.slice/systemd-journald.service", "latency", false, 34*mib, 0, 0),
		row("/system.slice/ssh.service", "latency", false, 7*mib, 0, 0),
		row("/user.slice/user-1000.slice/session-4.scope", "latency", false, 214*mib, 0, 0),
	}
	f.cgroups[0].Refaults, f.cgroups[0].Faults = 3.4, 2.9
	f.cgroups[2].Refaults = 0.04
	f.cgroups[3].Refaults, f.cgroups[3].Faults, f.cgroups[3].IOSome = 18, 14, 0.0042
	for i := range 40 {
		at := now.Add(-time.Duration(i) * 6 * time.Second)
		a := "steady"
		switch {
		case i%11 == 5:
			a = "refault-cost"
		case i%11 > 1 && i%11 < 5:
			a = "hold"
		case i%3 == 0:
			a = "eased"
		}
		sig := map[string]string{"refault-cost": "refault-cost", "eased": "refault-cost"}[a]
		f.decisions = append(f.decisions,
			decision(at, f.cgroups[0].Path, "latency", f.cgroups[0].Usage, a, sig),
			decision(at, f.cgroups[3].Path, "throughput", f.cgroups[3].Usage, "steady", ""),
			decision(at, f.cgroups[2].Path, "tax", f.cgroups[2].Usage, "steady", ""))
	}
	for i := range 4 {
		if i == 1 {
			d := decision(now, f.cgroups[1].Path, "off", f.cgroups[1].Usage, "class-off", "")
			f.cgroups[1].Last = &d
			continue
		}
		for _, d := range f.decisions {
			if d.Cgroup == f.cgroups[i].Path {
				f.cgroups[i].Last = &d
				break
			}
		}
	}
	f.status = admin.Status{
		Version: "0.1.0", Commit: "8c1f0e7a9b24d3", PID: 4711, Started: now.Add(-25 * time.Minute), Node: "node-17", Kernel: "6.12.48",
		CgroupMode: "hybrid", Actuator: "limit-shrink", Law: "composite", Period: admin.Duration(6 * time.Second), Roots: []string{"/kubepods"},
		Will:    []string{"offload 4 cgroups below /kubepods by limit-shrink, at most 1 % of each a period of 6s", "observe every cgroup"},
		Wont:    []string{"touch cgroups outside the roots, its own cgroup (/system.slice/spillway.service), or a setting it did not make"},
		Managed: 4, Observed: 4, Advice: []string{"would save about 71 MiB; add roots: [/user.slice]"},
		Host: admin.Host{MemTotal: 8 * gib, MemAvailable: 5*gib + 310*mib, SwapTotal: 2 * gib, SwapUsed: last.Stored + last.Disk,
			PoolBytes: last.Pool, StoredBytes: last.Stored, SavingNet: last.Saving, PSI: true, MemSome: last.MemSome, IOSome: last.IOSome, DiskWritten: 46 * mib},
		Tiers: []admin.Tier{
			{Name: "zswap", Kind: "zswap", State: "active", Detail: "lzo, at most 20 % of memory", Size: 1638 * mib, Used: last.Pool, Stored: last.Stored,
				P50: admin.Duration(11 * time.Microsecond), P99: admin.Duration(84 * time.Microsecond), Compression: 3.2, MeasuredAt: now.Add(-12 * time.Minute)},
			{Name: "swap:/var/lib/spillway/swapfile", Kind: "file", State: "active", Detail: "behind zswap", Size: 2 * gib, Used: last.Disk, Stored: last.Disk,
				P50: admin.Duration(210 * time.Microsecond), P99: admin.Duration(3400 * time.Microsecond), MeasuredAt: now.Add(-12 * time.Minute), Ours: true},
		},
		Self: admin.Self{CPU: 0.004, WorkerCPU: 0.002, RSS: 24 * mib},
	}
	detail(f, now)
	return f
}

// crowd is a node with n managed cgroups of a Kubernetes' long names.
func crowd(n int) *fake {
	f := demo()
	r := rand.New(rand.NewPCG(3, 9))
	classes := []string{"latency", "throughput", "tax"}
	reasons := []string{"steady", "steady", "steady", "eased", "hold", "refault-cost", "floor"}
	f.cgroups, f.decisions = nil, nil
	for i := range n {
		qos := []string{"/kubepods/burstable", "/kubepods/besteffort", "/kubepods"}[i%3]
		path := fmt.Sprintf("%s/pod%08x-%04x-4%03x-8%03x-%012x/%016x%016x", qos, r.Uint32(), r.Uint32()&0xffff, r.Uint32()&0xfff, r.Uint32()&0xfff, r.Uint64()&0xffffffffffff, r.Uint64(), r.Uint64())
		usage := int64(math.Exp(13+9*r.Float64())) / 4096 * 4096
		z := int64(float64(usage) * r.Float64() * 0.6)
		d := decision(time.Now().Add(-time.Duration(i%7)*time.Second), path, classes[i%3], usage, reasons[r.IntN(len(reasons))], "")
		c := admin.Cgroup{Path: path, Class: classes[i%3], Managed: true, Why: "below the root /kubepods", Usage: usage, Peak: usage + z, Floor: 16 * mib,
			Anon: usage / 2, File: usage / 2, Offloaded: map[string]int64{"zswap": z}, Saving: z * 7 / 10, PSI: i%5 != 0, MemSome: r.Float64() * 0.002, IOSome: r.Float64() * 0.004, Refaults: r.Float64() * 40, Last: &d,
			Mix: "weighs 120 of 200 towards anonymous memory: a MiB freed has cost 210 µs of it, 1.1 ms of file cache", Incompressible: i%97 == 0}
		if !c.PSI {
			c.PSIWhy = "its tasks are in no cgroup2 directory of their own"
		}
		f.cgroups = append(f.cgroups, c)
		if i < 200 {
			f.decisions = append(f.decisions, d)
		}
	}
	f.status.Managed, f.status.Observed = n, 0
	return f
}

// hostile are names a cgroup can really have, and one no document survives that takes them for markup.
var hostile = []string{
	`/kubepods/<img src=x onerror="window.pwned=1">`,
	`/kubepods/"><script>window.pwned=1</script>`,
	"/kubepods/a\nb\tc\x1b[31mred",
	"/kubepods/\u202etxt.exe\u2066",
	"/kubepods/bad\xff\xfeutf8",
	"/kubepods/' onclick='window.pwned=1",
	"/kubepods/{{.Version}}${window.pwned=1}",
}

func hostileNames() *fake {
	f := demo()
	long := "/kubepods/" + string(make([]byte, 0))
	for range 1000 {
		long += "abc/"
	}
	for i, p := range append(hostile, long) {
		c := f.cgroups[0]
		c.Path, c.Class, c.Saving = p, `la<b>tency`, 900*mib-int64(i)*mib
		slo := *c.SLO
		slo.Source, slo.Why, slo.State, slo.StateWhy = `redis <img src=x onerror="window.pwned=1">`, "<b>why</b>\u202e", "bad<i>", "a\nb"
		c.SLO, c.Mix, c.Incompressible = &slo, `weighs <script>window.pwned=1</script>`, true
		d := *c.Last
		d.Cgroup, d.Detail, d.Reason = p, `<img src=x onerror="window.pwned=1">`, `steady<i>`
		c.Last = &d
		f.cgroups = append(f.cgroups, c)
		f.decisions = append([]admin.Decision{d}, f.decisions...)
	}
	f.status.Advice = []string{`add roots: [<script>window.pwned=1</script>]`}
	f.status.Tiers[1].Name = `swap:/<svg onload=window.pwned=1>`
	f.status.Endurance.Drives[0].Device, f.status.Endurance.Drives[0].Forecast = "<b>sda</b>", `<img src=x onerror="window.pwned=1">`
	f.status.Can[0], f.status.PSIShareWhy = `<svg onload=window.pwned=1>`, `<i>why</i>`
	f.heat = func(cg string) (admin.Heat, error) {
		h := curve(cg, 300*mib, time.Now())
		h.Source = `<img src=x onerror="window.pwned=1">`
		return h, nil
	}
	f.status.Paused = `because <b>host</b>`
	f.status.Node = `<i>node</i>`
	return f
}
