// Package rig sets a machine up for one experiment and takes it down again: cgroups, folders, processes in
// cgroups, the daemon under test, and a recorder that looks at the cgroups by itself.
//
// Promise: whatever ends the experiment, kill -9 included, nothing it made stays. Cgroups and folders are
// journalled by a worker process of the product, children die with their parent, the daemon undoes its own,
// and the product's own sweeper process removes the folder of the journals last; it is the demo's.
// Ownership: Open's caller owns the Rig and calls Close once, from one goroutine. The recorder's goroutine owns
// its file descriptors. Failure: what could not be put back is named by Close.
// Non-goals: knowing what is measured.
package rig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/testkit/herd"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/demo/child"
)

// DefaultStateDir holds journals, sockets, data and the swap file of an experiment, on a real disk.
const DefaultStateDir = "/var/tmp/spillway-workloads"

// Config says where to set up.
type Config struct {
	Exe      string   // the spillway program, absolute
	StateDir string   // default DefaultStateDir; it must not exist, but for what a killed run left
	Parents  []string // names of cgroups without processes that members lie in, from the top down
	Members  []Member // the cgroups to make
}

// Member is one cgroup of the experiment.
type Member struct {
	Name string
	// Parent says that the cgroups with processes are made below this one, by the workload.
	Parent bool
	Path   string   // as the daemon names it; set by Open
	Dirs   []string // its directories: memory hierarchy first, then the one with PSI; set by Open
}

// root is the cgroup below which everything is.
const root = "/spillway-bench"

// Rig is everything that was set up.
type Rig struct {
	cfg     Config
	h       cgroup.Hierarchy
	self    string // this program
	before  map[string]string
	mark    string
	spawn   *child.Spawner
	sweep   *Process
	worker  *worker.Client
	members []*Member

	rec    *Recorder
	daemon *Daemon
}

func (c Config) rigDir() string   { return filepath.Join(c.StateDir, "rig") }  // the journal of the rig's own worker
func (c Config) nodeDir() string  { return filepath.Join(c.StateDir, "node") } // the daemon's state
func (c Config) swapPath() string { return filepath.Join(c.StateDir, "swap") }

// Tmp is the folder for the experiment's files. Everybody may enter it, nobody but root may list it.
func (r *Rig) Tmp() string { return filepath.Join(r.cfg.StateDir, "tmp") }

// Open makes the folders and the cgroups. On an error it has taken down what it made.
func Open(ctx context.Context, cfg Config) (_ *Rig, err error) {
	for _, f := range []probe.Feature{probe.Root, probe.SwapOn} {
		if err := probe.Check("/", f); err != nil {
			return nil, err
		}
	}
	if cfg.StateDir == "" {
		cfg.StateDir = DefaultStateDir
	}
	r := &Rig{cfg: cfg}
	if r.self, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	if r.h, err = cgroup.Discover("/"); err != nil {
		return nil, err
	}
	if err := own(cfg.StateDir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			left, cerr := r.Close()
			err = errors.Join(err, cerr)
			if len(left) > 0 {
				err = errors.Join(err, fmt.Errorf("rig: left behind: %q", left))
			}
		}
	}()
	if err := r.restoreEarlier(ctx); err != nil {
		return nil, err
	}
	if r.before, err = (&herd.Herd{}).Knobs(); err != nil {
		return nil, err
	}
	r.mark = "SPILLWAY_BENCH=" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	r.spawn = child.NewSpawner(r.mark)
	task := map[string]string{"state_dir": cfg.StateDir}
	if r.sweep, err = r.Start(Spec{Name: "sweeper", Args: []string{cfg.Exe, "demo-part", "sweep"}, Task: task, Outlive: true}); err != nil {
		return nil, err
	}
	if err := r.startWorker(ctx); err != nil {
		return nil, err
	}
	if _, err := r.worker.Do(ctx, worker.Change{TempDir: &worker.TempDir{Path: r.Tmp()}}); err != nil {
		return nil, err
	}
	for _, dir := range []string{cfg.StateDir, r.Tmp()} { // servers that are not root find their files here
		if err := os.Chmod(dir, 0o711); err != nil {
			return nil, fmt.Errorf("rig: %w", err)
		}
	}
	return r, r.makeCgroups(ctx)
}

// own makes dir or sees to it that it is ours: anybody can make a folder in /var/tmp.
func own(dir string) error {
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("rig: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || st.Uid != 0 {
		return errkind.Hint(errkind.New(errkind.Denied, "rig: %s is not a folder of root's", dir), "remove it")
	}
	return nil
}

func (r *Rig) startWorker(ctx context.Context) error {
	if err := os.MkdirAll(r.cfg.rigDir(), 0o700); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(r.cfg.rigDir(), "worker.log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	defer log.Close()
	r.worker, err = worker.Start(ctx, worker.Config{Exe: r.cfg.Exe, StateDir: r.cfg.rigDir(), Stderr: log})
	return err
}

// makeCgroups makes root and the members in the memory hierarchy and, when PSI lives in another one, there too.
func (r *Rig) makeCgroups(ctx context.Context) error {
	mounts := []string{r.h.Memory}
	if r.h.Unified != "" && r.h.Unified != r.h.Memory {
		mounts = append(mounts, r.h.Unified)
	}
	all := []*Member{{Parent: true, Path: root}}
	for _, name := range r.cfg.Parents {
		all = append(all, &Member{Parent: true, Path: root + "/" + name})
	}
	for _, m := range r.cfg.Members {
		m.Path = root + "/" + m.Name
		all = append(all, &m)
	}
	for _, m := range all {
		for _, mount := range mounts {
			dir := filepath.Join(mount, m.Path)
			if _, err := r.worker.Do(ctx, worker.Change{Mkdir: &worker.Mkdir{Path: dir, KillOnUndo: true}}); err != nil {
				return err
			}
			m.Dirs = append(m.Dirs, dir)
			if r.h.Mode == cgroup.V2 && m.Parent {
				if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
					return fmt.Errorf("rig: pass the memory controller on: %w", err)
				}
			}
		}
	}
	r.members = all[1+len(r.cfg.Parents):]
	return nil
}

// Member is the one called name; nil when there is none.
func (r *Rig) Member(name string) *Member {
	if i := slices.IndexFunc(r.members, func(m *Member) bool { return m.Name == name }); i >= 0 {
		return r.members[i]
	}
	return nil
}

// restoreEarlier takes back what a killed run left, if its sweeper did not. A run that goes on is an error.
func (r *Rig) restoreEarlier(ctx context.Context) error {
	for _, dir := range []string{r.cfg.nodeDir(), r.cfg.rigDir()} {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		outcomes, err := worker.Restore(ctx, dir, false, nil)
		for _, o := range outcomes {
			err = errors.Join(err, o.Err)
		}
		if err != nil {
			return errkind.Hint(fmt.Errorf("rig: undo what %s holds: %w", dir, err), "another bench may be running: wait for it or stop it")
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("rig: %w", err)
		}
	}
	return nil
}

// Close ends everything, puts everything back and names what is left although it should not be.
func (r *Rig) Close() (left []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if r.daemon != nil {
		err = errors.Join(err, r.daemon.Stop())
	}
	if r.rec != nil {
		r.rec.Close()
	}
	if r.worker != nil { // kills what is in the cgroups, removes them and the folder
		err = errors.Join(err, r.worker.Close(ctx))
	}
	if r.sweep != nil {
		err = errors.Join(err, r.sweep.Stop(30*time.Second))
	}
	if r.spawn != nil {
		r.spawn.Close()
	}
	if r.before == nil {
		return nil, err
	}
	after, kerr := (&herd.Herd{}).Knobs()
	if kerr != nil {
		return nil, errors.Join(err, kerr)
	}
	left = herd.Differences(r.before, after)
	for _, path := range []string{filepath.Join(r.h.Memory, root), filepath.Join(r.h.Unified, root), r.cfg.StateDir} {
		if _, serr := os.Lstat(path); serr == nil {
			left = append(left, path)
		}
	}
	procs, merr := child.Marked(r.mark)
	return append(left, procs...), errors.Join(err, merr)
}
