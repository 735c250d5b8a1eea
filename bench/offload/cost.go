package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/testkit/herd"
)

// cost measures what the daemon costs at 200 managed cgroups and a period of one second: processor time of
// daemon and worker from /proc/PID/stat, and resident memory. Each cgroup holds 24 MiB, most of
// it cold, so that the daemon samples, decides and takes steps for all of them during the measurement.
func (b *bench) cost(ctx context.Context) (map[string]Goal, error) {
	const cgroups = 200
	t, err := plant(ctx, cgroups, 24, 10)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	m, err := b.watch(ctx, t, cgroups, "4MiB")
	if err != nil {
		return nil, err
	}
	g := goal("daemon at 200 cgroups and 1 s period", "% of one core", "<= 1.5", m.daemon, atMost(1.5))
	w := goal("its worker meanwhile (kernel reclaim included)", "% of one core", "reported", m.worker, func(float64) bool { return true })
	g.Extra = map[string]float64{"worker_percent": w.Value, "recent_decisions": float64(m.decisions)}
	return map[string]Goal{
		"G3":  g,
		"G3b": goal("daemon's resident memory", "MiB", "<= 40", m.rss, atMost(40)),
		"G3c": w,
	}, nil
}

// crowd measures the same at 2,000 cgroups of 4 MiB, which get a turn every fifth second each.
func (b *bench) crowd(ctx context.Context) (map[string]Goal, error) {
	const cgroups = 2000
	t, err := herd.New("bench")
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if err := t.AddCrowd(ctx, cgroups, 4); err != nil {
		return nil, err
	}
	m, err := b.watch(ctx, t, cgroups, "1MiB")
	if err != nil {
		return nil, err
	}
	g := goal("daemon at 2,000 cgroups and 1 s period", "% of one core", "<= 5", m.daemon, atMost(5))
	g.Extra = map[string]float64{"recent_decisions": float64(m.decisions), "rss_mib": goal("", "", "", m.rss, atMost(0)).Value}
	return map[string]Goal{"G10": g}, nil
}

// costs are the windows of one measurement: per cent of a core, MiB.
type costs struct {
	daemon, worker, rss []float64
	decisions           int
}

// watch starts the daemon on t and measures it from ten seconds after its start.
func (b *bench) watch(ctx context.Context, t *herd.Herd, cgroups int, floor string) (m costs, err error) {
	runs, window := 5, 20*time.Second
	if b.quick {
		runs, window = 2, 10*time.Second
	}
	dir, err := os.MkdirTemp("/var/tmp", "spillway-bench-")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	d, err := b.up(ctx, t, dir, "  floor: "+floor+"\n"+swapTiers(dir, "6GiB"))
	if err != nil {
		return m, err
	}
	defer d.stop()
	st, err := d.client.Status(ctx)
	if err != nil {
		return m, err
	}
	if st.Managed != cgroups {
		return m, fmt.Errorf("the daemon manages %d cgroups, not %d", st.Managed, cgroups)
	}
	worker, err := childOf(d.cmd.Process.Pid)
	if err != nil {
		return m, err
	}
	select { // the canary and the first scan are start-up cost
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
		return m, context.Cause(ctx)
	}
	for range runs {
		before, err := costOf(d.cmd.Process.Pid, worker)
		if err != nil {
			return m, err
		}
		at := time.Now()
		select {
		case <-time.After(window):
		case <-ctx.Done():
			return m, context.Cause(ctx)
		}
		secs := time.Since(at).Seconds()
		after, err := costOf(d.cmd.Process.Pid, worker)
		if err != nil {
			return m, err
		}
		m.daemon = append(m.daemon, 100*(after.daemon-before.daemon).Seconds()/secs)
		m.worker = append(m.worker, 100*(after.worker-before.worker).Seconds()/secs)
		m.rss = append(m.rss, float64(after.rss)/(1<<20))
		last := len(m.rss) - 1
		fmt.Printf("  daemon %.2f %%, worker %.2f %% of one core, %.1f MiB\n", m.daemon[last], m.worker[last], m.rss[last])
	}
	recent, err := d.client.Decisions(ctx, "", 512)
	m.decisions = len(recent)
	return m, err
}

// swapTiers asks the daemon for a swap file with zswap in front.
func swapTiers(dir, size string) string {
	return fmt.Sprintf("  tiers:\n    zswap: \"on\"\n    page_cluster: 0\n    swap_file: {path: %s/swap, size: %s}\n", dir, size)
}

// cost is what daemon and worker have used so far, and what the daemon resides in now (bytes).
type cost struct {
	daemon, worker time.Duration
	rss            int64
}

// costOf fails when either process is gone: a dead daemon must not look cheap.
func costOf(daemon, worker int) (c cost, err error) {
	if c.daemon, err = cpu(daemon); err != nil {
		return c, err
	}
	if c.worker, err = cpu(worker); err != nil {
		return c, err
	}
	c.rss, err = rssOf(daemon)
	return c, err
}

// cpu is the processor time pid has used, user and system.
func cpu(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	if !ok || len(f) < 13 {
		return 0, fmt.Errorf("process %d: stat %q not understood", pid, stat)
	}
	var ticks int64
	for _, s := range f[11:13] { // utime and stime, in clock ticks of 10 ms
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

func rssOf(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no resident size: it has ended", pid)
}

// childOf finds the worker of a daemon: its only child called "worker".
func childOf(pid int) (int, error) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range all {
		p, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(rest)
		if len(f) < 2 || f[1] != strconv.Itoa(pid) {
			continue
		}
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p))
		if strings.Contains(string(args), "\x00worker\x00") {
			return p, nil
		}
	}
	return 0, fmt.Errorf("no worker below process %d", pid)
}
