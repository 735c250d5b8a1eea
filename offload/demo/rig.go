package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/demo/child"
	"github.com/spillway-io/spillway/offload/demo/load"
	"github.com/spillway-io/spillway/offload/demo/watch"
	"github.com/spillway-io/spillway/offload/demo/workload"
)

// member is one cgroup with one process.
type member struct {
	name string
	path string   // as the daemon names it
	dirs []string // its directories: memory hierarchy first, then the one with PSI
	proc *child.Process
}

// rig is everything the demo set up. close takes it down again, however far newRig came.
type rig struct {
	cfg    Config
	show   *progress
	before baseline
	h      cgroup.Hierarchy
	root   string // cgroup path that the daemon may act below

	spawn  *child.Spawner
	sweep  *child.Process
	worker *worker.Client
	tmp    string

	twins   [2]*twin
	sidecar *member
	batch   *member
	rec     *watch.Recorder
	node    *node
	gen     *generator
}

// The folders below Config.StateDir.
func (c Config) rigDir() string   { return filepath.Join(c.StateDir, "rig") }  // the journal of the demo's own worker
func (c Config) nodeDir() string  { return filepath.Join(c.StateDir, "node") } // the daemon's state
func (c Config) tmpDir() string   { return filepath.Join(c.StateDir, "tmp") }  // sockets, configuration, logs
func (c Config) swapPath() string { return filepath.Join(c.StateDir, "swap") }

// newRig prepares the machine and starts everything but the daemon. On error it has taken down what it made.
func newRig(ctx context.Context, cfg Config, show *progress) (_ *rig, err error) {
	for _, f := range []probe.Feature{probe.Root, probe.SwapOn} {
		if err := probe.Check("/", f); err != nil {
			return nil, err
		}
	}
	r := &rig{cfg: cfg, show: show}
	if r.h, err = cgroup.Discover("/"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			left, cerr := r.close()
			err = errors.Join(err, cerr, leftBehind(left))
		}
	}()
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return nil, err
	}
	show.phase("clean up after an earlier run, if any", 0)
	if err := restoreEarlier(ctx, cfg); err != nil {
		return nil, err
	}
	if r.before, err = takeBaseline(r.h); err != nil {
		return nil, err
	}
	mark := "SPILLWAY_DEMO=" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	r.before.mark = mark
	r.spawn = child.NewSpawner(mark)
	if r.sweep, err = sweeper(r.spawn, cfg); err != nil {
		return nil, err
	}
	if err := r.startWorker(ctx); err != nil {
		return nil, err
	}
	r.tmp = cfg.tmpDir()
	if _, err := r.worker.Do(ctx, worker.Change{TempDir: &worker.TempDir{Path: r.tmp}}); err != nil {
		return nil, err
	}
	if err := r.makeCgroups(ctx); err != nil {
		return nil, err
	}
	if err := r.startWorkloads(ctx); err != nil {
		return nil, err
	}
	if r.rec, err = r.startRecorder(); err != nil {
		return nil, err
	}
	return r, nil
}

// startWorker starts the process that makes and removes the demo's folders. What it logs about that is of
// interest only when it fails, and then it is in the error too.
func (r *rig) startWorker(ctx context.Context) error {
	if err := os.MkdirAll(r.cfg.rigDir(), 0o700); err != nil {
		return err
	}
	log, err := sys.OpenRegular(filepath.Join(r.cfg.rigDir(), "worker.log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	r.worker, err = worker.Start(ctx, worker.Config{Exe: r.cfg.Exe, StateDir: r.cfg.rigDir(), Stderr: log})
	return err
}

// The cgroups below the root, parents first. true: a leaf with processes.
var layout = []struct {
	path string
	leaf bool
}{
	{"", false}, {"/online", false}, {"/offline", false},
	{"/online/redis-a", true}, {"/online/redis-b", true}, {"/online/sidecar", true}, {"/offline/batch", true},
}

// makeCgroups makes the tree in the memory hierarchy and, when PSI lives in another one, there too.
// A kubepods that exists belongs to a real kubelet: then another root is used.
func (r *rig) makeCgroups(ctx context.Context) error {
	mounts := r.mounts()
	taken := func(name string) bool {
		return slices.ContainsFunc(mounts, func(m string) bool {
			_, err := os.Lstat(filepath.Join(m, name))
			return !errors.Is(err, fs.ErrNotExist)
		})
	}
	r.root = "/kubepods"
	if taken("kubepods") || taken("kubepods.slice") {
		r.root = "/spillway-demo"
	}
	if taken(r.root) {
		return errkind.Hint(errkind.New(errkind.Unavailable, "demo: the cgroup %s exists and is not this demo's", r.root),
			"remove it, if nothing in it is needed: rmdir %s", filepath.Join(r.h.Memory, r.root))
	}
	for _, l := range layout {
		for _, m := range mounts {
			dir := filepath.Join(m, r.root, l.path)
			if _, err := r.worker.Do(ctx, worker.Change{Mkdir: &worker.Mkdir{Path: dir, KillOnUndo: true}}); err != nil {
				return err
			}
			if r.h.Mode == cgroup.V2 && !l.leaf {
				if err := delegateMemory(dir); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// mounts are the hierarchies in which the tree is made, each once.
func (r *rig) mounts() []string {
	m := []string{r.h.Memory}
	if r.h.Unified != "" && r.h.Unified != r.h.Memory {
		m = append(m, r.h.Unified)
	}
	return m
}

// delegateMemory gives the children of one of our own directories the memory controller. It is not
// journalled because it goes with the directory.
func delegateMemory(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
		return errkind.Hint(fmt.Errorf("demo: pass the memory controller to the children of %s: %w", dir, err),
			"the controller must be enabled in the parent's cgroup.subtree_control")
	}
	return nil
}

// dirs are the directories of one leaf, one in each hierarchy.
func (r *rig) dirs(path string) (dirs []string) {
	for _, m := range r.mounts() {
		dirs = append(dirs, filepath.Join(m, r.root, path))
	}
	return dirs
}

// members are all cgroups with processes, the twins first.
func (r *rig) members() []*member {
	return []*member{r.twins[0].member, r.twins[1].member, r.sidecar, r.batch}
}

// startRecorder begins to look at the members. The demo looks by itself and does not ask the daemon.
func (r *rig) startRecorder() (*watch.Recorder, error) {
	var members []watch.Member
	for _, m := range r.members() {
		members = append(members, watch.Member{Name: m.name, Path: m.path, Pressure: m.dirs[len(m.dirs)-1]})
	}
	return watch.Start(r.h, members)
}

func (r *rig) startWorkloads(ctx context.Context) error {
	server, err := r.findServer()
	if err != nil {
		return err
	}
	if on, from := child.Places(); on != nil {
		r.show.note(fmt.Sprintf("both servers share CPU %d, so that noise hits them alike; the load comes from CPU %d", on[0], from[0]))
	}
	for i, name := range []string{"redis-a", "redis-b"} {
		t := &twin{member: r.member(name, "/online/"+name)}
		r.twins[i] = t
		t.at = load.Dialer{Network: "unix", Addr: filepath.Join(r.tmp, name+".sock")}
		if err := t.start(r, server); err != nil {
			return err
		}
	}
	r.sidecar = r.member("sidecar", "/online/sidecar")
	if err := r.part(ctx, r.sidecar, partSidecar, workload.SidecarSpec{Cold: sidecarCold, Hot: sidecarHot}); err != nil {
		return err
	}
	r.show.phase("load "+strconv.Itoa(r.cfg.Keys)+" keys into both servers", 10*time.Second)
	fill := make(chan error, len(r.twins))
	for _, t := range r.twins {
		go func() { fill <- t.fill(ctx, r.cfg.Keys) }()
	}
	for range r.twins {
		err = errors.Join(err, <-fill)
	}
	if err != nil {
		return err
	}
	r.batch = r.member("batch", "/offline/batch")
	return r.part(ctx, r.batch, partBatch, workload.BatchSpec{Bytes: batchBytes, Share: batchShare})
}

// part starts one of our own programs in m's cgroup, at a low priority when it is the batch job.
func (r *rig) part(ctx context.Context, m *member, name string, task any) (err error) {
	args := []string{r.cfg.Exe, "demo-part", name}
	if name == partBatch {
		if nice, err := exec.LookPath("nice"); err == nil {
			args = append([]string{nice, "-n", "19"}, args...)
		}
	}
	m.proc, err = r.spawn.Start(child.Spec{Name: m.name, Args: args, Task: task, Cgroups: m.dirs})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return m.proc.Ready(ctx)
}

func (r *rig) member(name, path string) *member {
	return &member{name: name, path: r.root + path, dirs: r.dirs(path)}
}

// close ends everything, puts everything back and returns what is left although it should not be. It works
// on a context of its own: the end of Run's is the usual reason to be here.
func (r *rig) close() (left []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r.show.phase("put everything back", 8*time.Second)
	if r.gen != nil {
		err = errors.Join(err, r.gen.stop())
	}
	if r.node != nil {
		err = errors.Join(err, r.node.stop())
	}
	if r.rec != nil {
		r.rec.Close()
	}
	if r.worker != nil { // kills what is in the cgroups, removes them and the folder
		err = errors.Join(err, r.worker.Close(ctx))
	}
	if r.sweep != nil {
		err = errors.Join(err, r.sweep.Stop(30*time.Second))
	} else {
		err = errors.Join(err, restoreAndRemove(ctx, r.cfg))
	}
	if r.spawn != nil {
		r.spawn.Close()
	}
	r.show.stop()
	if r.before.taken {
		found, lerr := r.before.leftovers(r.h, r.cfg, r.root)
		left, err = found, errors.Join(err, lerr)
	}
	return left, err
}
