package track

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit"
)

// machine is a made-up root with one cgroup, /app.
type machine struct {
	*testkit.CgroupTree
	t *testing.T
	h cgroup.Hierarchy
	g Group
}

func newMachine(t *testing.T, path string) *machine {
	m := &machine{CgroupTree: testkit.NewCgroupTree(t, testkit.CgroupV2), t: t}
	m.Put(path, testkit.MemGroup{Procs: []int{7, 8}})
	var err error
	if m.h, err = cgroup.Discover(m.Root); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(m.Memory, path))
	if err != nil {
		t.Fatal(err)
	}
	m.g = Group{path, sys.Inode(info)}
	return m
}

func (m *machine) file(name, text string) {
	m.t.Helper()
	p := filepath.Join(m.Root, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) get(name string) string {
	m.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.Root, name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(b)
}

// Each source says what is missing and what to do; a source that somebody uses is left alone.
func TestCheckSaysWhatIsMissing(t *testing.T) {
	m := newMachine(t, "/app")
	want := func(k Kind, text, do string) {
		t.Helper()
		err := Check(m.Root, k)
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(errkind.HintOf(err), do) {
			t.Errorf("%s: %v, hint %q; want %q and %q", k, err, errkind.HintOf(err), text, do)
		}
		var missing *probe.Missing
		if errors.As(err, &missing) != errors.Is(err, errors.ErrUnsupported) && k != DAMON {
			t.Errorf("%s: %v is a Missing or unsupported, not both", k, err)
		}
	}
	want(MGLRU, "Linux 6.1", "CONFIG_LRU_GEN")
	m.file(lruGenEnabled, "0x0000\n")
	want(MGLRU, "switched off", "echo y > /sys/kernel/mm/lru_gen/enabled")
	m.file(lruGenEnabled, "0x0001\n")
	want(MGLRU, "page tables", "echo 0x7")
	m.file(lruGenEnabled, "0x0007\n")
	want(MGLRU, "debugfs", "mount -t debugfs none /sys/kernel/debug")
	m.file(lruGenEnabled, "\x1b[2J\n")
	want(MGLRU, `\x1b`, "")
	m.file(lruGenEnabled, "0x0007\n")
	m.file(lruGen, "")
	if err := Check(m.Root, MGLRU); err != nil {
		t.Error(err)
	}

	want(DAMON, "Linux 5.18", "CONFIG_DAMON_SYSFS")
	m.file(kdamonds+"/nr_kdamonds", "many\n")
	want(DAMON, "many", "")
	m.file(kdamonds+"/nr_kdamonds", "2\n")
	m.file(kdamonds+"/0/state", "off\n")
	m.file(kdamonds+"/1/state", "on\n")
	m.file(kdamonds+"/1/pid", "78\n")
	want(DAMON, "kdamond 1 (pid 78) runs, is not ours", "another source")
	m.file(kdamonds+"/1/state", "off\n")
	want(DAMON, "2 kdamonds are set up", "another source")
	m.file(kdamonds+"/nr_kdamonds", "0\n")
	if err := Check(m.Root, DAMON); err != nil {
		t.Error(err)
	}

	want(Idle, "Linux 4.3", "CONFIG_IDLE_PAGE_TRACKING")
	m.file(idleBitmap, "")
	want(Idle, "kpagecgroup", "CONFIG_MEMCG")
	m.file(pageCgroup, "")
	want(Idle, "kpageflags", "CONFIG_PROC_PAGE_MONITOR")
	m.file(pageFlags, "")
	if err := Check(m.Root, Idle); err != nil {
		t.Error(err)
	}
	want(ClearRefs, "Linux 2.6.22", "CONFIG_PROC_PAGE_MONITOR")
	m.file("proc/self/smaps", "")
	m.file("proc/self/clear_refs", "")
	if err := Check(m.Root, ClearRefs); err != nil {
		t.Error(err)
	}
}

// auto takes the first source that works, and clear-refs only when it was asked for.
func TestAutoPrefers(t *testing.T) {
	m := newMachine(t, "/app")
	open := func(c Config) string {
		t.Helper()
		tr, err := Open(m.Root, m.h, c, nil)
		if err != nil {
			return errkind.Of(err).String() + ": " + errkind.HintOf(err)
		}
		defer tr.Close()
		return tr.Source()
	}
	m.file("proc/self/smaps", "")
	m.file("proc/self/clear_refs", "")
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "unsupported: set clear_refs: true below offload.heat, or name the source: --source clear-refs"},
		{Config{ClearRefs: true}, "clear-refs"},
		{Config{Source: ClearRefs}, "clear-refs"},
		{Config{Source: Off}, "unsupported: set heat.source in the configuration"},
		{Config{Source: "sundial"}, "invalid: use one of auto, mglru, idle, damon, clear-refs, off"},
		{Config{Source: MGLRU}, "unsupported: use a kernel built with CONFIG_LRU_GEN"},
	} {
		if got := open(c.cfg); got != c.want {
			t.Errorf("%+v: %s, want %s", c.cfg, got, c.want)
		}
	}
	_, err := Open(m.Root, m.h, Config{}, nil)
	for _, part := range []string{"multi-generational LRU", "DAMON", "idle page tracking", "clear-refs"} {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("%v does not say why not %s", err, part)
		}
	}
	for _, name := range []string{idleBitmap, pageCgroup, pageFlags} {
		m.file(name, "")
	}
	if got := open(Config{ClearRefs: true}); got != "idle-bitmap" {
		t.Errorf("source %s, want the idle bitmap", got)
	}
	m.file(lruGenEnabled, "0x0007\n")
	m.file(lruGen, "")
	if got := open(Config{ClearRefs: true}); got != "mglru" {
		t.Errorf("source %s, want mglru", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	if c, err := (Config{}).Resolved(); err != nil || c != (Config{Source: Auto, Every: 2 * time.Minute}) {
		t.Errorf("zero is %+v, %v", c, err)
	}
	for _, c := range []Config{{Every: time.Second}, {Every: time.Hour}, {Every: -1}, {Source: "x"}} {
		if _, err := c.Resolved(); errkind.Of(err) != errkind.Invalid || errkind.HintOf(err) == "" {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

var begin = time.Unix(1e9, 0)

func (m *machine) scan(tr *Tracker, after time.Duration) Result {
	m.t.Helper()
	r, err := tr.Scan(context.Background(), begin.Add(after), []Group{m.g})
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

// Generations of a made-up kernel, two nodes, under a name that is hostile.
func TestScanGenerations(t *testing.T) {
	m := newMachine(t, "/app \x1b[2J node 0")
	m.file(lruGenEnabled, "0x0007\n")
	sizes := map[int][]int64{0: {0, 100}, 1: {0, 50}} // pages by generation, oldest first
	first := map[int]uint64{}
	show := func() {
		var b strings.Builder
		fmt.Fprintf(&b, "memcg     1 /\n node     0\n          0          5          1          1 \n")
		fmt.Fprintf(&b, "memcg    42 %s\n", m.g.Path)
		for node := range 2 {
			fmt.Fprintf(&b, " node     %d\n", node)
			for i, pages := range sizes[node] {
				fmt.Fprintf(&b, " %10d %10d %10d  %10d \n", first[node]+uint64(i), (len(sizes[node])-1-i)*120_000, pages/2, pages-pages/2)
			}
		}
		m.file(lruGen, b.String())
	}
	show()
	tr, err := Open(m.Root, m.h, Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var said []string
	tr.src.(*mglru).age = func(root string, id uint64, node int, max uint64) error {
		if root != m.Root {
			t.Errorf("root %q", root)
		}
		said = append(said, fmt.Sprintf("%d %d %d", id, node, max))
		s := sizes[node]
		hot := int64(10) // in each node ten pages are touched between two scans
		for i := 0; i < len(s)-1 && hot > 0; i++ {
			n := min(s[i], hot)
			s[i] -= n
			s[len(s)-1] += n
			hot -= n
		}
		if len(s) == 4 {
			s = append([]int64{s[0] + s[1]}, s[2:]...)
			first[node]++
		}
		sizes[node] = append(s, 0)
		show()
		return nil
	}
	var r Result
	for i := range 6 {
		r = m.scan(tr, time.Duration(i)*2*time.Minute)
	}
	got := r.Readings[m.g]
	if got.Source != "mglru" || got.Cold.Total() != 150*4096 || got.Promo == nil {
		t.Errorf("%+v, %v", got, r.Errors)
	}
	if cold := got.Cold.Colder(2 * time.Minute); cold < 90*4096 || cold > 130*4096 {
		t.Errorf("%d pages idle for two minutes: %v", cold/4096, got.Cold)
	}
	if len(said) != 12 || said[0] != "42 0 1" || said[11] != "42 1 6" {
		t.Errorf("ageing %q", said)
	}
	m.file(lruGen, "memcg 1 /\n")
	if r := m.scan(tr, time.Hour); errkind.Of(r.Errors[m.g]) != errkind.NotFound || len(r.Readings) != 0 {
		t.Errorf("a cgroup that is gone: %v", r.Errors)
	}
}

// The bitmap of a made-up machine of 40,000 pages: what the test clears was touched.
func TestScanIdleBitmap(t *testing.T) {
	const pages = 40_000
	m := newMachine(t, "/app")
	cgroups, flags := make([]byte, 8*pages), make([]byte, 8*pages)
	own := func(page int, inode uint64, flag uint64) {
		binary.NativeEndian.PutUint64(cgroups[8*page:], inode)
		binary.NativeEndian.PutUint64(flags[8*page:], flag)
	}
	for i := range 200 { // 100 on either side of a chunk's edge
		own(chunk-100+i, m.g.Inode, flagLRU)
	}
	own(5, m.g.Inode, 0)         // a page table
	own(6, m.g.Inode+1, flagLRU) // somebody else's
	own(chunk+512, m.g.Inode, flagLRU)
	for i := 1; i < 512; i++ { // a huge page
		own(chunk+512+i, m.g.Inode, flagTail)
	}
	m.file(pageCgroup, string(cgroups))
	m.file(pageFlags, string(flags))
	m.file(idleBitmap, string(make([]byte, pages/8)))
	tr, err := Open(m.Root, m.h, Config{Source: Idle}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	touch := func(list ...int) {
		b := []byte(m.get(idleBitmap))
		for _, p := range list {
			b[bit(p%chunk)+p/chunk*chunk/8] &^= 1 << (p % 8)
		}
		m.file(idleBitmap, string(b))
	}
	r := m.scan(tr, 0).Readings[m.g]
	if r.Cold.Total() != 712*4096 || r.Cold.Colder(1) != 0 || r.Source != "idle-bitmap" {
		t.Errorf("first scan: %+v", r)
	}
	for _, p := range []int{5, 6, chunk + 513} {
		if b := m.get(idleBitmap); b[bit(p%chunk)+p/chunk*chunk/8]&(1<<(p%8)) != 0 {
			t.Errorf("page %d was marked", p)
		}
	}
	hot := []int{chunk - 100, chunk + 99, chunk + 512}
	for i := range 4 {
		touch(hot...)
		r = m.scan(tr, time.Duration(i+1)*2*time.Minute).Readings[m.g]
	}
	if got := r.Cold.Colder(8 * time.Minute); got != 198*4096 || r.Cold.Colder(9*time.Minute) != 0 {
		t.Errorf("%d pages idle for 8 minutes, want 198: %v", got/4096, r.Cold)
	}
	touch(chunk-99, chunk-98)
	r = m.scan(tr, 10*time.Minute).Readings[m.g]
	if got := r.Promo.Colder(8 * time.Minute); got != 4096 {
		t.Errorf("two pages in two minutes came back after 8: %v", r.Promo)
	}
	if _, err := tr.Scan(context.Background(), begin.Add(time.Hour), nil); err != nil || len(tr.src.(*idleBits).ages) != 0 {
		t.Errorf("with nothing to watch it keeps ages: %v", err)
	}
}

// Processes of a made-up machine: one has left the cgroup by the time its bits would be cleared, and keeps them.
func TestClearsMembersOnly(t *testing.T) {
	m := newMachine(t, "/app")
	smaps := string(read(t, "smaps.txt"))
	for _, pid := range []int{7, 8} {
		m.file(fmt.Sprintf("proc/%d/smaps", pid), smaps)
		m.file(fmt.Sprintf("proc/%d/clear_refs", pid), "")
	}
	m.file("proc/self/smaps", "")
	m.file("proc/self/clear_refs", "")
	m.Place(7, "/app", "/app")
	m.Place(8, "/elsewhere", "/elsewhere")
	tr, err := Open(m.Root, m.h, Config{Source: ClearRefs}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if r := m.scan(tr, 0); len(r.Readings)+len(r.Errors) != 0 {
		t.Errorf("before the first clearing: %+v", r)
	}
	if m.get("proc/7/clear_refs") != "14" || m.get("proc/8/clear_refs") != "" {
		t.Errorf("cleared: %q and %q", m.get("proc/7/clear_refs"), m.get("proc/8/clear_refs"))
	}
	m.file("proc/7/clear_refs", "")
	r := m.scan(tr, 2*time.Minute).Readings[m.g]
	if got := r.Cold.Colder(2 * time.Minute); got != 2*(65536-16384)<<10 {
		t.Errorf("%d bytes idle: %v", got, r.Cold)
	}
	if m.get("proc/7/clear_refs") != "" {
		t.Error("cleared again within an epoch")
	}
	if m.scan(tr, 61*time.Minute); m.get("proc/7/clear_refs") != "14" {
		t.Error("not cleared after an epoch")
	}
	m.file("proc/7/smaps", "Pss: nonsense\n")
	if r := m.scan(tr, 62*time.Minute); r.Errors[m.g] == nil {
		t.Error("nonsense was read")
	}
	m.g.Inode++
	if r := m.scan(tr, 63*time.Minute); !errors.Is(r.Errors[m.g], cgroup.ErrGone) {
		t.Errorf("another cgroup of the same name: %v", r.Errors)
	}
}

func TestScanHeedsItsContext(t *testing.T) {
	m := newMachine(t, "/app")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, src := range []source{newClearRefs(m.Root, m.h), newIdleBitmap(m.Root)} {
		for _, name := range []string{idleBitmap, pageCgroup, pageFlags} {
			m.file(name, "")
		}
		if _, err := (&Tracker{src: src}).Scan(ctx, begin, []Group{m.g}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", src.name(), err)
		}
	}
}

// Any bytes in the kernel's three files give a histogram.
func FuzzIdleBitmap(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0}, []byte{32, 0, 0, 0, 0, 0, 0, 0}, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, cgroups, flags, bits []byte) {
		dir := t.TempDir()
		for name, b := range map[string][]byte{pageCgroup: cgroups, pageFlags: flags, idleBitmap: bits} {
			p := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, b, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		g := Group{"/a", 1}
		tr := &Tracker{src: newIdleBitmap(dir)}
		for i := range 3 {
			r, err := tr.Scan(context.Background(), begin.Add(time.Duration(i)*time.Minute), []Group{g})
			if err != nil {
				t.Fatal(err)
			}
			if total := r.Readings[g].Cold.Total(); total < 0 || total > int64(len(cgroups)/8*os.Getpagesize()) {
				t.Errorf("%d bytes in %d pages", total, len(cgroups)/8)
			}
		}
	})
}
