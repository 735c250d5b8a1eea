package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spillway-io/spillway/internal/testkit/herd"
)

// kills ends the daemon with SIGKILL at random instants while it takes steps from eight busy cgroups, and
// daemon and worker together at others. After each, every knob must be as before and every workload alive.
// Limits must be back within a second of the daemon's death; the swap file may take longer, because its pages
// must come back first. When both died, `spillway restore` is what restores, as ExecStopPost would.
func (b *bench) kills(ctx context.Context) (map[string]Goal, error) {
	if b.quick {
		return b.killed(ctx, "G4", 10, 5, 7)
	}
	return b.killed(ctx, "G4", 50, 20, 7)
}

// manyKills is the same 200 times, at other instants.
func (b *bench) manyKills(ctx context.Context) (map[string]Goal, error) {
	if b.quick {
		return b.killed(ctx, "G9", 3, 2, 9)
	}
	return b.killed(ctx, "G9", 150, 50, 9)
}

// killed kills the daemon single times and both processes double times; the instants depend on seed.
func (b *bench) killed(ctx context.Context, name string, single, double int, seed uint64) (map[string]Goal, error) {
	rng := rand.New(rand.NewPCG(seed, seed))
	t, err := plant(ctx, 8, 48, 30)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	before, err := t.Knobs()
	if err != nil {
		return nil, err
	}
	var slowest []float64
	leftovers, dead := 0, 0
	for i := range single + double {
		dir, err := os.MkdirTemp("/var/tmp", "spillway-bench-")
		if err != nil {
			return nil, err
		}
		both := i >= single
		back, left, err := b.killOnce(ctx, t, dir, before, both, time.Duration(rng.Int64N(int64(2500*time.Millisecond))))
		os.RemoveAll(dir)
		if err != nil {
			return nil, fmt.Errorf("kill %d: %w", i+1, err)
		}
		for _, l := range left {
			fmt.Printf("  kill %d left %s\n", i+1, l)
		}
		leftovers += len(left)
		if !both {
			slowest = append(slowest, back.Seconds())
		}
		if n := t.Alive(); n != len(t.Paths()) {
			dead = len(t.Paths()) - n
			break
		}
	}
	bad := goal("knobs not restored or workloads dead after kill -9", "count", "0", []float64{float64(leftovers + dead)}, func(v float64) bool { return v == 0 })
	bad.Extra = map[string]float64{"daemon_kills": float64(single), "daemon_and_worker_kills": float64(double)}
	return map[string]Goal{
		name:       bad,
		name + "b": goal("limits back after the daemon's death", "s", "<= 1 each", slowest, func(float64) bool { return maxOf(slowest) <= 1 }),
	}, nil
}

func maxOf(v []float64) (m float64) {
	for _, x := range v {
		m = max(m, x)
	}
	return m
}

func (b *bench) killOnce(ctx context.Context, t *herd.Herd, dir string, before map[string]string, both bool, after time.Duration) (back time.Duration, left []string, err error) {
	d, err := b.up(ctx, t, dir, "  floor: 4MiB\n"+swapTiers(dir, "512MiB"))
	if err != nil {
		return 0, nil, err
	}
	defer d.log.Close()
	worker, err := childOf(d.cmd.Process.Pid)
	if err != nil {
		return 0, nil, err
	}
	select {
	case <-time.After(after):
	case <-ctx.Done():
	}
	if both {
		_ = syscall.Kill(worker, syscall.SIGKILL)
	}
	_ = d.cmd.Process.Kill()
	died := time.Now()
	_ = d.cmd.Wait()
	if both {
		herd.Eventually(ctx, 5*time.Second, func() bool { return !herd.Running(worker) })
		out, err := exec.CommandContext(ctx, b.exe, "restore", "--state-dir", dir+"/state").CombinedOutput()
		if err != nil {
			return 0, nil, fmt.Errorf("restore: %w: %s", err, out)
		}
	}
	changed := func(swap bool) []string {
		now, err := t.Knobs()
		if err != nil {
			return []string{err.Error()}
		}
		var out []string
		for _, d := range herd.Differences(before, now) {
			if swap || !strings.HasPrefix(d, "/proc/swaps") {
				out = append(out, d)
			}
		}
		return out
	}
	herd.Eventually(ctx, 10*time.Second, func() bool { return len(changed(false)) == 0 })
	back = time.Since(died)
	herd.Eventually(ctx, 30*time.Second, func() bool { return len(changed(true)) == 0 })
	// The worker must be gone too, or the next daemon would be refused.
	herd.Eventually(ctx, 30*time.Second, func() bool { return !herd.Running(worker) })
	left = changed(true)
	if _, err := os.Stat(dir + "/swap"); err == nil {
		left = append(left, dir+"/swap still exists")
	}
	return back, left, nil
}
