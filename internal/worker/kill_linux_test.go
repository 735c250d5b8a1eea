package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/sys"
)

// doomedDaemon starts a worker, tells its pid, and then makes and undoes changes and takes steps until it is killed.
// Environment: STATE, GROUPS (path:inode,…), TEMP, MEMORY (the mount's directory), CHOOSE (steps choose their memory).
func doomedDaemon() error {
	ctx := context.Background()
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	c, err := Start(ctx, Config{Exe: exe, StateDir: os.Getenv("STATE")})
	if err != nil {
		return err
	}
	fmt.Println(c.PID())
	failed := make(chan error)
	choose := os.Getenv("CHOOSE") != ""
	// A step and a change of the file that it holds refuse each other; whoever was second tries again.
	refused := func(err error) bool {
		return choose && (errors.Is(err, ErrInFlight) || errors.Is(err, cgroup.ErrForeign))
	}
	groups := strings.Split(os.Getenv("GROUPS"), ",")
	for _, g := range groups {
		path, ino, _ := strings.Cut(g, ":")
		inode, err := strconv.ParseUint(ino, 10, 64)
		if err != nil {
			return err
		}
		go func() {
			step := Step{Cgroup: path, Inode: inode, Bytes: mib / 2, Floor: mib}
			for i := 0; ; i++ {
				if choose {
					step.Swappiness = [...]cgroup.Swappiness{cgroup.FileOnly, cgroup.Weight(150), cgroup.KernelsChoice, cgroup.AnonOnly}[i%4]
				}
				if _, err := c.Step(ctx, step); err != nil && !refused(err) {
					failed <- err
				}
			}
		}()
	}
	first, _, _ := strings.Cut(groups[0], ":")
	base := filepath.Join(os.Getenv("MEMORY"), first)
	go func() {
		for i := 0; ; i++ {
			changes := []Change{
				{Knob: &Knob{filepath.Join(base, "memory.swappiness"), strconv.Itoa(10 + i%40)}},
				{Mkdir: &Mkdir{filepath.Join(base, "made"), true}},
				{TempDir: &TempDir{os.Getenv("TEMP")}},
			}
			var ids []string
			for _, ch := range changes {
				d, err := c.Do(ctx, ch)
				for refused(err) {
					d, err = c.Do(ctx, ch)
				}
				if err != nil {
					failed <- err
				}
				ids = append(ids, d.ID)
			}
			for _, id := range ids {
				err := c.Undo(ctx, id)
				for refused(err) {
					err = c.Undo(ctx, id)
				}
				if err != nil {
					failed <- err
				}
			}
		}
	}()
	return <-failed
}

// scene is what the killing tests share: two cgroups under load and what must hold after each murder.
type scene struct {
	beds  []*bed
	loads []*exec.Cmd
	state string
	temp  string
}

func newScene(t *testing.T) *scene {
	s := &scene{state: stateDir(t), temp: filepath.Join(t.TempDir(), "made")}
	for _, name := range []string{"a", "b"} {
		b := newBed(t, name)
		cmd, _ := role(t, b.dir, "reread", dataFile(t, 8*mib))
		s.beds, s.loads = append(s.beds, b), append(s.loads, cmd)
	}
	return s
}

// daemon starts a doomed daemon and returns it with its worker's pid.
func (s *scene) daemon(t *testing.T) (*exec.Cmd, int) {
	t.Helper()
	var groups []string
	for _, b := range s.beds {
		groups = append(groups, fmt.Sprintf("%s:%d", b.path, b.inode))
	}
	t.Setenv("GROUPS", strings.Join(groups, ","))
	t.Setenv("STATE", s.state)
	t.Setenv("TEMP", s.temp)
	t.Setenv("MEMORY", s.beds[0].h.Memory)
	cmd, line := role(t, "", "daemon")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, pid
}

// clean says what of the machine is not as it was before the daemon.
func (s *scene) clean() error {
	var errs []error
	for _, b := range s.beds {
		g, err := b.h.Open(b.path)
		if err != nil {
			return err
		}
		var st cgroup.Stat
		err = g.Stat(&st)
		g.Close()
		if err != nil {
			return err
		}
		if st.Limit != cgroup.Unlimited {
			errs = append(errs, fmt.Errorf("limit of %s is %d", b.path, st.Limit))
		}
		v, _, err := readKnob(filepath.Join(b.dir, "memory.swappiness"))
		if err != nil || v != "60" {
			errs = append(errs, fmt.Errorf("swappiness of %s is %s, %v", b.path, v, err))
		}
		if exists(filepath.Join(b.dir, "made")) {
			errs = append(errs, fmt.Errorf("cgroup made in %s is still there", b.path))
		}
	}
	if exists(s.temp) {
		errs = append(errs, errors.New("temporary directory is still there"))
	}
	return errors.Join(errs...)
}

func (s *scene) alive(t *testing.T) {
	t.Helper()
	for _, cmd := range s.loads {
		if err := sys.Kill(cmd.Process.Pid, 0); err != nil {
			t.Fatalf("a workload died: %v", err)
		}
	}
}

// instant waits for a random moment up to most.
func instant(rng *rand.Rand, most time.Duration) {
	<-time.After(time.Duration(rng.Int64N(int64(most))))
}

func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func TestKillingTheDaemonRestoresEverything(t *testing.T) { killDaemon(t) }

// The same with steps that hold memory.swappiness at another value.
func TestKillingTheDaemonRestoresTheBalance(t *testing.T) {
	t.Setenv("CHOOSE", "1")
	killDaemon(t)
}

func killDaemon(t *testing.T) {
	s, rng := newScene(t), seeded(t)
	var slowest time.Duration
	for i := range 32 {
		cmd, _ := s.daemon(t)
		instant(rng, 40*time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		cmd.Wait()
		// Whoever gets the lock knows that the worker has ended.
		lock, err := acquire(t.Context(), s.state)
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		slowest = max(slowest, time.Since(start))
		if err := s.clean(); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		journalEmpty(t, s.state)
		s.alive(t)
		lock.Close()
	}
	t.Logf("slowest complete undoing: %v", slowest)
	if slowest > 3*time.Second { // a second is the promise for limits and knobs; the machine may be loaded
		t.Errorf("restoration took %v", slowest)
	}
}

func TestKillingDaemonAndWorkerIsRepaired(t *testing.T) { killBoth(t) }

func TestKillingDaemonAndWorkerRepairsTheBalance(t *testing.T) {
	t.Setenv("CHOOSE", "1")
	killBoth(t)
}

func killBoth(t *testing.T) {
	s, rng := newScene(t), seeded(t)
	dirty := 0
	for i := range 24 {
		cmd, worker := s.daemon(t)
		instant(rng, 80*time.Millisecond)
		if i%2 == 0 { // the worker first, or the daemon first
			err := errors.Join(sys.Kill(worker, sys.SIGKILL), cmd.Process.Kill())
			if err != nil {
				t.Fatal(err)
			}
		} else if err := errors.Join(cmd.Process.Kill(), sys.Kill(worker, sys.SIGKILL)); err != nil && !errors.Is(err, sys.ESRCH) {
			t.Fatal(err)
		}
		cmd.Wait()
		if s.clean() != nil {
			dirty++
		}
		if i%4 == 3 { // the next daemon repairs, too
			mustClose(t, startWorker(t, s.state))
		} else if out, err := Restore(t.Context(), s.state, false, testLog(t)); err != nil || failures(out) != nil {
			t.Fatalf("round %d: %v, %+v", i, err, out)
		}
		if err := s.clean(); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		journalEmpty(t, s.state)
		s.alive(t)
	}
	t.Logf("%d of 24 killings left something to repair", dirty)
	if dirty == 0 {
		t.Error("no killing left anything behind: this test shows nothing")
	}
}

func TestWorkerOutlivesTerminalSignals(t *testing.T) {
	c := startWorker(t, stateDir(t))
	for _, sig := range []sys.Signal{sys.SIGINT, sys.SIGTERM, sys.SIGHUP, sys.SIGPIPE} {
		if err := sys.Kill(c.PID(), sig); err != nil {
			t.Fatal(err)
		}
	}
	if u, err := c.Usage(); err != nil || u.MaxRSS < mib || u.CPU <= 0 {
		t.Errorf("after the signals: %+v, %v", u, err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.PID()))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	if session := fields[3]; session != strconv.Itoa(c.PID()) {
		t.Errorf("worker %d is in session %s", c.PID(), session)
	}
	mustClose(t, c)
	<-c.Dead()
	if _, err := c.Usage(); err == nil {
		t.Error("a dead worker answered")
	}
}
