package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
)

// damonFiles is a folder that answers writes as mm/damon/sysfs.c does.
type damonFiles struct {
	t    *testing.T
	m    *machine
	dir  string
	busy int // so many writes are refused first
}

func newDamonFiles(t *testing.T) *damonFiles {
	root := t.TempDir()
	d := &damonFiles{t: t, m: &machine{root: root, boot: "b00t", log: testLog(t)}, dir: filepath.Join(root, kdamonds)}
	d.m.write = d.write
	j, _, err := journal.Open(stateDir(t), journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	d.m.j = j
	d.put("nr_kdamonds", "0")
	return d
}

func (d *damonFiles) put(name, value string) {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(value+"\n"), 0o600)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *damonFiles) get(name string) string { return value(d.t, filepath.Join(d.dir, name)) }

func (d *damonFiles) write(path, value string) error {
	if d.busy > 0 {
		d.busy--
		return &os.PathError{Op: "write", Path: path, Err: sys.EBUSY}
	}
	on := exists(filepath.Join(d.dir, "0")) && d.get("0/state") == "on"
	switch name, _ := filepath.Rel(d.dir, path); {
	case name == "nr_kdamonds" && on:
		return &os.PathError{Op: "write", Path: path, Err: sys.EBUSY}
	case name == "nr_kdamonds":
		// Made before the old one goes: a folder's inode may come again at once, one of sysfs does not.
		if value != "0" {
			d.put("new/state", "off")
			d.put("new/contexts/nr_contexts", "0")
		}
		err := os.RemoveAll(filepath.Join(d.dir, "0"))
		if value != "0" {
			err = errors.Join(err, os.Rename(filepath.Join(d.dir, "new"), filepath.Join(d.dir, "0")))
		}
		d.put(name, value)
		return err
	case name == "0/state" && (value == "on" || value == "off"):
		d.put(name, value)
	}
	return nil
}

func TestKdamondIsSetUpAndRemoved(t *testing.T) {
	d := newDamonFiles(t)
	d.busy = 2
	e, err := d.m.do(t.Context(), Change{Kdamond: &Kdamond{}})
	if err != nil || d.get("nr_kdamonds") != "1" || !e.Made || e.Inode == 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	if _, err := d.m.do(t.Context(), Change{Kdamond: &Kdamond{}}); !errors.Is(err, errors.ErrUnsupported) || errkind.HintOf(err) == "" {
		t.Errorf("a second one: %v", err)
	}
	if err := d.m.command(t.Context(), e.ID, KdamondOn); err != nil || d.get("0/state") != "on" {
		t.Errorf("on: %v", err)
	}
	for _, bad := range []string{"off", "", "on\n"} {
		if err := d.m.command(t.Context(), e.ID, bad); errkind.Of(err) != errkind.Invalid {
			t.Errorf("command %q: %v", bad, err)
		}
	}
	if err := d.m.command(t.Context(), e.ID+1, KdamondOn); errkind.Of(err) != errkind.NotFound {
		t.Errorf("another's: %v", err)
	}
	d.busy = 3
	if o := d.m.undo(t.Context(), e, true); o.Result != Removed || d.get("0/state") != "on" {
		t.Errorf("dry: %+v", o)
	}
	if o := d.m.undo(t.Context(), e, false); o.Result != Removed || o.Err != nil || d.get("nr_kdamonds") != "0" || exists(filepath.Join(d.dir, "0")) {
		t.Errorf("%+v", o)
	}
	if o := d.m.undo(t.Context(), e, false); o.Result != Nothing {
		t.Errorf("again: %+v", o)
	}
}

// Whatever of the making was done when both processes were killed, and whatever somebody did since.
func TestKdamondIsRemovedFromEveryState(t *testing.T) {
	for _, tc := range []struct {
		name   string
		entry  func(*damonFiles, *journal.Entry) // what is in the journal and in the files
		result string
		left   string // nr_kdamonds afterwards
	}{
		{"nothing made yet", func(*damonFiles, *journal.Entry) {}, Nothing, "0"},
		{"made, not recorded", func(d *damonFiles, _ *journal.Entry) { d.write(d.dir+"/nr_kdamonds", "1") }, Removed, "0"},
		{"not recorded, and set up by somebody", func(d *damonFiles, _ *journal.Entry) {
			d.write(d.dir+"/nr_kdamonds", "1")
			d.put("0/contexts/nr_contexts", "1")
		}, Alone, "1"},
		{"recorded", func(d *damonFiles, e *journal.Entry) {
			d.write(d.dir+"/nr_kdamonds", "1")
			e.Inode, _, _ = inodeAt(d.dir + "/0")
			d.put("0/contexts/nr_contexts", "1")
		}, Removed, "0"},
		{"running", func(d *damonFiles, e *journal.Entry) {
			d.write(d.dir+"/nr_kdamonds", "1")
			e.Inode, _, _ = inodeAt(d.dir + "/0")
			d.write(d.dir+"/0/state", "on")
		}, Removed, "0"},
		{"made anew by somebody, and running", func(d *damonFiles, e *journal.Entry) {
			d.write(d.dir+"/nr_kdamonds", "1")
			e.Inode, _, _ = inodeAt(d.dir + "/0")
			d.write(d.dir+"/nr_kdamonds", "1")
			d.write(d.dir+"/0/state", "on")
		}, Alone, "1"},
		{"of an earlier boot", func(d *damonFiles, e *journal.Entry) {
			e.Boot = "earlier"
			d.write(d.dir+"/nr_kdamonds", "1")
			d.write(d.dir+"/0/state", "on")
		}, OtherBoot, "1"},
		{"forged", func(d *damonFiles, e *journal.Entry) {
			d.write(d.dir+"/nr_kdamonds", "1")
			e.Path = filepath.Join(d.m.root, "etc")
		}, Kept, "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := newDamonFiles(t)
			e := d.m.fresh(journal.Kdamond, filepath.Join(d.dir, "0"))
			tc.entry(d, &e)
			state := exists(d.dir+"/0") && d.get("0/state") == "on"
			o := d.m.undo(t.Context(), e, false)
			if o.Result != tc.result || (o.Err != nil) != (tc.result == Kept) || d.get("nr_kdamonds") != tc.left {
				t.Errorf("%+v, %s kdamonds left", o, d.get("nr_kdamonds"))
			}
			if tc.left == "1" && (d.get("0/state") == "on") != state {
				t.Error("somebody's kdamond was switched")
			}
		})
	}
}

func TestCommandsReachOurKdamondOnly(t *testing.T) {
	d := newDamonFiles(t)
	e, err := d.m.do(t.Context(), Change{Kdamond: &Kdamond{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.write(d.dir+"/nr_kdamonds", "1"); err != nil { // somebody else
		t.Fatal(err)
	}
	if err := d.m.command(t.Context(), e.ID, KdamondOn); !errors.Is(err, fs.ErrNotExist) || d.get("0/state") != "off" {
		t.Errorf("%v, state %s", err, d.get("0/state"))
	}
}

// freeDAMON skips t unless the machine has DAMON and nobody uses it.
func freeDAMON(t *testing.T) {
	t.Helper()
	probe.Need(t, probe.Root)
	switch n, _, err := readKnob("/" + kdamonds + "/nr_kdamonds"); {
	case errors.Is(err, fs.ErrNotExist):
		t.Skip("needs DAMON's sysfs interface")
	case err != nil:
		t.Fatal(err)
	case n != "0":
		t.Skipf("DAMON is in use: %s kdamonds are set up", n)
	}
}

// kdamondDaemon starts a worker, tells its pid, and then sets up, runs and removes a kdamond until it is killed.
func kdamondDaemon() error {
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
	for {
		d, err := c.Do(ctx, Change{Kdamond: &Kdamond{}})
		if err != nil {
			return err
		}
		for _, set := range [][2]string{
			{"nr_contexts", "1"}, {"0/operations", "fvaddr"}, {"0/monitoring_attrs/intervals/sample_us", "10000"},
			{"0/monitoring_attrs/intervals/aggr_us", os.Getenv("AGGR")}, {"0/targets/nr_targets", "1"},
			{"0/targets/0/pid_target", strconv.Itoa(os.Getpid())}, {"0/targets/0/regions/nr_regions", "1"},
			{"0/targets/0/regions/0/start", "4194304"}, {"0/targets/0/regions/0/end", "8388608"},
		} {
			path := filepath.Join("/", kdamonds, "0", "contexts", set[0])
			if err := patiently(ctx, time.Second, func() error { return writeKnob(path, set[1]) }); err != nil {
				return err
			}
		}
		for _, command := range []string{KdamondOn, KdamondCommit} {
			if err := c.Kdamond(ctx, d.ID, command); err != nil {
				return err
			}
		}
		if err := c.Undo(ctx, d.ID); err != nil {
			return err
		}
	}
}

// On a kernel whose DAMON is free: no kdamond outlives the daemon, and none Restore.
func TestKillingLeavesNoKdamond(t *testing.T) {
	freeDAMON(t)
	state, rng := stateDir(t), seeded(t)
	t.Setenv("STATE", state)
	dirty, slowest := 0, time.Duration(0)
	for i := range 24 {
		// A commit waits for an aggregation, and a killed worker for the commit. One that lives does not wait for a
		// long one.
		t.Setenv("AGGR", [...]string{"50000", "50000", "50000", "60000000"}[i%4])
		cmd, line := role(t, "", "kdamond")
		worker, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		instant(rng, 400*time.Millisecond)
		both := i%2 == 0
		if both {
			if err := sys.Kill(worker, sys.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil && !(both && errors.Is(err, os.ErrProcessDone)) {
			t.Fatal(err)
		}
		cmd.Wait()
		start := time.Now()
		if v := value(t, "/"+kdamonds+"/nr_kdamonds"); v != "0" {
			dirty++
		}
		if both {
			if out, err := Restore(t.Context(), state, false, testLog(t)); err != nil || failures(out) != nil {
				t.Fatalf("round %d: %v, %+v", i, err, out)
			}
		}
		lock, err := acquire(t.Context(), state) // the worker has ended
		if err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(start))
		if v := value(t, "/"+kdamonds+"/nr_kdamonds"); v != "0" {
			t.Fatalf("round %d: %s kdamonds", i, v)
		}
		if out, err := exec.Command("ps").Output(); err == nil && strings.Contains(string(out), "kdamond.") {
			t.Fatalf("round %d: a kdamond runs:\n%s", i, out)
		}
		journalEmpty(t, state)
		lock.Close()
	}
	t.Logf("%d of 24 killings left something to repair, slowest repair %v", dirty, slowest)
	if dirty == 0 {
		t.Error("no killing left anything behind: this test shows nothing")
	}
	if slowest > 20*time.Second { // of the minute that a commit may wait
		t.Errorf("repairing took %v", slowest)
	}
}
