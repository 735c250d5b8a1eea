package top

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/errkind"
)

// TestMain makes the test binary a demonstration on a terminal when SPILLWAY_TOP_FAKE names a number of
// cgroups: SPILLWAY_TOP_FAKE=40 ./top.test
func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv("SPILLWAY_TOP_FAKE")); err == nil {
		f := newFake(n)
		f.live = true
		if err := Run(context.Background(), Config{Client: f, In: os.Stdin, Out: os.Stdout, Env: os.Environ()}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fake is a daemon with n cgroups whose figures are a function of their index.
type fake struct {
	n     int
	down  atomic.Bool
	calls atomic.Int64
	live  bool // figures move, and the daemon is away for ten of every forty seconds
	zero  time.Time
}

func newFake(n int) *fake {
	return &fake{n: n, zero: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
}

const mib = int64(1) << 20

func (f *fake) now() time.Time {
	if f.live {
		return time.Now()
	}
	return f.zero
}

func (f *fake) check() error {
	f.calls.Add(1)
	if f.down.Load() || f.live && time.Now().Second()%40 > 30 {
		return errkind.Hint(errkind.New(errkind.Unavailable, "admin: no daemon answers at /run/spillway/admin.sock: connection refused"), "start it: spillway up")
	}
	return nil
}

func (f *fake) Status(context.Context) (admin.Status, error) {
	return admin.Status{
		Version: "0.1.0", PID: 4711, Started: f.zero, Now: f.now(), Kernel: "6.12.9", CgroupMode: "hybrid",
		Actuator: "limit-shrink", Law: "composite", Period: admin.Duration(6 * time.Second), Roots: []string{"/kubepods"},
		Managed: f.n / 2, Observed: f.n - f.n/2,
		Host: admin.Host{MemTotal: 16384 * mib, MemAvailable: 9216*mib + 77777, SwapTotal: 4096 * mib, SwapUsed: 811 * mib,
			PoolBytes: 271 * mib, StoredBytes: 811 * mib, SavingNet: 540 * mib, PSI: true, MemSome: 0.0012, IOSome: 0.034},
		Endurance: &admin.Endurance{Budget: 80 << 30, Price: 0.12, Left: 501 * mib, Drives: []admin.Drive{{Device: "nvme0n1"}}},
		Tiers: []admin.Tier{
			{Name: "zswap", Kind: "zswap", State: "active", P50: admin.Duration(9400), P99: admin.Duration(41 * time.Microsecond), Compression: 3},
			{Name: "swap:/var/lib/spillway/swap", Kind: "file", State: "available", P50: admin.Duration(212 * time.Microsecond), P99: admin.Duration(3 * time.Millisecond)},
		},
	}, f.check()
}

func (f *fake) Cgroups(context.Context) ([]admin.Cgroup, error) {
	out := make([]admin.Cgroup, f.n)
	for i := range out {
		out[i] = f.cgroup(i)
	}
	return out, f.check()
}

func (f *fake) cgroup(i int) admin.Cgroup {
	classes := []string{"latency", "throughput", "tax"}
	c := admin.Cgroup{
		Path:  fmt.Sprintf("/kubepods/burstable/pod%08x-77aa-4e1b/%s-%d", i*2654435761%0xffffffff, []string{"redis", "api", "batch", "sidecar"}[i%4], i),
		Class: classes[i%3], Managed: i%2 == 0, Why: "Kubernetes QoS burstable",
		Usage: int64(300-i%200) * mib, Peak: 405*mib + 300*1024, Floor: 16 * mib, Anon: 200 * mib, File: 90 * mib,
		PSI: i%4 == 0, PSIWhy: "its tasks sit in the root of the cgroup2 hierarchy",
		MemSome: float64(i%7) / 1000, IOSome: float64(i%5) / 900, Refaults: float64(i%90) / 3, Faults: float64(i%20) / 4,
	}
	if !c.Managed {
		c.Why = "outside the roots"
		return c
	}
	c.Offloaded = map[string]int64{"zswap": int64(100-i%90)*mib + 4096, "swap:/var/lib/spillway/swap": int64(i%9) * mib}
	c.Saving = offloaded(&c) * 2 / 3
	d := admin.Decision{Time: f.now(), Cgroup: c.Path, Class: c.Class, Law: "composite", Usage: c.Usage, Reason: "steady",
		Step: 3*mib + 512*1024, Reclaimed: 3 * mib, Took: admin.Duration(24 * time.Millisecond),
		Detail: "all signals below target: 1.0 % of 300 MiB",
		Inputs: []admin.Input{{Signal: "mem-psi", Value: 0.0004, Target: 0.001}, {Signal: "refault-cost", Value: 0.0001, Target: 0.001}}}
	switch i % 6 {
	case 2:
		d.Step, d.Reclaimed, d.Reason, d.Signal, d.Detail = 0, 0, "refault-cost", "refault-cost", "refaults cost 0.34 % of the period, target 0.10 %"
	case 4:
		d.Error = "worker: shrink: cgroup vanished"
	}
	c.Last = &d
	c.Mix, c.Written = "weighs 120 of 200 towards anonymous memory: the cost of one kind is not known", int64(i)*mib
	c.Incompressible = i%10 == 2
	if i%4 == 0 {
		c.SLO = &admin.SLO{Cgroup: c.Path, Source: "redis PING at 127.0.0.1:6379", State: "good", P99: admin.Duration(1430 * time.Microsecond),
			MaxP99: admin.Duration(2 * time.Millisecond), Multiplier: 1.41421, Blocks: 118, Holds: i%8 == 4}
	}
	return c
}

func (f *fake) History(context.Context) ([]admin.Point, error) {
	var ps []admin.Point
	for i := range 120 {
		ps = append(ps, admin.Point{Time: f.now().Add(time.Duration(i-120) * 6 * time.Second), Saving: int64(i*i/30+i%7*3) * mib})
	}
	return ps, f.check()
}

func (f *fake) Explain(_ context.Context, path string) (admin.Explanation, error) {
	for i := range f.n {
		if c := f.cgroup(i); c.Path == path {
			e := admin.Explanation{Cgroup: c, Params: map[string]float64{"ratio": 0.0005, "mem_pressure": 0.001, "hold_periods": 10}}
			if c.Last != nil {
				for k := range 30 {
					d := *c.Last
					d.Time = d.Time.Add(-time.Duration(k) * 6 * time.Second)
					e.Decisions = append(e.Decisions, d)
				}
			}
			return e, f.check()
		}
	}
	return admin.Explanation{}, errkind.New(errkind.NotFound, "offload: no cgroup %q", path)
}
