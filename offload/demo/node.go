package demo

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/demo/child"
)

// node is the daemon under demonstration: the real program, its configuration file and its admin socket.
type node struct {
	proc      *child.Process
	admin     *admin.Client
	config    string // path
	log       string // path
	listen    string
	dashboard string
	commit    string
	tiers     string // the configuration's tiers part
	rig       *rig

	collected time.Time // owned by the experiment's goroutine

	mu sync.Mutex
	// +checklocks:mu
	decisions map[decisionKey]admin.Decision
}

type decisionKey struct {
	cgroup string
	at     int64
}

// setting is what a configuration says about who is offloaded how.
type setting struct {
	law     string
	classes map[string]class.Class // by member's path; what is not named is off
	floor   int64                  // bytes; zero is the default
}

// startNode writes the configuration, starts the daemon and waits until it answers and has measured its tiers.
func (r *rig) startNode(ctx context.Context, s setting) (err error) {
	n := &node{
		rig: r, config: filepath.Join(r.tmp, "spillway.yaml"), log: filepath.Join(r.tmp, "node.log"),
		decisions: map[decisionKey]admin.Decision{},
	}
	if n.tiers, err = r.tiers(); err != nil {
		return err
	}
	n.listen = freeListen(r.cfg.Listen)
	if err := n.writeConfig(s); err != nil {
		return err
	}
	socket := filepath.Join(r.tmp, "admin.sock")
	n.proc, err = r.spawn.Start(child.Spec{
		Name: "spillway up", Log: n.log, OnDeath: sys.SIGTERM,
		Args: []string{r.cfg.Exe, "up", "--config", n.config, "--socket", socket, "--state-dir", r.cfg.nodeDir()},
	})
	if err != nil {
		return err
	}
	r.node = n
	n.admin = admin.Dial(socket)
	ctx, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	for {
		st, err := n.admin.Status(ctx)
		if err == nil && measured(st) {
			n.dashboard, n.commit = st.Dashboard, st.Commit
			r.show.note("watch it live: " + cmp.Or(n.dashboard, "no dashboard"))
			for _, t := range st.Tiers {
				if t.MeasuredAt.IsZero() {
					continue
				}
				r.show.note(fmt.Sprintf("tier %s: a page comes back in %v (p50), %v (p99); %.1f:1",
					t.Name, time.Duration(t.P50), time.Duration(t.P99), t.Compression))
			}
			return nil
		}
		select {
		case <-n.proc.Done:
			return fmt.Errorf("demo: the daemon ended at once (%v): %s", n.proc.Err, n.logTail())
		case <-ctx.Done():
			return fmt.Errorf("demo: wait for the daemon: %w (last answer: %v): %s", context.Cause(ctx), err, n.logTail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// measured says whether the canary has been through the tier that pages go to first.
func measured(s admin.Status) bool {
	for _, t := range s.Tiers {
		if t.State == "active" && !t.MeasuredAt.IsZero() {
			return true
		}
	}
	return false
}

// logTail is the daemon's last words, for an error.
func (n *node) logTail() string {
	b, err := os.ReadFile(n.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], " | ")
}

// freeListen is the address asked for, or one that is free.
func freeListen(want string) string {
	addr := cmp.Or(want, "127.0.0.1:9720")
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return "127.0.0.1:0"
	}
	ln.Close()
	return addr
}

// tiers is the `tiers:` part: nothing when the machine has a compressed tier in use and room in it, else
// zswap, over a swap file of our own when there is no other swap.
func (r *rig) tiers() (string, error) {
	mem, err := proc.ReadMeminfo("/")
	if err != nil {
		return "", err
	}
	areas, err := proc.ReadSwaps("/")
	if err != nil {
		return "", err
	}
	room := mem.SwapFree >= swapFileSize
	for _, a := range areas {
		if strings.HasPrefix(a.Path, "/dev/zram") && room {
			return "", nil
		}
	}
	if err := probe.Check("/", probe.Zswap); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  tiers:\n    zswap: on\n    page_cluster: 0\n")
	// The pool must be able to take what both halves offload, at the worst two to one.
	const pool = 600 << 20
	if percent := 100*int64(pool)/mem.Total + 1; percent > 20 {
		fmt.Fprintf(&b, "    max_pool_percent: %d\n", min(percent, 50))
	}
	if !room {
		fmt.Fprintf(&b, "    swap_file:\n      path: %s\n      size: %v\n", r.cfg.swapPath(), bytesize.Size(swapFileSize))
	}
	return b.String(), nil
}

// writeConfig replaces the configuration file.
func (n *node) writeConfig(s setting) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by spillway demo. Time is compressed: a production period is 6s or more.\n")
	fmt.Fprintf(&b, "listen: %q\noffload:\n  roots: [%q]\n  period: %v\n  law: %s\n", n.listen, n.rig.root, period, s.law)
	if s.floor > 0 {
		fmt.Fprintf(&b, "  floor: %d B\n", s.floor)
	}
	fmt.Fprintf(&b, "  classes:\n")
	for _, m := range n.rig.members() {
		fmt.Fprintf(&b, "    - match: %q\n      class: %q\n", m.path, cmp.Or(s.classes[m.path], class.Off))
	}
	fmt.Fprintf(&b, "  params:\n")
	for _, k := range []class.Class{class.Tax, class.Latency, class.Throughput} {
		fmt.Fprintf(&b, "    %s:\n      ratio: %v\n", k, ratio)
	}
	b.WriteString(n.tiers)
	tmp := n.config + ".new"
	if err := os.WriteFile(tmp, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("demo: write configuration: %w", err)
	}
	if err := os.Rename(tmp, n.config); err != nil {
		return fmt.Errorf("demo: write configuration: %w", err)
	}
	return nil
}

// apply rewrites the configuration and has the daemon read it, as an administrator would.
func (n *node) apply(ctx context.Context, s setting) error {
	if err := n.writeConfig(s); err != nil {
		return err
	}
	if err := n.admin.Reload(ctx); err != nil {
		return fmt.Errorf("demo: have the daemon reload: %w", err)
	}
	return nil
}

// collect keeps the newest decisions, so that none is lost when the daemon's ring wraps.
func (n *node) collect(ctx context.Context) error {
	n.collected = time.Now()
	for _, m := range n.rig.members() {
		ds, err := n.admin.Decisions(ctx, m.path, 60)
		if errkind.Of(err) == errkind.NotFound {
			continue
		}
		if err != nil {
			return fmt.Errorf("demo: ask for decisions: %w", err)
		}
		n.mu.Lock()
		for _, d := range ds {
			n.decisions[decisionKey{d.Cgroup, d.Time.UnixNano()}] = d
		}
		n.mu.Unlock()
	}
	return nil
}

// stop ends the daemon as a service manager would and waits until it has undone its changes.
func (n *node) stop() error {
	if err := n.proc.Stop(40 * time.Second); err != nil {
		return fmt.Errorf("demo: stop the daemon: %w: %s", err, n.logTail())
	}
	return nil
}
