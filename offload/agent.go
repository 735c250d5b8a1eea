// Package offload is the node agent: it samples every memory cgroup, lets a law decide how much to take from
// each of those it may act on, has the worker take it, and accounts for what was saved, net.
//
// Promise: it acts only on leaf cgroups below its roots, never on its own cgroup or an ancestor of a root, and
// never takes one below its floor. Everything else it only observes. It changes nothing itself: steps and
// settings go through the worker process, which journals and undoes them.
//
// Ownership: the goroutine in Run owns the targets' file descriptors, previous samples and laws; one goroutine
// per batch of steps in flight only calls the worker. Agent.mu guards what the admin API reads (rows, rings, host
// figures) and is never held while the kernel or the worker is asked.
//
// Failure: a cgroup that vanishes is forgotten; a worker that dies ends Run with an error, because an agent
// that cannot restore must not go on. Non-goals: killing, setting lasting limits, moving tasks.
package offload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/tier"
)

// Actuator is the worker as the agent sees it; *worker.Client in production.
type Actuator interface {
	Step(context.Context, worker.Step) (worker.StepResult, error)
	Steps(ctx context.Context, steps []worker.Step, done func(i int, r worker.StepResult, err error))
	Do(context.Context, worker.Change) (worker.Done, error)
	Undo(context.Context, string) error
	Usage() (worker.Usage, error)
	Dead() <-chan struct{}
}

// Deps is what the agent needs from its surroundings.
type Deps struct {
	// Root is the directory below which /proc and /sys are found; "/" in production.
	Root string
	// Worker does what changes the machine. Nil observes only, whatever the roots say.
	Worker Actuator
	// Exe is the program to run as `EXE canary`; "" is this program.
	Exe string
	// NewLaw makes a cgroup's law; nil is policy.New. A benchmark compares laws of its own with it.
	NewLaw func(name string, p policy.Params) (policy.Law, error)
	// Registry receives the metrics; nil registers none.
	Registry prometheus.Registerer
	// StateDir is where the wear of drives is remembered across restarts; "" remembers nothing.
	StateDir string
	// Reload reads the configuration again, for POST /v1/reload and SIGHUP. Nil: reloading is refused.
	Reload func() (Config, error)
	// Version, Commit and Dashboard are shown in Status.
	Version, Commit, Dashboard string
}

// Agent is one node's offload agent. New makes it, Run drives it; the admin.Source methods may be called at any time.
type Agent struct {
	deps    Deps
	log     *slog.Logger
	started time.Time
	node    string // host name, "" when the kernel does not say
	kernel  string
	h       cgroup.Hierarchy
	self    string // own memory cgroup
	tiers   *tier.Set

	reload  chan reloadRequest
	results chan stepDone
	done    chan struct{} // closed when Run returns
	heat    heatState

	// owned by Run
	cfg         Config
	classes     *class.Set
	targets     map[string]*target
	reader      *proc.Reader
	host        hostState
	balance     balance
	wear        wearState
	placing     placing
	steps       sync.WaitGroup
	objectives  []*objective
	lastScan    time.Time
	lastObserve time.Time
	batch       batch
	turn        int             // ticks so far
	places      int             // cgroups seen so far
	managed     int             // cgroups managed at the last tick
	warned      map[string]bool // one log line per cause

	mu sync.Mutex
	// +checklocks:mu
	view view
}

type reloadRequest struct {
	cfg   Config
	reply chan error
}

// New checks the configuration and looks at the machine: hierarchy, tiers, own cgroup. It changes nothing.
func New(cfg Config, deps Deps) (*Agent, error) {
	cfg, err := cfg.Resolved()
	if err != nil {
		return nil, err
	}
	if deps.Root == "" {
		deps.Root = "/"
	}
	if deps.NewLaw == nil {
		deps.NewLaw = policy.New
	}
	classes, err := class.Compile(cfg.Classes)
	if err != nil {
		return nil, fmt.Errorf("offload: classes: %w", err)
	}
	h, err := cgroup.Discover(deps.Root)
	if err != nil {
		return nil, err
	}
	self, err := h.Self()
	if err != nil {
		return nil, err
	}
	kernel, err := proc.KernelRelease(deps.Root)
	if err != nil {
		return nil, err
	}
	node, err := proc.Hostname(deps.Root)
	if err != nil {
		cfg.Log.Warn("host name unreadable", "error", err)
	}
	tiers, err := tier.Open(deps.Root, cfg.Log)
	if err != nil {
		return nil, err
	}
	reader, err := proc.OpenReader(deps.Root)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		deps: deps, log: cfg.Log, started: time.Now(), node: node, kernel: kernel, h: h, self: self, tiers: tiers,
		reload: make(chan reloadRequest), results: make(chan stepDone, 256), done: make(chan struct{}),
		cfg: cfg, classes: classes, targets: map[string]*target{}, reader: reader, warned: map[string]bool{},
	}
	a.openHost()
	a.openBalance()
	a.openPlacing()
	a.openWear(time.Now())
	a.openHeat()
	if err := a.setObjectives(cfg.SLO, false); err != nil {
		return nil, err
	}
	if err := a.scan(); err != nil {
		return nil, err
	}
	if err := a.sampleHost(time.Now(), 0); err != nil {
		return nil, err
	}
	a.publish(time.Now(), 0)
	if deps.Registry != nil {
		if err := deps.Registry.Register(&collector{a}); err != nil {
			return nil, fmt.Errorf("offload: register metrics: %w", err)
		}
	}
	return a, nil
}

// Prepare makes the tiers that the configuration asks for, through the worker. Call it once before Run.
func (a *Agent) Prepare(ctx context.Context) error {
	if a.deps.Worker == nil || a.cfg.DryRun {
		return nil
	}
	if err := a.tiers.Apply(ctx, a.cfg.Tiers, a.deps.Worker); err != nil {
		return err
	}
	if err := a.sampleHost(time.Now(), 0); err != nil {
		return err
	}
	a.publish(time.Now(), 0)
	return nil
}

// Run samples and decides until ctx ends or the worker dies, and returns the cause. No step is in flight
// and no goroutine left when it returns; undoing what the worker journalled is the worker's owner's part.
func (a *Agent) Run(ctx context.Context) error {
	defer close(a.done)
	ctx, cancel := context.WithCancel(ctx)
	defer a.closeAll()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	a.openObjectives()
	defer a.closeObjectives()
	brake := make(chan time.Time, 1)
	stop, canary := a.cfg.Stop, a.cfg.Canary // fixed at start: a reload belongs to this goroutine alone
	wg.Go(func() { a.watchPressure(ctx, stop, brake) })
	hung := make(chan error)
	wg.Go(func() { a.watchSelf(ctx, hung) })
	wg.Go(func() { a.trackHeat(ctx) })
	measured := make(chan measuring)
	if a.deps.Worker != nil && !a.cfg.DryRun && !canary.Off {
		wg.Go(func() { a.runCanary(ctx, canary, measured) })
	}

	var dead <-chan struct{}
	if a.deps.Worker != nil {
		dead = a.deps.Worker.Dead()
	}
	defer a.drainSteps()
	tick := time.NewTicker(a.cfg.Period)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-dead:
			return errkind.Hint(errkind.New(errkind.Unavailable, "offload: the worker process died; it restored what it had changed, or the next start will"),
				"run `spillway restore`, then start the daemon again")
		case err := <-hung:
			return err
		case now := <-tick.C:
			a.tick(ctx, now, now.Sub(last))
			last = now
		case d := <-a.results:
			a.finish(d)
		case until := <-brake:
			if !a.host.quiet(time.Now()) {
				a.stopUntil(until, "host memory pressure above stop.mem_pressure")
			}
		case m := <-measured:
			a.measure(m, time.Now())
		case r := <-a.reload:
			period := a.cfg.Period
			r.reply <- a.apply(r.cfg)
			if a.cfg.Period != period {
				tick.Reset(a.cfg.Period)
			}
		}
	}
}

// tick is one period: host, cgroups, decisions.
func (a *Agent) tick(ctx context.Context, now time.Time, period time.Duration) {
	if err := a.sampleHost(now, period); err != nil {
		a.warnOnce("host", "host figures unreadable", err)
		return
	}
	if now.Sub(a.lastScan) >= scanEvery {
		if err := a.scan(); err != nil {
			a.warnOnce("scan", "cgroup tree unreadable", err)
		}
	}
	a.learn(now)
	a.turns(now, period)
	a.place(now)
	a.send(ctx)
	a.publish(now, period)
}

// apply replaces the configuration. Tiers are set up once, at start: changing them needs a restart, and says so.
func (a *Agent) apply(cfg Config) error {
	cfg.Log = a.log
	cfg, err := cfg.Resolved()
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(cfg.Tiers, a.cfg.Tiers) {
		return errkind.Hint(errkind.New(errkind.Invalid, "offload: reload: offload.tiers changed"),
			"tiers are set up at start only: restart the daemon to apply them")
	}
	if cfg.Canary != a.cfg.Canary || cfg.Stop.MemPressure != a.cfg.Stop.MemPressure || cfg.Stop.Hold != a.cfg.Stop.Hold {
		return errkind.Hint(errkind.New(errkind.Invalid, "offload: reload: offload.canary, stop.mem_pressure or stop.hold changed"),
			"these are fixed at start: restart the daemon to apply them")
	}
	if cfg.Heat != a.cfg.Heat {
		return errkind.Hint(errkind.New(errkind.Invalid, "offload: reload: offload.heat changed"),
			"access tracking begins at start only: restart the daemon to apply it")
	}
	classes, err := class.Compile(cfg.Classes)
	if err != nil {
		return fmt.Errorf("offload: classes: %w", err)
	}
	samePeriod := cfg.Period == a.cfg.Period
	watch := !reflect.DeepEqual(cfg.SLO, a.cfg.SLO) || !samePeriod
	a.cfg, a.classes = cfg, classes
	a.tuneWear(time.Now())
	if watch {
		if err := a.setObjectives(cfg.SLO, samePeriod); err != nil {
			return err
		}
		a.openObjectives()
	}
	for _, t := range a.targets {
		t.law = nil // laws are rebuilt with the new parameters; a new law starts from what is resident
	}
	if err := a.scan(); err != nil {
		return err
	}
	a.publish(time.Now(), 0)
	a.log.Info("configuration reloaded", "law", cfg.Law, "period", cfg.Period, "roots", cfg.Roots)
	return nil
}

// Reload implements admin.Source.
func (a *Agent) Reload(ctx context.Context) error {
	if a.deps.Reload == nil {
		return errkind.New(errkind.Unsupported, "offload: this daemon was started without a configuration file to reload")
	}
	cfg, err := a.deps.Reload()
	if err != nil {
		return err
	}
	r := reloadRequest{cfg: cfg, reply: make(chan error, 1)}
	select {
	case a.reload <- r:
		return <-r.reply
	case <-a.done:
		return errkind.New(errkind.Unavailable, "offload: the agent has stopped")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *Agent) warnOnce(key, msg string, err error) {
	if err == nil || a.warned[key] || errors.Is(err, context.Canceled) {
		return
	}
	a.warned[key] = true
	a.log.Warn(msg, "error", err)
}

func (a *Agent) closeAll() {
	a.closeWear(time.Now())
	for _, t := range a.targets {
		t.close()
	}
	a.closeHost()
}
