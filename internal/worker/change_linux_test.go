package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/swap"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestKnobGoesBack(t *testing.T) {
	b := newBed(t, "knob")
	knob := filepath.Join(b.dir, "memory.swappiness")
	dir := stateDir(t)
	c := startWorker(t, dir)
	first := mustDo(t, c, Change{Knob: &Knob{knob, "10"}})
	second := mustDo(t, c, Change{Knob: &Knob{knob, "20"}})
	if v := value(t, knob); v != "20" {
		t.Fatalf("swappiness %s", v)
	}
	// Out of order: the later change stays, and learns the value before the earlier one.
	if err := c.Undo(t.Context(), first.ID); err != nil || value(t, knob) != "20" {
		t.Errorf("undo of the earlier change: %v, swappiness %s", err, value(t, knob))
	}
	if err := c.Undo(t.Context(), second.ID); err != nil || value(t, knob) != "60" {
		t.Errorf("undo of the later change: %v, swappiness %s", err, value(t, knob))
	}
	if err := c.Undo(t.Context(), second.ID); errkind.Of(err) != errkind.NotFound {
		t.Errorf("undo twice: %v", err)
	}
	if err := c.Undo(t.Context(), "x"); errkind.Of(err) != errkind.Invalid {
		t.Errorf("undo of nonsense: %v", err)
	}

	third := mustDo(t, c, Change{Knob: &Knob{knob, "30"}})
	setValue(t, knob, "77") // somebody else
	if err := c.Undo(t.Context(), third.ID); err != nil || value(t, knob) != "77" {
		t.Errorf("undo over a foreign value: %v, swappiness %s", err, value(t, knob))
	}
	setValue(t, knob, "60")
	limit := filepath.Join(b.dir, "memory.limit_in_bytes")
	before := value(t, limit)
	mustDo(t, c, Change{Knob: &Knob{limit, "64M"}}) // reads back as bytes
	mustClose(t, c)
	if v := value(t, limit); v != before {
		t.Errorf("limit %s after close, was %s", v, before)
	}
	journalEmpty(t, dir)
}

func TestKnobRefuses(t *testing.T) {
	b := newBed(t, "knobrefuse")
	dir := stateDir(t)
	c := startWorker(t, dir)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/sys/module/zswap/parameters/enabled", link); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, path, value string
		kind              errkind.Kind
	}{
		{"outside the kernel's files", "/etc/hostname", "x", errkind.Denied},
		{"link elsewhere", link, "Y", errkind.Denied},
		{"relative", "sys/kernel/mm", "x", errkind.Invalid},
		{"climbing", "/sys/../etc/hostname", "x", errkind.Invalid},
		{"missing", filepath.Join(b.dir, "memory.nonsense"), "1", errkind.NotFound},
		{"long value", filepath.Join(b.dir, "memory.swappiness"), strings.Repeat("1", 5000), errkind.Invalid},
		{"value the kernel refuses", filepath.Join(b.dir, "memory.swappiness"), "many", errkind.Internal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := c.Do(t.Context(), Change{Knob: &Knob{tc.path, tc.value}})
			if err == nil || errkind.Of(err) != tc.kind {
				t.Errorf("got %v (kind %v), want kind %v", err, errkind.Of(err), tc.kind)
			}
		})
	}
	if _, err := c.Do(t.Context(), Change{}); errkind.Of(err) != errkind.Invalid {
		t.Errorf("empty change: %v", err)
	}
	if v := value(t, filepath.Join(b.dir, "memory.swappiness")); v != "60" {
		t.Errorf("swappiness %s", v)
	}
	journalEmpty(t, dir)
}

func TestMkdirUndoKillsAndRemoves(t *testing.T) {
	b := newBed(t, "mkdir")
	dir := stateDir(t)
	c := startWorker(t, dir)
	kill, keep := filepath.Join(b.dir, "kill"), filepath.Join(b.dir, "keep")
	killID := mustDo(t, c, Change{Mkdir: &Mkdir{kill, true}})
	keepID := mustDo(t, c, Change{Mkdir: &Mkdir{keep, false}})
	if err := os.Mkdir(filepath.Join(kill, "child"), 0o755); err != nil {
		t.Fatal(err)
	}
	doomed, _ := role(t, filepath.Join(kill, "child"), "idle")
	spared, _ := role(t, keep, "idle")

	if _, err := c.Do(t.Context(), Change{Mkdir: &Mkdir{keep, true}}); errkind.Of(err) != errkind.Invalid || !errors.Is(err, fs.ErrExist) {
		t.Errorf("existing cgroup: %v", err)
	}
	if err := c.Undo(t.Context(), killID.ID); err != nil || exists(kill) {
		t.Errorf("undo with killing: %v, still there %v", err, exists(kill))
	}
	if err := doomed.Wait(); err == nil {
		t.Error("the process in the removed cgroup ended by itself")
	}
	if err := c.Undo(t.Context(), keepID.ID); errkind.Of(err) != errkind.Unavailable || !exists(keep) {
		t.Errorf("undo of a cgroup in use: %v", err)
	}
	if err := sys.Kill(spared.Process.Pid, 0); err != nil {
		t.Errorf("the process in the kept cgroup: %v", err)
	}
	if err := c.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "keep") {
		t.Errorf("close with a cgroup in use: %v, want it named", err)
	}
	spared.Process.Kill()
	spared.Wait()
	if out, err := Restore(t.Context(), dir, false, testLog(t)); err != nil || failures(out) != nil || len(out) != 1 || out[0].Result != Removed || exists(keep) {
		t.Errorf("restore later: %+v, %v", out, err)
	}
	journalEmpty(t, dir)
}

func TestDirectoriesRefuse(t *testing.T) {
	dir := stateDir(t)
	c := startWorker(t, dir)
	tmp := t.TempDir()
	if err := errors.Join(
		os.Symlink(tmp, filepath.Join(tmp, "link")),
		os.Symlink("nowhere", filepath.Join(tmp, "dangling")),
		os.Mkdir(filepath.Join(tmp, "there"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		ch   Change
		kind errkind.Kind
	}{
		{"root", Change{TempDir: &TempDir{"/"}}, errkind.Invalid},
		{"relative", Change{TempDir: &TempDir{"tmp/x"}}, errkind.Invalid},
		{"below a link", Change{TempDir: &TempDir{filepath.Join(tmp, "link/x")}}, errkind.Invalid},
		{"is a link", Change{TempDir: &TempDir{filepath.Join(tmp, "dangling")}}, errkind.Invalid},
		{"is there", Change{TempDir: &TempDir{filepath.Join(tmp, "there")}}, errkind.Invalid},
		{"cgroup outside the mounts", Change{Mkdir: &Mkdir{filepath.Join(tmp, "cgroup"), true}}, errkind.Denied},
		{"cgroup mount itself", Change{Mkdir: &Mkdir{"/sys/fs/cgroup", true}}, errkind.Denied},
		{"two at once", Change{TempDir: &TempDir{filepath.Join(tmp, "x")}, Mkdir: &Mkdir{"/sys/fs/cgroup/memory/x", true}}, errkind.Invalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := c.Do(t.Context(), tc.ch); err == nil || errkind.Of(err) != tc.kind {
				t.Errorf("got %v (kind %v), want kind %v", err, errkind.Of(err), tc.kind)
			}
		})
	}
	mustClose(t, c)
	journalEmpty(t, dir)
	if !exists(filepath.Join(tmp, "there")) {
		t.Error("an existing directory was removed")
	}
}

func TestTempDirGoesWithItsContentsOnly(t *testing.T) {
	dir := stateDir(t)
	c := startWorker(t, dir)
	tmp := t.TempDir()
	precious := filepath.Join(tmp, "precious")
	made := filepath.Join(tmp, "made")
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustDo(t, c, Change{TempDir: &TempDir{made}})
	if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("made %v, %v", info, err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(made, "a/b"), 0o755), os.Symlink(precious, filepath.Join(made, "a/link")), os.Symlink(tmp, filepath.Join(made, "up"))); err != nil {
		t.Fatal(err)
	}
	replaced := filepath.Join(tmp, "replaced")
	other := mustDo(t, c, Change{TempDir: &TempDir{replaced}})
	// Somebody else's directory at the same path is not ours to delete. The first one is kept so that its inode is.
	if err := errors.Join(os.Rename(replaced, replaced+"-old"), os.Mkdir(replaced, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := c.Undo(t.Context(), other.ID); err != nil || !exists(replaced) {
		t.Errorf("undo of a replaced directory: %v, still there %v", err, exists(replaced))
	}
	mustClose(t, c)
	if exists(made) || !exists(precious) {
		t.Errorf("made there: %v, file behind the link there: %v", exists(made), exists(precious))
	}
}

func TestSwapFileRoundTripAndKill(t *testing.T) {
	probe.Need(t, probe.SwapOn)
	testkit.HostLock(t)
	dir := stateDir(t)
	c := startWorker(t, dir)
	tmp, err := os.MkdirTemp("/var/tmp", "spillway-test-worker-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	home := filepath.Join(tmp, "home")
	mustDo(t, c, Change{TempDir: &TempDir{home}})
	path := filepath.Join(home, "swap")
	d, err := c.Do(t.Context(), Change{SwapFile: &SwapFile{Path: path, Size: 8 * mib, Priority: 3}})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("needs a disk filesystem at /var/tmp: %v", err)
	}
	if err != nil || d.Device != path {
		t.Fatalf("%+v, %v", d, err)
	}
	if !swapOn(t, path) {
		t.Error("not switched on")
	}
	if err := c.Undo(t.Context(), d.ID); err != nil || swapOn(t, path) || exists(path) {
		t.Errorf("undo: %v, on %v, there %v", err, swapOn(t, path), exists(path))
	}
	if _, err := c.Do(t.Context(), Change{SwapFile: &SwapFile{Path: path, Size: 100}}); errkind.Of(err) != errkind.Invalid || exists(path) {
		t.Errorf("tiny swap file: %v", err)
	}
	if _, err := c.Do(t.Context(), Change{SwapFile: &SwapFile{Path: "/dev/shm/spillway-test-swap", Size: 8 * mib}}); !errors.Is(err, errors.ErrUnsupported) || errkind.HintOf(err) == "" {
		t.Errorf("swap file on tmpfs: %v", err)
	}
	mustDo(t, c, Change{SwapFile: &SwapFile{Path: path, Size: 8 * mib, Priority: -1}})
	if err := sys.Kill(c.PID(), sys.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Dead()
	if _, err := c.Do(t.Context(), Change{TempDir: &TempDir{"/tmp/x"}}); errkind.Of(err) != errkind.Unavailable {
		t.Errorf("change after the worker's death: %v", err)
	}
	if !swapOn(t, path) {
		t.Fatal("the kill took the swap file away: nothing to restore")
	}
	dry, err := Restore(t.Context(), dir, true, testLog(t))
	if err != nil || len(dry) != 2 || dry[0].Result != Removed || !swapOn(t, path) {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	if out, err := Restore(t.Context(), dir, false, testLog(t)); err != nil || failures(out) != nil || swapOn(t, path) || exists(home) {
		t.Errorf("restore: %+v, %v; on %v, there %v", out, err, swapOn(t, path), exists(home))
	}
	journalEmpty(t, dir)
}

func swapOn(t testing.TB, path string) bool {
	t.Helper()
	areas, err := proc.ReadSwaps("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range areas {
		if a.Path == path {
			return true
		}
	}
	return false
}

func TestZramRoundTrip(t *testing.T) {
	probe.Need(t, probe.Zram)
	testkit.HostLock(t)
	dir := stateDir(t)
	c := startWorker(t, dir)
	d, err := c.Do(t.Context(), Change{Zram: &Zram{Size: 16 * mib, Priority: 9}})
	if err != nil {
		t.Fatal(err)
	}
	if !swapOn(t, d.Device) {
		t.Errorf("%q is not switched on", d.Device)
	}
	if _, err := c.Do(t.Context(), Change{Zram: &Zram{Size: 16 * mib, Algorithm: "nonsense"}}); errkind.Of(err) != errkind.Invalid {
		t.Errorf("unknown algorithm: %v", err)
	}
	c.hangUp()
	<-c.Dead()
	if swapOn(t, d.Device) {
		t.Errorf("%q is still on", d.Device)
	}
	dev, _ := (&machine{root: "/"}).zramNumber(d.Device)
	if size, err := swap.ZramSize("/", dev); err == nil && size != 0 {
		t.Errorf("%q still has %d bytes", d.Device, size)
	}
	journalEmpty(t, dir)
}

// A worker killed with its limit down, at exactly the instant that random kills rarely hit.
func TestRestoreOfALoweredLimit(t *testing.T) {
	b := newBed(t, "lowered")
	knob := filepath.Join(b.dir, "memory.swappiness")
	limit := filepath.Join(b.dir, "memory.limit_in_bytes")
	unlimited := value(t, limit)
	boot, err := sys.BootID("/")
	if err != nil {
		t.Fatal(err)
	}
	lowered := func(t *testing.T, boot string, inode uint64) string {
		dir := stateDir(t)
		j, _, err := journal.Open(dir, journal.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		id, err := j.Put(journal.Entry{Kind: journal.Limit, Boot: boot, At: time.Now().Unix(), Path: b.path, Inode: inode, Old: "max"})
		if err == nil {
			err = j.Intent(id, -1, 32*mib)
		}
		if err == nil {
			_, err = j.Put(journal.Entry{Kind: journal.Knob, Boot: boot, Path: knob, Inode: 0, Old: "60", New: "10"})
		}
		if err != nil {
			t.Fatal(err)
		}
		setValue(t, limit, itoa(32*mib))
		setValue(t, knob, "10")
		return dir
	}
	for _, tc := range []struct {
		name        string
		boot        string
		inode       uint64
		meddle      func()
		limit, knob string // after
		results     [2]string
	}{
		{"ours", boot, b.inode, func() {}, unlimited, "60", [2]string{Restored, Restored}},
		{"changed by another", boot, b.inode, func() { setValue(t, limit, itoa(48*mib)); setValue(t, knob, "33") }, itoa(48 * mib), "33", [2]string{Alone, Alone}},
		{"put back by another", boot, b.inode, func() { setValue(t, limit, "-1"); setValue(t, knob, "60") }, unlimited, "60", [2]string{Nothing, Nothing}},
		{"another cgroup at the path", boot, b.inode + 1, func() {}, itoa(32 * mib), "60", [2]string{Nothing, Restored}},
		{"another boot", "an-earlier-boot", b.inode, func() {}, itoa(32 * mib), "10", [2]string{OtherBoot, OtherBoot}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := lowered(t, tc.boot, tc.inode)
			tc.meddle()
			dry, err := Restore(t.Context(), dir, true, nil)
			if err != nil || len(dry) != 2 || dry[0].Result != tc.results[0] || dry[1].Result != tc.results[1] {
				t.Errorf("dry run %+v, %v; want %v", dry, err, tc.results)
			}
			out, err := Restore(t.Context(), dir, false, testLog(t))
			if err != nil || len(out) != 2 || out[0].Result != tc.results[0] || out[1].Result != tc.results[1] || failures(out) != nil {
				t.Errorf("restore %+v, %v; want %v", out, err, tc.results)
			}
			if l, k := value(t, limit), value(t, knob); l != tc.limit || k != tc.knob {
				t.Errorf("limit %s, swappiness %s; want %s, %s", l, k, tc.limit, tc.knob)
			}
			journalEmpty(t, dir)
		})
	}
}

func TestAfterARebootOnlyDurableThingsAreRemoved(t *testing.T) {
	probe.Need(t, probe.Root)
	dir, tmp := stateDir(t), t.TempDir()
	made, file, foreign := filepath.Join(tmp, "made"), filepath.Join(tmp, "swap"), filepath.Join(tmp, "foreign")
	if err := errors.Join(os.Mkdir(made, 0o700), os.WriteFile(filepath.Join(made, "x"), nil, 0o600), os.WriteFile(file, make([]byte, 4096), 0o600), os.WriteFile(foreign, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	ino, _, _ := inodeAt(made)
	j, _, err := journal.Open(dir, journal.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []journal.Entry{
		{Kind: journal.TempDir, Path: made, Inode: ino, Made: true},
		{Kind: journal.SwapFile, Path: file, Size: 8192, At: time.Now().Unix()}, // killed before its inode was on record
		{Kind: journal.SwapFile, Path: foreign, Size: 8192, At: time.Now().Unix()},
		{Kind: journal.Zram, Path: "/dev/zram0", Size: 4096},
		{Kind: journal.Mkdir, Path: filepath.Join(tmp, "none")},
	} {
		e.Boot = "an-earlier-boot"
		if _, err := j.Put(e); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	out, err := Restore(t.Context(), dir, false, testLog(t))
	if err != nil || failures(out) != nil || len(out) != 5 {
		t.Errorf("restore: %+v, %v", out, err)
	}
	if exists(made) || exists(file) || !exists(foreign) {
		t.Errorf("directory %v, swap file %v, somebody's file %v", exists(made), exists(file), exists(foreign))
	}
	journalEmpty(t, dir)
	if out, err := Restore(t.Context(), filepath.Join(tmp, "no-state"), false, nil); err != nil || out != nil {
		t.Errorf("restore of nothing: %+v, %v", out, err)
	}
}
