package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/testkit"
)

func TestHeatTable(t *testing.T) {
	min := admin.Duration(time.Minute)
	h := admin.Heat{
		Cgroup: "/pods/\x1b[2J\nevil", Source: "clear-refs", Span: 20 * min, Scan: 2 * min, Seen: 400 << 20, WorkingSet: 100 << 20,
		Curve: []admin.HeatPoint{{Idle: min, Bytes: 320 << 20, Known: true}, {Idle: 2 * min, Bytes: 300 << 20, Known: true},
			{Idle: 5 * min, Bytes: 1 << 20, Known: true}, {Idle: 15 * min, Known: true}, {Idle: 60 * min, Bytes: 4096}},
		Promoted: []admin.HeatAge{{Idle: 4 * min, Bytes: 3 << 20}, {Idle: 8 * min, Bytes: 1 << 20}},
		ScanCPU:  admin.Duration(8123 * time.Microsecond),
	}
	var b strings.Builder
	if err := writeHeat(&b, h); err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n")
	if err := writeHeat(&b, admin.Heat{Cgroup: "/empty", Source: "mglru"}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != heatTable {
		t.Errorf("it draws\n%s\nwant\n%s", got, heatTable)
	}
}

// heat runs the command on a made-up machine without a daemon and returns its exit code and what it said.
func heatOn(t *testing.T, root string, args ...string) (code int, out, said string) {
	t.Helper()
	var o, e strings.Builder
	code = run(append([]string{"offload", "heat", "--sysroot", root, "--socket", filepath.Join(t.TempDir(), "none")}, args...), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestHeatWithoutADaemon(t *testing.T) {
	m := testkit.NewCgroupTree(t, testkit.CgroupV2)
	m.Put("/app", testkit.MemGroup{Procs: []int{7}})
	m.Put("/inner", testkit.MemGroup{})
	m.Put("/inner/leaf", testkit.MemGroup{})
	m.Place(7, "/app", "/app")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"/app"}, 1, "start it: spillway up; or watch without it"},
		{[]string{"/app", "--for", "2s", "--scan", "1s"}, 3, "multi-generational LRU"},
		{[]string{"/app", "--for", "2s", "--scan", "1s", "--source", "damon"}, 3, "DAMON"},
		{[]string{"/app", "--for", "2s", "--scan", "1s", "--source", "clear-refs"}, 3, "CONFIG_PROC_PAGE_MONITOR"},
		{[]string{"/app", "--for", "1s"}, 2, "--for 1s is outside"},
		{[]string{"/app", "--for", "5s", "--scan", "1m"}, 2, "--scan 1m0s is outside 1s to --for 5s"},
		{[]string{"/none/", "--for", "5s"}, 1, `no cgroup "/none"`},
		{[]string{"/app", "--source", "off"}, 2, "is none of auto"},
		{[]string{"/none", "--for", "2s", "--scan", "1s"}, 1, "no cgroup"},
		{[]string{"inner", "--for", "2s", "--scan", "1s"}, 2, "name one of them, for example /inner/leaf"},
	} {
		if code, out, said := heatOn(t, m.Root, c.args...); code != c.code || !strings.Contains(said, c.want) || out != "" {
			t.Errorf("%q: exit %d, %q %q; want %d and %q", c.args, code, out, said, c.code, c.want)
		}
	}
}

// Watching by itself, on made-up files that do not change: three quarters of the memory are never referenced.
func TestHeatWatchesByItself(t *testing.T) {
	m := testkit.NewCgroupTree(t, testkit.CgroupV2)
	m.Put("/app", testkit.MemGroup{Procs: []int{7}})
	m.Place(7, "/app", "/app")
	smaps := "0-1 rw-p 0 00:00 0\nPss: 65536 kB\nPrivate_Dirty: 65536 kB\nReferenced: 16384 kB\n"
	for _, name := range []string{"proc/7/smaps", "proc/7/clear_refs", "proc/self/smaps", "proc/self/clear_refs"} {
		p := filepath.Join(m.Root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(smaps), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := heatFlags{source: "clear-refs", span: 5 * time.Minute, scan: time.Minute, sysroot: m.Root}
		h, err := new(app).watchHeat(t.Context(), "/app", f)
		if err != nil {
			t.Fatal(err)
		}
		const cold = 48 << 20
		if h.Seen != 64<<20 || h.Curve[2] != (admin.HeatPoint{Idle: admin.Duration(5 * time.Minute), Bytes: cold, Known: true}) || h.Curve[3].Known {
			t.Errorf("%+v", h)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(io.ErrClosedPipe)
		if _, err := new(app).watchHeat(ctx, "/app", f); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("interrupted: %v", err)
		}
	})
}

const heatTable = `cgroup       /pods/\x1b[2J\nevil
source       clear-refs, a scan every 2m, watched for 20m
memory       400 MiB seen
working set  100 MiB touched within 2m (25 %)
came back    4 MiB a minute
costs        8.12ms of processor time for the last scan, of all cgroups

NOT TOUCHED FOR   MEMORY  SHARE
             1m  320 MiB   80 %  ████████████████████████████████
             2m  300 MiB   75 %  ██████████████████████████████
             5m    1 MiB    0 %  █
            15m      0 B    0 %
             1h        ?         not watched for so long yet

cgroup       /empty
source       mglru, a scan every 0s, watched for 0s
memory       0 B seen
working set  at most 0 B touched within 2m (0 %)
came back    this source cannot see it
costs        0s of processor time for the last scan, of all cgroups

NOT TOUCHED FOR  MEMORY  SHARE
`
