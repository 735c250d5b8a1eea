package worker

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
)

// A journal that somebody forged undoes no more than Do could have done.
func TestForgedEntriesTouchNothing(t *testing.T) {
	root := t.TempDir()
	m := &machine{root: root, boot: "b00t"}
	at := func(p string) string { return filepath.Join(root, p) }
	page := os.Getpagesize()
	header := make([]byte, page)
	copy(header[page-10:], "SWAPSPACE2")
	err := errors.Join(
		os.MkdirAll(at("sys/fs/cgroup/plain"), 0o700), os.MkdirAll(at("sys/devices"), 0o700), os.MkdirAll(at("proc"), 0o700),
		os.MkdirAll(at("etc/empty"), 0o700),
		os.WriteFile(at("proc/swaps"), []byte("Filename\tType\tSize\tUsed\tPriority\n"+"/etc/on file 1024 0 -2\n"), 0o600),
		os.Symlink(at("etc"), at("sys/out")), os.Symlink("devices", at("sys/class")), os.Symlink("etc", at("link")),
	)
	for name, text := range map[string]string{
		"etc/knob": "new", "sys/devices/knob": "new", "etc/secret": "key", "etc/long": strings.Repeat("k", 2*page),
		"etc/header": string(header), "etc/on": string(header), "etc/zeros": string(make([]byte, page/2)), "etc/linked": string(header),
	} {
		err = errors.Join(err, os.WriteFile(at(name), []byte(text), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	inode, _, err := inodeAt(at("etc/empty"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		kind    journal.Kind
		path    string
		inode   uint64
		result  string
		refused bool
	}{
		{"knob in etc", journal.Knob, at("etc/knob"), 0, Kept, true},
		{"knob by dots", journal.Knob, at("sys") + "/../etc/knob", 0, Kept, true},
		{"knob by a link that leads out", journal.Knob, at("sys/out/knob"), 0, Kept, true},
		{"knob by a link of the kernel", journal.Knob, at("sys/class/knob"), 0, Restored, false},
		{"directory in etc", journal.Mkdir, at("etc/empty"), inode, Kept, true},
		{"directory by a link", journal.Mkdir, at("sys/out/empty"), inode, Kept, true},
		{"directory that is no cgroup", journal.Mkdir, at("sys/fs/cgroup/plain"), 0, Kept, true},
		{"file that is no swap", journal.SwapFile, at("etc/secret"), 0, Alone, true},
		{"longer file that is no swap", journal.SwapFile, at("etc/long"), 0, Alone, true},
		{"swap by a link", journal.SwapFile, at("link/linked"), 0, Kept, true},
		{"swap that is on", journal.SwapFile, at("etc/on"), 0, Alone, true},
		{"swap with header", journal.SwapFile, at("etc/header"), 0, Removed, false},
		{"swap half made", journal.SwapFile, at("etc/zeros"), 0, Removed, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, _ := os.ReadFile(tc.path)
			e := journal.Entry{Kind: tc.kind, Boot: m.boot, Path: tc.path, Inode: tc.inode, Old: "old", New: "new", Size: 1 << 20, Kill: true}
			for _, dry := range []bool{true, false} {
				if o := m.undo(t.Context(), e, dry); o.Result != tc.result || (o.Err != nil) != tc.refused {
					t.Errorf("dry %v: %+v; want %q, refused %v", dry, o, tc.result, tc.refused)
				}
			}
			after, _ := os.ReadFile(tc.path)
			if tc.refused && (!exists(tc.path) || !bytes.Equal(before, after)) {
				t.Error("refused and changed all the same")
			}
			if tc.result == Removed && exists(tc.path) {
				t.Error("still there")
			}
		})
	}
	if _, err := m.prepareSwapFile(&SwapFile{Path: at("link/new"), Size: 1 << 20}, &journal.Entry{}); errkind.Of(err) != errkind.Invalid {
		t.Errorf("making a swap file by a link: %v", err)
	}
}

func TestLockOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "mode=0700,nr_blocks=1"); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := acquire(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if out, err := Restore(t.Context(), dir, false, testLog(t)); err != nil || len(out) != 0 {
		t.Errorf("restore: %+v, %v", out, err)
	}
}

func TestRestoreChecksTheDirectoryBeforeItMakesTheLock(t *testing.T) {
	open, real := stateDir(t), stateDir(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Chmod(open, 0o777), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{open, link} {
		for _, dry := range []bool{true, false} {
			if _, err := Restore(t.Context(), dir, dry, nil); errkind.Of(err) != errkind.Denied {
				t.Errorf("%s, dry %v: %v, want a refusal", dir, dry, err)
			}
			if exists(filepath.Join(dir, lockName)) {
				t.Errorf("%s, dry %v: made the lock", dir, dry)
			}
		}
	}
}

func TestRestoreReportsDamagedLines(t *testing.T) {
	dir := stateDir(t)
	if err := os.WriteFile(filepath.Join(dir, journal.FileName), []byte("garbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		out, err := Restore(t.Context(), dir, dry, testLog(t))
		if err != nil || len(out) != 1 || out[0].Err == nil || !strings.Contains(out[0].Err.Error(), "journal.damaged") || errkind.HintOf(out[0].Err) == "" {
			t.Errorf("dry %v: %+v, %v", dry, out, err)
		}
		if exists(filepath.Join(dir, journal.DamagedName)) == dry {
			t.Errorf("dry %v: journal.damaged there: %v", dry, !dry)
		}
	}
}
