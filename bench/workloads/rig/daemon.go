package rig

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/offload/class"
)

const (
	// Period is the compressed time scale of all experiments; a production period is 6 s or more.
	Period = time.Second
	// Ratio is the share of a cgroup that may go in a period: the cap.
	Ratio = 0.01
	// swapSize holds everything that any experiment can offload, twice.
	swapSize = 2 << 30
)

// Setup is what does not change while a daemon runs.
type Setup struct {
	Law string // what the daemon's configuration names
	// Baseline is a law that the product does not know; the agent then runs in a process of this program. "": none.
	Baseline string
	// MaxPool is zswap's max_pool_percent; 0 leaves it.
	MaxPool int
	// Disk has pages go to the swap device itself, with the kernel's readahead of eight, instead of to the compressed
	// pool.
	Disk  bool
	Ratio float64 // of every class, per period, (0,0.01]; 0: Ratio
	// Targets are further parameters of class latency, "name: value" each.
	Targets []string
	// SLO is the list of offload.slo in YAML, each line with the indentation of a part of offload; "": none.
	SLO string
}

// Daemon is the agent under test: the real `spillway up`, or the same agent in this program for a baseline.
type Daemon struct {
	rig       *Rig
	setup     Setup
	proc      *Process
	admin     *admin.Client
	config    string // path
	log       string // path
	collected time.Time

	mu sync.Mutex
	// +checklocks:mu
	decisions map[decisionKey]admin.Decision
}

type decisionKey struct {
	cgroup string
	at     int64
}

// StartDaemon starts it with every member off and waits until it answers and has measured its first tier.
func (r *Rig) StartDaemon(ctx context.Context, s Setup) (*Daemon, error) {
	d := &Daemon{
		rig: r, setup: s, config: filepath.Join(r.Tmp(), "spillway.yaml"), log: filepath.Join(r.Tmp(), "node.log"),
		decisions: map[decisionKey]admin.Decision{},
	}
	if err := d.writeConfig(nil); err != nil {
		return nil, err
	}
	socket := filepath.Join(r.Tmp(), "admin.sock")
	sp := Spec{Name: "spillway up", Log: d.log, OnDeath: sys.SIGTERM} // it has something to undo
	if s.Baseline == "" {
		sp.Args = []string{r.cfg.Exe, "up", "--config", d.config, "--socket", socket, "--state-dir", r.cfg.nodeDir()}
	} else {
		sp.Part = []string{AgentPart}
		sp.Task = AgentTask{Config: d.config, Socket: socket, StateDir: r.cfg.nodeDir(), Exe: r.cfg.Exe, Law: s.Baseline}
	}
	var err error
	if d.proc, err = r.Start(sp); err != nil {
		return nil, err
	}
	r.daemon = d
	d.admin = admin.Dial(socket)
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	for {
		st, err := d.admin.Status(ctx)
		if err == nil && measured(st) {
			return d, nil
		}
		select {
		case <-d.proc.Done:
			return nil, fmt.Errorf("rig: the daemon ended at once (%v): %s", d.proc.Err, d.logTail())
		case <-ctx.Done():
			return nil, fmt.Errorf("rig: wait for the daemon: %w (last answer: %v): %s", context.Cause(ctx), err, d.logTail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// PID is the process number of the daemon, which ends with it.
func (d *Daemon) PID() int { return d.proc.PID() }

// measured says whether the canary has been through the tier that pages go to first.
func measured(s admin.Status) bool {
	for _, t := range s.Tiers {
		if t.State == "active" && !t.MeasuredAt.IsZero() {
			return true
		}
	}
	return false
}

func (d *Daemon) logTail() string {
	b, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], " | ")
}

// writeConfig replaces the configuration file. A member that on does not name is off.
func (d *Daemon) writeConfig(on map[string]class.Class) error {
	areas, err := proc.ReadSwaps("/")
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "listen: \"off\"\noffload:\n  roots: [%q]\n  period: %v\n  law: %s\n  classes:\n", root, Period, d.setup.Law)
	for _, m := range d.rig.members {
		fmt.Fprintf(&b, "    - match: %q\n      class: %q\n", m.Path, cmp.Or(on[m.Name], class.Off))
	}
	b.WriteString("  params:\n")
	for _, k := range []class.Class{class.Tax, class.Latency, class.Throughput} {
		fmt.Fprintf(&b, "    %s:\n      ratio: %v\n", k, cmp.Or(d.setup.Ratio, Ratio))
		if k == class.Latency {
			for _, t := range d.setup.Targets {
				fmt.Fprintf(&b, "      %s\n", t)
			}
		}
	}
	b.WriteString(d.setup.SLO)
	if d.setup.Disk {
		b.WriteString("  tiers:\n    zswap: \"off\"\n    page_cluster: 3\n")
	} else {
		b.WriteString("  tiers:\n    zswap: \"on\"\n    page_cluster: 0\n")
	}
	if d.setup.MaxPool > 0 {
		fmt.Fprintf(&b, "    max_pool_percent: %d\n", d.setup.MaxPool)
	}
	ours := len(areas) == 1 && areas[0].Path == d.rig.cfg.swapPath()
	if len(areas) == 0 || ours {
		fmt.Fprintf(&b, "    swap_file:\n      path: %s\n      size: %v\n", d.rig.cfg.swapPath(), bytesize.Size(swapSize))
	}
	if err := os.WriteFile(d.config+".new", []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("rig: write configuration: %w", err)
	}
	if err := os.Rename(d.config+".new", d.config); err != nil {
		return fmt.Errorf("rig: write configuration: %w", err)
	}
	return nil
}

// Apply rewrites the configuration and has the daemon read it, as an administrator would. Keys are members' names.
func (d *Daemon) Apply(ctx context.Context, on map[string]class.Class) error {
	if err := d.writeConfig(on); err != nil {
		return err
	}
	if err := d.admin.Reload(ctx); err != nil {
		return fmt.Errorf("rig: have the daemon reload: %w", err)
	}
	return nil
}

// Collect keeps the newest decisions, so that none is lost when the daemon's ring wraps; once in 10 s is enough.
func (d *Daemon) Collect(ctx context.Context) error {
	d.collected = time.Now()
	rows, err := d.admin.Cgroups(ctx)
	if err != nil {
		return fmt.Errorf("rig: ask for cgroups: %w", err)
	}
	for _, row := range rows {
		if !strings.HasPrefix(row.Path, root+"/") {
			continue
		}
		ds, err := d.admin.Decisions(ctx, row.Path, 60)
		if errkind.Of(err) == errkind.NotFound {
			continue
		}
		if err != nil {
			return fmt.Errorf("rig: ask for decisions: %w", err)
		}
		d.mu.Lock()
		for _, x := range ds {
			d.decisions[decisionKey{x.Cgroup, x.Time.UnixNano()}] = x
		}
		d.mu.Unlock()
	}
	return nil
}

// Decided counts the decisions about m and the cgroups below it in [from,to] by reason, and what they took.
func (d *Daemon) Decided(m *Member, from, to time.Time) (byReason map[string]int, steps int, taken int64) {
	byReason = map[string]int{}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.decisions {
		if x.Time.Before(from) || x.Time.After(to) || x.Cgroup != m.Path && !strings.HasPrefix(x.Cgroup, m.Path+"/") {
			continue
		}
		byReason[x.Reason]++
		if x.Step > 0 {
			steps++
			taken += x.Reclaimed
		}
	}
	return byReason, steps, taken
}

// Alive collects when it is time, and says whether the daemon, the worker and the recorder live.
func (r *Rig) Alive(ctx context.Context) error {
	select {
	case <-r.worker.Dead():
		return fmt.Errorf("rig: the rig's own worker process ended")
	default:
	}
	if r.rec != nil {
		if err := r.rec.Err(); err != nil {
			return fmt.Errorf("rig: watch the cgroups: %w", err)
		}
	}
	if d := r.daemon; d != nil {
		if err := d.proc.Ended(); err != nil {
			return fmt.Errorf("%w: %s", err, d.logTail())
		}
		if time.Since(d.collected) >= 10*time.Second {
			return d.Collect(ctx)
		}
	}
	return nil
}

// Stop ends the daemon as a service manager would and waits until it has undone its changes.
func (d *Daemon) Stop() error {
	d.rig.daemon = nil
	if err := d.proc.Stop(100 * time.Second); err != nil {
		return fmt.Errorf("rig: stop the daemon: %w: %s", err, d.logTail())
	}
	return nil
}
