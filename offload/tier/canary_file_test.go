package tier

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/internal/worker"
)

// Where to measure: the first folder on a disk; a machine without one is told so, and by name.
func TestWhereFilesAreMeasured(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"state", "var/tmp", "upper"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mounts := "1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 0:5 / /state rw - tmpfs tmpfs rw\n3 1 0:6 / /upper rw - overlay overlay rw\n"
	write(t, filepath.Join(root, "proc/self/mountinfo"), mounts)
	c := CanaryConfig{Root: root}
	for _, tc := range []struct {
		dirs               string
		dir, fs, note, err string
	}{
		{"/state /var/tmp", "/var/tmp", "ext4", "", ""},
		{"/no/such /upper", "/upper", "overlay", "upper layer", ""},
		{"/state", "", "", "", "tmpfs, which lies in memory"},
		{"/no/such", "", "", "", "no folder"},
	} {
		m, err := c.onDisk(strings.Fields(tc.dirs))
		if m.Dir != tc.dir || m.Type != tc.fs || !strings.Contains(m.Note, tc.note) || (m.Note == "") != (tc.note == "") {
			t.Errorf("%s: %+v", tc.dirs, m)
		}
		if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || errkind.Of(err) != errkind.Unavailable) {
			t.Errorf("%s: %v, want %q", tc.dirs, err, tc.err)
		}
	}
}

// The canary process leaves no file, and refuses what it cannot do. Whether pages can be dropped depends on the
// folder's file system.
func TestCanaryReadsAFileOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	n := 256 * os.Getpagesize()
	c := canary{}
	a, err := c.file(dir, int64(n), 0)
	if err != nil || a.Pages != 256 || a.Faults > 0 && (a.P50 <= 0 || a.P99 < a.P50) {
		t.Errorf("%+v, %v", a, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	for line, want := range map[string]string{
		fmt.Sprintf(`{"do":"file","dir":%q,"bytes":1}`, dir):       "not a number of pages",
		`{"do":"file","dir":"/proc/self/nosuchdir","bytes":65536}`: "no such file",
	} {
		list, err := orders(t, line)
		if err != nil || len(list) != 1 || !strings.Contains(list[0].Error, want) {
			t.Errorf("%s: %+v, %v; want %q", line, list, err, want)
		}
	}
}

// On this machine: the pages really leave and come back, one alone costs more than one of many, and nothing is left.
func TestFileCanaryOnThisHost(t *testing.T) {
	probe.Need(t, probe.Root)
	h, err := cgroup.Discover("/")
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("needs a memory controller: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	testkit.HostLock(t)
	before := hostState(t, h)
	dir, err := os.MkdirTemp("/var/tmp", "spillway-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w, err := worker.Start(t.Context(), worker.Config{Exe: exe, StateDir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	set, err := Open("/", log)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	conf := CanaryConfig{Exe: exe, Hierarchy: h, Set: set, Worker: w, Size: 8 * bytesize.MiB, Limit: time.Minute, Log: log}
	m, err := CanaryFile(t.Context(), conf, "/dev/shm", dir)
	if errkind.Of(err) == errkind.Unavailable {
		t.Skipf("needs a disk whose cache can be dropped: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	set.RecordFile(m)
	t.Logf("%+v", set.FileCost())
	if pages := int(conf.Size) / os.Getpagesize(); m.Pages < pages/2 || m.Pages > pages || m.Dir != dir {
		t.Errorf("%d of %d pages came back in %q", m.Pages, pages, m.Dir)
	}
	if m.P50 <= 0 || m.P99 < m.P50 || m.Mean <= 0 || m.InOrder <= 0 {
		t.Errorf("times %+v", m)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
	if after := hostState(t, h); after != before {
		t.Errorf("the host was\n%s\nand is\n%s", before, after)
	}
}
