package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/testkit"
)

// scriptTB lets testkit's helpers work inside a script: what they ask of a test, the script gives.
type scriptTB struct {
	testing.TB
	ts  *testscript.TestScript
	dir string
}

func (s scriptTB) Helper()                   {}
func (s scriptTB) TempDir() string           { return s.dir }
func (s scriptTB) Fatalf(f string, a ...any) { s.ts.Fatalf(f, a...) }

// sysroot [v1|v2|hybrid] [noswap|fullswap] [nopsi]: makes a root folder for --sysroot; its name is $ROOT.
func cmdSysroot(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs("sysroot")
	mode, swap, psi := testkit.CgroupHybrid, "Filename\tType\tSize\tUsed\tPriority\n/dev/sdz2 partition 4194304 1024 -2\n", true
	swapTotal, swapFree := 4194304, 4193280
	for _, a := range args {
		switch a {
		case "v1", "v2", "hybrid":
			mode = testkit.CgroupMode(a)
		case "noswap":
			swap, swapTotal, swapFree = "Filename\tType\tSize\tUsed\tPriority\n", 0, 0
		case "fullswap":
			swap, swapFree = strings.Replace(swap, " 1024 ", " 4194300 ", 1), 4
		case "nopsi":
			psi = false
		default:
			ts.Fatalf("sysroot: unknown word %s", a)
		}
	}
	ts.Check(os.MkdirAll(dir, 0o755))
	of(ts).tree = testkit.NewCgroupTree(scriptTB{ts: ts, dir: dir}, mode)
	files := map[string]string{
		"proc/meminfo": fmt.Sprintf("MemTotal: 16777216 kB\nMemFree: 4194304 kB\nMemAvailable: 8388608 kB\nCached: 2097152 kB\n"+
			"AnonPages: 4194304 kB\nSwapTotal: %d kB\nSwapFree: %d kB\nSReclaimable: 1 kB\nSUnreclaim: 1 kB\nPercpu: 1 kB\nZswap: 0 kB\nZswapped: 0 kB\n",
			swapTotal, swapFree),
		"proc/vmstat": "pswpin 0\npswpout 0\nworkingset_refault_anon 0\nworkingset_refault_file 0\npgmajfault 0\n" +
			"pgsteal_kswapd 0\npgsteal_direct 0\npgscan_kswapd 0\npgscan_direct 0\nzswpin 0\nzswpout 0\nzswpwb 0\n",
		"proc/swaps":                "" + swap,
		"proc/diskstats":            "   8   2 sdz2 1 0 8 0 1 0 8 0 0 0 0 0 0 0 0 0 0\n",
		"proc/sys/kernel/osrelease": "6.12.9-test\n",
		"proc/sys/vm/page-cluster":  "3\n",
		"dev/sdz2":                  "",
	}
	if psi {
		line := "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n"
		files["proc/pressure/memory"], files["proc/pressure/io"], files["proc/pressure/cpu"] = line, line, line
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		ts.Check(os.MkdirAll(filepath.Dir(file), 0o755))
		ts.Check(os.WriteFile(file, []byte(text), 0o644))
	}
	ts.Setenv("ROOT", dir)
}

// cgroup PATH SIZE: adds a cgroup of that size, all anonymous, to the sysroot.
func cmdCgroup(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 || of(ts).tree == nil {
		ts.Fatalf("usage, after sysroot: cgroup PATH SIZE")
	}
	size, err := bytesize.Parse(args[1])
	ts.Check(err)
	of(ts).tree.Put(args[0], testkit.MemGroup{Usage: int64(size), Anon: int64(size), InactiveAnon: int64(size) / 2})
}
