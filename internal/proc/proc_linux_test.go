package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

const root = "testdata/root"

func TestMeminfo(t *testing.T) {
	got, err := ReadMeminfo(root)
	want := Meminfo{Total: 24683548 << 10, Free: 21354792 << 10, Available: 23728328 << 10, SwapTotal: 1535996 << 10,
		SwapFree: 1263416 << 10, SwapCached: 76004 << 10, Zswap: 103112 << 10, Zswapped: 196100 << 10, AnonPages: 381792 << 10, Cached: 2410944 << 10,
		SReclaimable: 241628 << 10, SUnreclaim: 42812 << 10, Percpu: 816 << 10}
	if err != nil || got != want {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	for _, bad := range []string{"", "MemFree: 1 kB\n", "MemTotal: -1 kB\n", "MemTotal:\n", "MemTotal: 9007199254740992 kB\n", "MemTotal: 1x kB"} {
		var m Meminfo
		if err := ParseMeminfo([]byte(bad), &m); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, %v", bad, m, err)
		}
	}
}

func TestVmstat(t *testing.T) {
	for text, want := range map[string]Vmstat{
		"pswpin 1\npswpout 2\nzswpin 3\nzswpout 4\nzswpwb 5\npgmajfault 6\nworkingset_refault_anon 7\nworkingset_refault_file 8\n" +
			"pgsteal_kswapd 10\npgsteal_direct 20\npgsteal_khugepaged 30\npgsteal_proactive 40\npgsteal_anon 155\npgsteal_file 45\n" +
			"pgscan_kswapd 1\npgscan_direct 2\npgscan_khugepaged 3\npgscan_proactive 4\npgscan_direct_throttle 99\npgscan_anon 1000\npgscan_file 5\n": {PswpIn: 1, PswpOut: 2, ZswpIn: 3, ZswpOut: 4, ZswpWb: 5, MajorFaults: 6, RefaultAnon: 7, RefaultFile: 8, Steal: 200, Scan: 1005},
		"pgmajfault 0\nworkingset_refault 9\npgsteal_kswapd 1\npgsteal_direct 2\npgscan_kswapd 4\n": {RefaultFile: 9, Steal: 3, Scan: 4}, // before 5.8
	} {
		var got Vmstat
		if err := ParseVmstat([]byte(text), &got); err != nil || got != want {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
		}
	}
	for _, bad := range []string{"", "pswpin 1\n", "pgmajfault\n", "pgmajfault -1\n", "pgmajfault 18446744073709551616\n"} {
		var v Vmstat
		if err := ParseVmstat([]byte(bad), &v); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, %v", bad, v, err)
		}
	}
	if v, err := ReadVmstat(root); err != nil || v.MajorFaults == 0 || v.Steal == 0 || v.Scan < v.Steal {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestSwaps(t *testing.T) {
	got, err := ReadSwaps(root)
	want := []SwapArea{
		{Path: "/dev/dm-1", Size: 8388604 << 10, Used: 1024 << 10, Priority: -2},
		{Path: `/var/lib/spill way/swap\file`, File: true, Size: 1535996 << 10, Used: 268388 << 10, Priority: 100},
		{Path: "/dev/zram0", Size: 2097148 << 10, Priority: 32767},
		{Path: "/swapfile (deleted)", File: true, Size: 1048572 << 10, Used: 12 << 10, Priority: -3},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	const header = "Filename\tType\tSize\tUsed\tPriority\n"
	if got, err := ParseSwaps([]byte(header)); err != nil || len(got) != 0 {
		t.Errorf("no swap: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "x\n", header + "/a file 1 2\n", header + "/a file 1 2 3 4\n", header + "/a file -1 2 3\n", header + "/a file 1 2 x\n", header + "/a file 9007199254740992 2 3\n"} {
		if got, err := ParseSwaps([]byte(bad)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}

func TestDisks(t *testing.T) {
	got, err := ReadDisks(root)
	want := []Disk{{Name: "loop0"},
		{Name: "vda", SectorsRead: 2519826, SectorsWritten: 8392112, IOTime: 61234 * time.Millisecond},
		{Name: "vda1", SectorsRead: 2510826, SectorsWritten: 8392112, IOTime: 61 * time.Second}, // 11 columns, before 4.18
		{Name: "zram0", SectorsRead: 96, SectorsWritten: 56, IOTime: 4 * time.Millisecond}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	for _, bad := range []string{"x\n", "8 0 sda 1 2 3\n", "8 0 sda 1 2 x 4 5 6 7 8 9 10 11\n", "8 0 sda 1 2 3 4 5 6 7 8 9 9223372036854775807 11\n"} {
		if got, err := ParseDisks([]byte(bad)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}

func TestMounts(t *testing.T) {
	got, err := ReadMounts(root)
	if err != nil || len(got) != 7 {
		t.Fatalf("%d mounts, %v", len(got), err)
	}
	want := Mount{Root: "/user.slice", Dir: "/sys/fs/cgroup/uni fied", Type: "cgroup2", Options: []string{"rw", "nsdelegate"}}
	if !reflect.DeepEqual(got[5], want) {
		t.Errorf("got %+v, want %+v", got[5], want)
	}
	if !got[3].HasOption("memory") || got[4].HasOption("memory") || !got[4].HasOption("cpuacct") {
		t.Errorf("controllers of %+v and %+v", got[3], got[4])
	}
	for _, bad := range []string{"x\n", "1 2 0:3 / /a rw proc proc rw\n", "1 2 0:3 / - proc\n", " - proc\n"} {
		if got, err := ParseMounts([]byte(bad)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}

func TestMembership(t *testing.T) {
	for _, c := range []struct {
		pid             int
		memory, unified string // "" for fs.ErrNotExist
	}{
		{0, "/kubepods/burstable/pod1/a:b", "/kubepods/pressure"},
		{4711, "/system.slice/x.service", "/system.slice/x.service"},
		{4712, "", ""}, // removed
		{4713, "", ""}, // above our namespace
		{4714, "", ""}, // no such process
	} {
		memory, err := MemoryPath(root, c.pid)
		if memory != c.memory || (c.memory == "") != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d: memory %q, %v", c.pid, memory, err)
		}
		unified, err := UnifiedPath(root, c.pid)
		if unified != c.unified || (c.unified == "") != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d: unified %q, %v", c.pid, unified, err)
		}
	}
	for _, bad := range []string{"x\n", "0:\n", "0::\n", "0::relative\n", "a:memory:/x\n"} {
		if got, err := ParseMembership([]byte(bad)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
	if release, err := KernelRelease(root); err != nil || release != "6.1.0-30-amd64" {
		t.Errorf("release %q, %v", release, err)
	}
}

func TestReader(t *testing.T) {
	for _, root := range []string{root, "/"} {
		r, err := OpenReader(root)
		if err != nil {
			t.Fatal(err)
		}
		var m Meminfo
		var v Vmstat
		for range 2 { // a held descriptor must start over
			if err := errors.Join(r.Meminfo(&m), r.Vmstat(&v)); err != nil || m.Total == 0 || m.Available > m.Total || v.MajorFaults == 0 {
				t.Errorf("%s: %+v, %+v, %v", root, m, v, err)
			}
		}
		if n := testing.AllocsPerRun(50, func() { err = errors.Join(r.Meminfo(&m), r.Vmstat(&v)) }); n != 0 || err != nil {
			t.Errorf("%s: %v allocations a read, %v", root, n, err)
		}
		r.buf = make([]byte, 100) // smaller than either file
		if err := r.Vmstat(&v); err != nil || v.MajorFaults == 0 {
			t.Errorf("%s: with a small buffer: %+v, %v", root, v, err)
		}
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Errorf("close twice: %v", err)
		}
	}
	if _, err := OpenReader(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no files: %v", err)
	}
}

func FuzzMeminfo(f *testing.F) {
	seed(f, "meminfo")
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Meminfo
		if err := ParseMeminfo(b, &m); err == nil && (m.Total <= 0 || m.Available < 0 || m.SwapFree < 0 || m.Zswapped < 0) {
			t.Errorf("%+v", m)
		}
	})
}

func FuzzVmstat(f *testing.F) {
	seed(f, "vmstat")
	f.Fuzz(func(t *testing.T, b []byte) {
		var v Vmstat
		if err := ParseVmstat(b, &v); err != nil && !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
	})
}

func FuzzSwaps(f *testing.F) {
	seed(f, "swaps")
	f.Fuzz(func(t *testing.T, b []byte) {
		areas, err := ParseSwaps(b)
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
		for _, a := range areas {
			if a.Size < 0 || a.Used < 0 || a.Path == "" {
				t.Errorf("%+v", a)
			}
		}
	})
}

func FuzzDisks(f *testing.F) {
	seed(f, "diskstats")
	f.Fuzz(func(t *testing.T, b []byte) {
		disks, err := ParseDisks(b)
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
		for _, d := range disks {
			if d.Name == "" || d.IOTime < 0 {
				t.Errorf("%+v", d)
			}
		}
	})
}

func FuzzMounts(f *testing.F) {
	seed(f, "self/mountinfo")
	f.Fuzz(func(t *testing.T, b []byte) {
		mounts, err := ParseMounts(b)
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
		for _, m := range mounts {
			if m.Root == "" || m.Dir == "" || m.Type == "" {
				t.Errorf("%+v", m)
			}
		}
	})
}

func FuzzMembership(f *testing.F) {
	seed(f, "self/cgroup", "4711/cgroup", "4712/cgroup", "4713/cgroup")
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMembership(b)
		if err != nil && (!errors.Is(err, ErrFormat) || m != Membership{}) {
			t.Errorf("%+v, %v", m, err)
		}
		for _, path := range []string{m.Memory, m.Unified} {
			if got, err := present(path, 1, "cgroup"); err == nil && (got == "" || got[0] != '/') {
				t.Errorf("%q", got)
			}
		}
	})
}

// seed gives the fuzzer the real file, its halves and some damage.
func seed(f *testing.F, names ...string) {
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(root, "proc", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
		f.Add(append([]byte("\x00\n \n\t"), b[len(b)/2:]...))
	}
	f.Add([]byte{})
}
