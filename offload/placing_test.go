package offload

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/tier"
)

// knobWorker writes files as the worker does, and undoes by its rules: a change that was made over another one goes
// back to what was before both, and a value that somebody else wrote stays.
type knobWorker struct {
	*fakeWorker
	t       *testing.T
	entries []*knobEntry
}

type knobEntry struct{ path, old, now string }

func (w *knobWorker) Do(_ context.Context, c worker.Change) (worker.Done, error) {
	b, err := os.ReadFile(c.Knob.Path)
	if err != nil {
		return worker.Done{}, err
	}
	w.entries = append(w.entries, &knobEntry{c.Knob.Path, string(b), c.Knob.Value + "\n"})
	return worker.Done{ID: fmt.Sprint(len(w.entries))}, os.WriteFile(c.Knob.Path, []byte(c.Knob.Value+"\n"), 0o644)
}

func (w *knobWorker) Undo(_ context.Context, id string) error {
	var n int
	if _, err := fmt.Sscan(id, &n); err != nil || w.entries[n-1] == nil {
		w.t.Errorf("undo of %q: %v", id, err)
		return nil
	}
	e := w.entries[n-1]
	w.entries[n-1] = nil
	for _, later := range w.entries[n:] {
		if later != nil && later.path == e.path && later.old == e.now {
			later.old = e.old
			return nil
		}
	}
	if b, err := os.ReadFile(e.path); err != nil || string(b) != e.now {
		return err
	}
	return os.WriteFile(e.path, []byte(e.old), 0o644)
}

// outstanding is how many changes are not undone.
func (w *knobWorker) outstanding() (n int) {
	for _, e := range w.entries {
		if e != nil {
			n++
		}
	}
	return n
}

// tiered is a machine of Linux 6.12 with zswap before a partition, and cgroups whose pages went to the pool.
type tiered struct {
	*drive
	w    *knobWorker
	a    *Agent
	at   time.Time
	pods map[string]*pooled
}

// pooled is what one of them did, in bytes.
type pooled struct{ stored, sent, back, diskBack int64 }

func newTiered(t *testing.T, mode testkit.CgroupMode, change func(*Config)) *tiered {
	m := newMachine(t, mode)
	m.kernel("6.12.0")
	m.file("sys/module/zswap/parameters/shrinker_enabled", "N\n")
	k := &tiered{drive: newDrive(m), w: &knobWorker{fakeWorker: newFakeWorker(), t: t}, at: time.Now(),
		pods: map[string]*pooled{"/app/web": {}, "/app/batch": {}}}
	m.Put("/app", testkit.MemGroup{})
	if mode == testkit.CgroupV2 {
		m.Set("/app", fileWriteback, "1\n")
	}
	for path := range k.pods {
		k.put(path)
		if mode == testkit.CgroupV2 {
			m.Set(path, fileWriteback, "1\n")
			m.Set(path, fileZswapMax, "max\n")
		}
	}
	k.a = m.agent(k.w, func(c *Config) {
		c.Tiers.WriteBack = tier.Auto
		c.Roots = []string{"/app"}
		c.Classes = []class.Rule{{Match: "/app/batch", Class: class.Throughput}}
		if change != nil {
			change(c)
		}
	})
	return k
}

func (k *tiered) put(path string) {
	p := k.pods[path]
	k.Put(path, testkit.MemGroup{Usage: 400 * mib, Anon: 390 * mib, File: 10 * mib, InactiveAnon: 300 * mib,
		Swap: p.stored, Zswapped: p.stored, Zswap: p.stored / 3, RefaultAnon: uint64((p.back + p.diskBack) / 4096)})
	if k.Mode == testkit.CgroupV2 {
		k.Set(path, "memory.stat", k.Get(path, "memory.stat")+fmt.Sprintf("zswpout %d\nzswpin %d\npswpin %d\npswpout 1\n", p.sent/4096, p.back/4096, p.diskBack/4096))
	}
}

// minutes lets n pass, in each of which every cgroup sends so much to the pool and has so much come back.
func (k *tiered) minutes(n int, sent, back, diskBack int64) {
	k.t.Helper()
	for range n {
		var stored int64
		for path, p := range k.pods {
			p.stored, p.sent, p.back, p.diskBack = p.stored+sent-back, p.sent+sent, p.back+back, p.diskBack+diskBack
			stored += p.stored
			k.put(path)
		}
		k.file("proc/meminfo", fmt.Sprintf("MemTotal: 8388608 kB\nMemFree: 4194304 kB\nMemAvailable: 4194304 kB\nSwapTotal: 4194304 kB\nSwapFree: 3145728 kB\nZswap: %d kB\nZswapped: %d kB\n",
			stored/3/1024, stored/1024))
		k.counters()
		k.at = k.at.Add(time.Minute)
		k.a.tick(context.Background(), k.at, time.Minute)
		k.a.drainSteps()
	}
}

// knobs is what the kernel's files say.
func (k *tiered) knobs() map[string]string {
	out := map[string]string{}
	read := func(name, path string) {
		if b, err := os.ReadFile(path); err == nil {
			out[name] = strings.TrimSpace(string(b))
		}
	}
	read("shrinker", filepath.Join(k.Root, "sys/module/zswap/parameters/shrinker_enabled"))
	for path := range k.pods {
		read(path+" writeback", filepath.Join(k.Memory, path, fileWriteback))
		read(path+" max", filepath.Join(k.Memory, path, fileZswapMax))
	}
	return out
}

func (k *tiered) want(what string, want map[string]string) {
	k.t.Helper()
	all := map[string]string{"shrinker": "N", "/app/web writeback": "1", "/app/web max": "max", "/app/batch writeback": "1", "/app/batch max": "max"}
	maps.Copy(all, want)
	got := k.knobs()
	for name, v := range all {
		if g := got[name]; g != v && (v != "limited" || g == "max" || g == "0") {
			k.t.Errorf("%s: %s is %q, want %q", what, name, g, v)
		}
	}
}

func (k *tiered) says() string {
	s := k.a.Status()
	text := strings.Join(append(s.Will, s.Wont...), "\n")
	for _, c := range k.a.Cgroups() {
		text += "\n" + c.Path + ": " + c.Mix
	}
	return text
}

// Pages that are needed soon stay in the pool, those that are long cold may be pushed out of it, nothing is pushed
// while the budget is spent, and what is not managed any more is as it was.
func TestPagesAreWhereTheyBelong(t *testing.T) {
	t.Parallel()
	k := newTiered(t, testkit.CgroupV2, nil)
	k.want("at first", nil)
	k.minutes(10, 4*mib, 0, 0)
	k.want("after ten minutes", map[string]string{"shrinker": "Y", "/app/web writeback": "0"})
	for _, want := range []string{"shrinker is on for as long as this daemon runs; of 1 cgroups", "/app/web: ", "its pages stay in the pool: somebody waits for it"} {
		if s := k.says(); !strings.Contains(s, want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
	k.minutes(70, mib, 0, 0)
	k.want("long cold", map[string]string{"shrinker": "Y", "/app/web max": "limited", "/app/batch max": "limited"})
	if s := k.says(); !strings.Contains(s, "/app/batch: ") || !strings.Contains(s, "its part of the pool is limited to") || !strings.Contains(s, "of 2 its oldest") {
		t.Errorf("the limit is not said:\n%s", s)
	}
	// What a step may write with a limit and the shrinker is twice what it takes.
	if n := k.a.writesOf(k.a.targets["/app/web"], mib); n != 2*mib {
		t.Errorf("a step of 1 MiB is taken to write %d", n)
	}
	k.swapOut += 100 << 30
	k.minutes(3, 0, 0, 0)
	if k.a.wear.price < 1 {
		t.Fatalf("price %v", k.a.wear.price)
	}
	k.want("budget spent", nil)
	k.minutes(15, 0, 0, 0)
	k.want("budget there again", map[string]string{"shrinker": "Y", "/app/web max": "limited", "/app/batch max": "limited"})
	k.minutes(2, 0, 0, 200*mib)
	k.want("dear to bring back", map[string]string{"shrinker": "Y", "/app/web writeback": "0", "/app/batch writeback": "0"})

	k.a.cfg.Roots = []string{"/elsewhere"}
	if err := k.a.scan(); err != nil {
		t.Fatal(err)
	}
	k.minutes(1, 0, 0, 0)
	k.want("not managed", nil)
	if n := k.w.outstanding(); n != 0 {
		t.Errorf("%d changes are not undone", n)
	}
}

// What somebody else set is left alone and said; a dry run, or configuration, leaves everything to the kernel.
func TestPlacingLeavesOthersSettingsAlone(t *testing.T) {
	for _, tc := range []struct {
		name  string
		mode  testkit.CgroupMode
		prep  func(*tiered)
		cfg   func(*Config)
		want  map[string]string
		said  string
		after map[string]string
	}{
		{name: "writeback off", prep: func(k *tiered) { k.Set("/app/web", fileWriteback, "0\n") },
			want: map[string]string{"shrinker": "Y", "/app/web writeback": "0", "/app/batch max": "limited"},
			said: `somebody set memory.zswap.writeback to "0"`, after: map[string]string{"/app/web writeback": "0"}},
		{name: "writeback off above", prep: func(k *tiered) { k.Set("/app", fileWriteback, "0\n") },
			want: map[string]string{"shrinker": "Y"}, said: `somebody set memory.zswap.writeback to "0"`},
		{name: "limit", prep: func(k *tiered) { k.Set("/app/batch", fileZswapMax, "1048576\n") },
			want: map[string]string{"shrinker": "Y", "/app/web max": "limited", "/app/batch max": "1048576"},
			said: `somebody set memory.zswap.max to "1048576"`, after: map[string]string{"/app/batch max": "1048576"}},
		{name: "shrinker on", prep: func(k *tiered) { k.file("sys/module/zswap/parameters/shrinker_enabled", "Y\n") },
			want: map[string]string{"shrinker": "Y", "/app/web max": "limited", "/app/batch max": "limited"},
			said: "somebody switched zswap's shrinker on", after: map[string]string{"shrinker": "Y"}},
		{name: "dry run", cfg: func(c *Config) { c.DryRun = true }},
		{name: "configured off", cfg: func(c *Config) { c.Tiers.WriteBack = tier.Off }},
		{name: "not asked for", cfg: func(c *Config) { c.Tiers.WriteBack = "" }},
		{name: "no budget", cfg: func(c *Config) { c.Endurance.Off = true }, said: "is not bounded (endurance.off)"},
		{name: "no budget, but asked for", cfg: func(c *Config) { c.Endurance.Off, c.Tiers.WriteBack = true, tier.On },
			want: map[string]string{"shrinker": "Y", "/app/web max": "limited", "/app/batch max": "limited"}},
		{name: "v1", mode: testkit.CgroupV1, want: map[string]string{"/app/web writeback": "", "/app/web max": "", "/app/batch writeback": "", "/app/batch max": ""},
			said: "cgroup v1 has neither memory.zswap.writeback nor memory.zswap.max"},
		{name: "v1, asked for", mode: testkit.CgroupV1, cfg: func(c *Config) { c.Tiers.WriteBack = tier.On },
			want: map[string]string{"shrinker": "Y", "/app/web writeback": "", "/app/web max": "", "/app/batch writeback": "", "/app/batch max": ""}},
		{name: "no disk", prep: func(k *tiered) {
			k.file("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition 4194304 1024 100\n")
		}, said: "no disk behind the pool"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mode := tc.mode
			if mode == "" {
				mode = testkit.CgroupV2
			}
			k := newTiered(t, mode, tc.cfg)
			if tc.prep != nil {
				tc.prep(k)
			}
			k.minutes(10, 4*mib, 0, 0)
			k.minutes(70, mib, 0, 0)
			k.want("after 80 minutes", tc.want)
			if s := k.says(); !strings.Contains(s, tc.said) {
				t.Errorf("no %q in\n%s", tc.said, s)
			}
			k.a.cfg.DryRun = true
			k.minutes(1, 0, 0, 0)
			after := tc.after
			if mode == testkit.CgroupV1 {
				after = map[string]string{"/app/web writeback": "", "/app/web max": "", "/app/batch writeback": "", "/app/batch max": ""}
			}
			k.want("in a dry run", after)
			if n := k.w.outstanding(); n != 0 {
				t.Errorf("%d changes are not undone", n)
			}
		})
	}
}

// The promise for a lowered limit ends with the next look.
func TestALimitIsPromised(t *testing.T) {
	k := newTiered(t, testkit.CgroupV2, func(c *Config) { c.Endurance.Budget = 80 * bytesize.GiB })
	k.minutes(10, 4*mib, 0, 0)
	var most int64
	for range 70 {
		k.minutes(1, mib, 0, 0)
		for _, x := range k.a.targets {
			most = max(most, x.home.promised)
		}
	}
	if most < mib || most > 32*mib {
		t.Errorf("at most %d bytes were promised for a limit", most)
	}
	k.minutes(3, 0, 0, 0)
	for _, x := range k.a.targets {
		if x.home.promised != 0 {
			t.Errorf("%s: %d bytes are still promised", x.path, x.home.promised)
		}
	}
}
