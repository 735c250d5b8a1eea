package offload

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/psi"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/tier"
)

// scanEvery is how often the tree is listed: new pods are seen within it, and 2,000 directories cost
// too much to list each second.
const scanEvery = 5 * time.Second

// observeEvery is how often cgroups that are only watched are read: the advice they feed does not hurry, and
// 2,000 of them cost about a fifth of a second of processor time.
const observeEvery = 30 * time.Second

// scan lists the tree, opens what is new, forgets what is gone, and says of each cgroup whether it is managed.
func (a *Agent) scan() error {
	entries, err := a.h.List()
	if err != nil {
		return fmt.Errorf("offload: list cgroups: %w", err)
	}
	a.lastScan = time.Now()
	paths := make([]string, 0, len(entries))
	for _, e := range entries {
		paths = append(paths, e.Path)
	}
	roots := a.cfg.Roots
	if len(roots) == 0 {
		roots = class.DefaultRoots(paths)
	}
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		if e.Path == "/" || strings.HasPrefix(e.Path, "/"+tier.CanaryPrefix) {
			continue
		}
		seen[e.Path] = true
		t := a.targets[e.Path]
		if t != nil && t.inode != e.Inode {
			a.died(t)
			t.close()
			t = nil
		}
		if t == nil {
			t = newTarget(e, a.places)
			a.places++
			a.targets[e.Path] = t
		}
		t.leaf = e.Leaf
		a.assign(t, roots)
	}
	for p, t := range a.targets {
		if !seen[p] {
			a.died(t)
			t.close()
			delete(a.targets, p)
			a.forget(p)
		}
	}
	a.findPressure()
	if a.lastScan.Sub(a.lastObserve) >= observeEvery {
		a.lastObserve = a.lastScan
		a.observe()
	}
	a.mu.Lock()
	a.view.roots = slices.Clone(roots)
	a.view.missingRoots = missing(roots, seen)
	a.view.unusedRules = a.classes.Unused(paths)
	a.mu.Unlock()
	return nil
}

// forget drops what is kept about a path beside its target: paths of pods never come back, and a path that does
// is to be logged about anew.
func (a *Agent) forget(path string) {
	delete(a.warned, "stat "+path)
	delete(a.warned, "step "+path)
	a.mu.Lock()
	delete(a.view.lastReason, path)
	a.mu.Unlock()
}

func missing(roots []string, seen map[string]bool) (out []string) {
	for _, r := range roots {
		if !seen[r] {
			out = append(out, r)
		}
	}
	return out
}

// assign decides whether the agent acts on t, and opens or closes it accordingly.
func (a *Agent) assign(t *target, roots []string) {
	k, classWhy := a.classes.Of(t.path)
	managed, why := a.mayAct(t, roots, k)
	if managed {
		why = classWhy
	}
	if managed && t.group == nil {
		g, err := a.h.Open(t.path)
		if err != nil {
			managed, why = false, "cannot be opened: "+err.Error()
			if errors.Is(err, cgroup.ErrGone) {
				why = "vanished"
			}
		} else {
			t.group = g
		}
	}
	if !managed {
		a.unblend(t)
		t.close()
	}
	if t.class != k {
		t.law, t.slo = nil, nil
	}
	if managed {
		a.join(t)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !managed {
		t.row.release()
	}
	t.class, t.managed, t.params, t.row.why = k, managed, a.cfg.params(k), why
}

// mayAct is the fence around everything this agent does.
func (a *Agent) mayAct(t *target, roots []string, k class.Class) (bool, string) {
	switch {
	case !slices.ContainsFunc(roots, func(r string) bool { return within(t.path, r) }):
		return false, "outside the roots"
	case within(a.self, t.path):
		return false, "holds this daemon"
	case slices.ContainsFunc(roots, func(r string) bool { return r != t.path && within(r, t.path) }):
		return false, "is above a root"
	case !t.leaf:
		return false, "its children are managed one by one"
	case k == class.Off:
		return false, "class off"
	}
	return true, ""
}

// within says whether path p is root or lies below it.
func within(p, root string) bool {
	return p == root || root == "/" || strings.HasPrefix(p, root+"/")
}

// pressureEvery is how often it is looked up again which cgroup2 directory a cgroup's tasks sit in. Runtimes place
// a container's tasks once, and finding them costs more than reading the pressure.
const pressureEvery = 30 * time.Second

// findPressure opens the pressure files of managed cgroups. On v1 and hybrid a memory cgroup has none of its
// own: it borrows those of the cgroup2 directory its tasks sit in, if no other managed cgroup's tasks sit there too.
func (a *Agent) findPressure() {
	owner := map[string]*target{}
	for _, p := range slices.Sorted(maps.Keys(a.targets)) {
		t := a.targets[p]
		if !t.managed || t.group == nil {
			continue
		}
		dir, why := t.psiDir, ""
		if t.memPSI == nil || a.lastScan.Sub(t.psiFound) >= pressureEvery {
			dir, why = a.pressureDir(t)
			t.psiFound = a.lastScan
		}
		if other := owner[dir]; dir != "" && other != nil {
			why = "its tasks share a cgroup2 directory with " + other.path
			other.closePSI("its tasks share a cgroup2 directory with " + t.path)
			dir = ""
		} else if dir != "" {
			owner[dir] = t
		}
		if dir == "" {
			t.closePSI(why)
			continue
		}
		t.openPSI(dir)
	}
}

func (a *Agent) pressureDir(t *target) (dir, why string) {
	if a.h.Mode == cgroup.V2 {
		return t.group.Dir(), ""
	}
	if a.h.Unified == "" {
		return "", "no cgroup2 mount on this machine"
	}
	pids, err := t.group.Procs(1)
	if err != nil || len(pids) == 0 {
		return "", "no tasks"
	}
	p, err := proc.UnifiedPath(a.deps.Root, pids[0])
	switch {
	case err != nil:
		return "", "its tasks' cgroup2 directory is unreadable"
	case p == "/":
		return "", "its tasks sit in the root of the cgroup2 hierarchy; place them in a cgroup2 directory of their own"
	}
	return path.Join(a.h.Unified, p), ""
}

// openPSI holds dir's pressure files; a second call with the same dir keeps them.
func (t *target) openPSI(dir string) {
	if t.psiDir == dir && t.memPSI != nil {
		return
	}
	t.closePSI("")
	mem, err := psi.Open(path.Join(dir, "memory.pressure"))
	if err == nil {
		if _, rerr := mem.Read(); rerr != nil {
			mem.Close()
			err = rerr
		}
	}
	if err != nil {
		t.psiWhy = "memory.pressure: " + err.Error()
		if errors.Is(err, psi.ErrOff) {
			t.psiWhy = psi.ErrOff.Error()
		}
		return
	}
	t.psiDir, t.memPSI = dir, mem
	if io, err := psi.Open(path.Join(dir, "io.pressure")); err == nil {
		t.ioPSI = io
	}
	t.havePrevPSI = false
}

// observe refreshes the cheap figures of cgroups the agent does not act on, for the advice. It opens and
// closes each: thousands of held descriptors would cost more than one read every few seconds.
func (a *Agent) observe() {
	for _, t := range a.targets {
		if t.managed || !t.leaf {
			continue
		}
		g, err := a.h.Open(t.path)
		if err != nil {
			continue
		}
		var s cgroup.Stat
		if err := g.Stat(&s); err == nil {
			a.mu.Lock()
			t.row.setObserved(s)
			a.mu.Unlock()
		}
		g.Close()
	}
}
