package track

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
)

const mib = 1 << 20

func (f *fakeDAMON) expect(what string, said ...string) {
	f.t.Helper()
	if !slices.Equal(f.said, said) {
		f.t.Errorf("%s: DAMON was told %q, want %q", what, f.said, said)
	}
	f.said = nil
}

// Quiet memory is counted where it is in memory, as long as it has been watched, and our kdamond is gone afterwards.
func TestDAMONFindsQuietMemory(t *testing.T) {
	f := newFakeDAMON(t)
	f.process(8, 0x800000, 32, func(page int) bool { return page%4 == 0 }) // a quarter of it is there
	tr := f.open(Config{Source: DAMON})
	if r := f.scan(tr, 0); len(r.Readings)+len(r.Errors) != 0 {
		t.Errorf("before anything was watched: %+v", r)
	}
	f.expect("first scan", "set up", "on")
	if want := []watched{{os.Getpid(), []extent{{4096, 8192}}}, {7, []extent{{0x700000, 0x700000 + 64*mib}}},
		{8, []extent{{0x800000, 0x800000 + 32*mib}}}}; fmt.Sprint(f.targets) != fmt.Sprint(want) {
		t.Errorf("targets %v, want %v", f.targets, want)
	}
	const c = kdamonds + "/0/contexts/0/"
	for name, want := range map[string]string{"operations": "fvaddr", "monitoring_attrs/intervals/sample_us": "500000",
		"monitoring_attrs/intervals/aggr_us": "4500000", "schemes/0/access_pattern/sz/max": "18446744073709551615"} {
		if got := f.get(c + name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	// The first half of process 7 is hot; process 8 is quiet, and says so for longer than it has been watched.
	f.show = func(pid int, e extent) []region {
		if pid != 7 {
			return []region{{e, 0, 1000}}
		}
		half := e.start + (e.end-e.start)/2
		return []region{{extent{e.start, half}, 3, 1000}, {extent{half, e.end}, 0, 20}}
	}
	r := f.scan(tr, 2*minute).Readings[f.g]
	f.expect("second scan", "update_schemes_tried_regions")
	if got, want := r.Cold.Total(), int64(64*mib+8*mib+mib); got != want || r.Source != "damon" || r.Span != 2*minute || r.Scan != 2*minute {
		t.Errorf("%d bytes in all, want %d: %+v", got, want, r)
	}
	if got, want := r.Cold.Colder(85*time.Second), int64(32*mib+8*mib); got != want {
		t.Errorf("%d bytes idle for 85 s, want %d: %v", got, want, r.Cold)
	}
	if got, want := r.Cold.Colder(2*minute), int64(8*mib); got != want || r.Cold.Colder(121*time.Second) != 0 || r.Promo != nil {
		t.Errorf("%d bytes idle for 2 m, want %d: %+v", got, want, r)
	}
	if err := errors.Join(tr.Close(), tr.Close()); err != nil {
		t.Error(err)
	}
	f.expect("end", "undo 5")
}

// A place stays a process's own while it lives; what joins later is not older than that.
func TestDAMONFollowsProcesses(t *testing.T) {
	f := newFakeDAMON(t)
	tr := f.open(Config{Source: DAMON})
	f.scan(tr, 0)
	f.process(7, 0x700000, 128, nil) // it has grown
	f.age = 1000
	r := f.scan(tr, 2*minute).Readings[f.g]
	f.expect("grown", "set up", "on", "update_schemes_tried_regions", "commit")
	if got, want := r.Cold.Colder(2*minute), int64(128*mib); got != want { // of both processes, as it was watched
		t.Errorf("%d bytes idle, want %d", got, want)
	}
	r = f.scan(tr, 4*minute).Readings[f.g]
	if got, want := r.Cold.Colder(4*minute), int64(128*mib); got != want || r.Cold.Colder(2*minute) != 192*mib {
		t.Errorf("%d bytes idle for 4 m, want %d: %v", got, want, r.Cold)
	}
	f.said = nil
	if err := os.RemoveAll(filepath.Join(f.Root, "proc/7")); err != nil {
		t.Fatal(err)
	}
	r = f.scan(tr, 6*minute).Readings[f.g]
	f.expect("one has ended", "update_schemes_tried_regions", "commit")
	if len(f.targets) != 3 || f.targets[1].pid != os.Getpid() || f.targets[2].pid != 8 || r.Cold.Colder(6*minute) != 64*mib {
		t.Errorf("targets %v, reading %v", f.targets, r.Cold)
	}
	if err := os.RemoveAll(filepath.Join(f.Root, "proc/8")); err != nil {
		t.Fatal(err)
	}
	f.scan(tr, 8*minute)
	if r := f.scan(tr, 10*minute); len(r.Readings) != 0 || len(f.targets) != 1 {
		t.Errorf("with nobody to watch: %+v, targets %v", r, f.targets)
	}
	f.said = nil
	if _, err := tr.Scan(context.Background(), begin.Add(time.Hour), nil); err != nil {
		t.Error(err)
	}
	f.expect("nothing managed", "undo 5")
}

// A process that ends while it is taken over ends the kdamond of 6.12: everything begins anew, and ages with it.
func TestDAMONBeginsAnew(t *testing.T) {
	f := newFakeDAMON(t)
	tr := f.open(Config{Source: DAMON})
	f.scan(tr, 0)
	f.age = 1000
	f.scan(tr, 2*minute)
	f.said = nil
	f.process(7, 0x700000, 128, nil) // what there is to commit
	d := tr.src.(*damon)
	d.k.w = vanishing{f, filepath.Join(f.Root, "proc/8")}
	r := f.scan(tr, 4*minute)
	f.expect("ended", "update_schemes_tried_regions", "commit", "undo 5")
	if len(r.Errors) != 0 {
		t.Errorf("%v", r.Errors)
	}
	d.k.w = f
	f.scan(tr, 6*minute)
	f.expect("anew", "set up", "on")
	if got := f.scan(tr, 8*minute).Readings[f.g]; got.Span != 2*minute || got.Cold.Colder(121*time.Second) != 0 {
		t.Errorf("%+v", got)
	}
}

// vanishing removes a process just before a commit.
type vanishing struct {
	*fakeDAMON
	dir string
}

func (v vanishing) Kdamond(ctx context.Context, id, command string) error {
	if command == "commit" {
		if err := os.RemoveAll(v.dir); err != nil {
			return err
		}
	}
	return v.fakeDAMON.Kdamond(ctx, id, command)
}

// What somebody else does to DAMON ends our use of it, once and for all, with a message; auto goes on with the next.
func TestDAMONGivesWay(t *testing.T) {
	for name, steal := range map[string]func(*fakeDAMON){
		"switched it off": func(f *fakeDAMON) { f.file(kdamonds+"/0/state", "off\n") },
		"removed": func(f *fakeDAMON) {
			f.stolen = true
			if err := os.RemoveAll(filepath.Join(f.Root, kdamonds, "0")); err != nil {
				t.Fatal(err)
			}
		},
		"anew": func(f *fakeDAMON) { f.stolen = true },
	} {
		for _, c := range []Config{{Source: DAMON}, {ClearRefs: true}} {
			f := newFakeDAMON(t)
			tr := f.open(c)
			if tr.Source() != "damon" {
				t.Fatalf("%s: source %s", name, tr.Source())
			}
			f.scan(tr, 0)
			steal(f)
			_, err := tr.Scan(context.Background(), begin.Add(minute), []Group{f.g})
			if err == nil || !errors.Is(err, errors.ErrUnsupported) || errkind.HintOf(err) == "" {
				t.Errorf("%s: %v, hint %q", name, err, errkind.HintOf(err))
			}
			_, again := tr.Scan(context.Background(), begin.Add(2*minute), []Group{f.g})
			if c.Source == DAMON && (again == nil || again.Error() != err.Error()) {
				t.Errorf("%s: then %v", name, again)
			}
			if c.Source != DAMON && (again != nil || tr.Source() != "clear-refs" || !strings.Contains(err.Error(), "going on with clear-refs")) {
				t.Errorf("%s: source %s, %v, then %v", name, tr.Source(), err, again)
			}
			if n := slices.Index(f.said, "undo 5"); n != len(f.said)-1 {
				t.Errorf("%s: told %q", name, f.said)
			}
		}
	}
}

// A kernel without what it takes says what, and nothing stays set up.
func TestDAMONProbes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fakeDAMON)
		want   string
	}{
		"no virtual addresses": {func(f *fakeDAMON) { f.operations = "paddr" }, "fvaddr"},
		"before 6.2":           {func(f *fakeDAMON) { f.old = true }, "6.2"},
		"a module's":           {func(f *fakeDAMON) { f.file("sys/module/damon_reclaim/parameters/enabled", "Y\n") }, "damon_reclaim"},
		"set up by somebody":   {func(f *fakeDAMON) { f.file(kdamonds+"/nr_kdamonds", "1\n") }, "not ours"},
		"in a container": {func(f *fakeDAMON) {
			if err := errors.Join(os.MkdirAll(filepath.Join(f.Root, "proc/self/ns"), 0o755),
				os.Symlink("pid:[4026532999]", filepath.Join(f.Root, "proc/self/ns/pid"))); err != nil {
				t.Fatal(err)
			}
		}, "PID namespace"},
	} {
		f := newFakeDAMON(t)
		c.change(f)
		before := f.get(kdamonds + "/nr_kdamonds")
		_, err := Open(f.Root, f.h, Config{Source: DAMON}, f)
		var missing *probe.Missing
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, errors.ErrUnsupported) && !errors.As(err, &missing) {
			t.Errorf("%s: %v", name, err)
		}
		if got := f.get(kdamonds + "/nr_kdamonds"); got != before {
			t.Errorf("%s: %s kdamonds", name, got)
		}
	}
	f := newFakeDAMON(t)
	if _, err := Open(f.Root, f.h, Config{Source: DAMON}, nil); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(errkind.HintOf(err), "spillway up") {
		t.Errorf("without a daemon: %v", err)
	}
}

// A kdamond that costs more than a hundredth of a processor samples half as often, and ends when that does not help.
func TestDAMONSlowsDown(t *testing.T) {
	f := newFakeDAMON(t)
	tr := f.open(Config{Source: DAMON})
	f.scan(tr, 0)
	f.cpu(100)
	if r := f.scan(tr, 2*minute); r.CPU < time.Second || tr.src.(*damon).sample != damonSample {
		t.Errorf("a second in two minutes: CPU %v, sampling %v", r.CPU, tr.src.(*damon).sample)
	}
	ticks, at := 100, 2*minute
	for range 2 {
		ticks, at = ticks+1000, at+2*minute
		f.cpu(ticks)
		f.scan(tr, at)
	}
	if got := f.get(kdamonds + "/0/contexts/0/monitoring_attrs/intervals/sample_us"); got != "2000000" {
		t.Errorf("sampling every %s us", got)
	}
	f.cpu(ticks + 1000)
	if _, err := tr.Scan(context.Background(), begin.Add(at+2*minute), []Group{f.g}); !errors.Is(err, errLost) {
		t.Errorf("%v", err)
	}
}

func TestDeal(t *testing.T) {
	e := func(a, b uint64) extent { return extent{a, b} }
	r := func(a, b uint64) region { return region{extent: e(a, b)} }
	targets := [][]extent{{e(1, 2)}, {e(10, 20), e(30, 40)}, {e(10, 20)}}
	got, ok := deal([]region{r(1, 2), r(10, 15), r(15, 20), r(30, 40), r(10, 20)}, targets)
	if !ok || fmt.Sprint(got) != fmt.Sprint([][]region{{r(1, 2)}, {r(10, 15), r(15, 20), r(30, 40)}, {r(10, 20)}}) {
		t.Errorf("%v, %v", got, ok)
	}
	for _, bad := range [][]region{
		nil, {r(1, 2)}, {r(1, 2), r(10, 20), r(30, 40), r(10, 20), r(10, 20)}, {r(1, 2), r(10, 15), r(16, 20), r(30, 40), r(10, 20)},
		{r(1, 2), r(10, 25), r(30, 40), r(10, 20)}, {r(1, 1), r(1, 2), r(10, 20), r(30, 40), r(10, 20)},
	} {
		if got, ok := deal(bad, targets); ok {
			t.Errorf("%v is dealt as %v", bad, got)
		}
	}
}

func TestWatchRemembersSince(t *testing.T) {
	at := func(m int) time.Time { return begin.Add(time.Duration(m) * minute) }
	e := func(a, b uint64) extent { return extent{a, b} }
	s := watch(nil, []extent{e(10, 20), e(30, 40)}, at(0))
	s = watch(s, []extent{e(5, 25), e(30, 35)}, at(2))
	want := []span{{e(5, 10), at(2)}, {e(10, 20), at(0)}, {e(20, 25), at(2)}, {e(30, 35), at(0)}}
	if fmt.Sprint(s) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", s, want)
	}
	if got := joinSpans(s); fmt.Sprint(got) != fmt.Sprint([]extent{e(5, 25), e(30, 35)}) {
		t.Errorf("joined %v", got)
	}
	if s = watch(s, []extent{e(5, 25)}, at(90)); len(s) != 1 || !s[0].since.Equal(at(2)) {
		t.Errorf("what is older than an hour is not told apart: %v", s)
	}
}

func TestExtentsAreFewAndFull(t *testing.T) {
	v := func(start, end uint64, private int64) vma { return vma{extent{start, end}, private} }
	got := extents([]vma{v(0, mib, mib), v(mib+4096, 2*mib, 4096), v(8*mib, 9*mib, 0), v(1<<40, 1<<44, mib), v(1<<45, 1<<45+mib, 8192)})
	if fmt.Sprint(got) != fmt.Sprint([]extent{{0, 2 * mib}, {1 << 45, 1<<45 + mib}}) {
		t.Errorf("%v", got)
	}
	var many []vma
	for i := range uint64(100) {
		many = append(many, v(i*10*mib, i*10*mib+mib, int64(i+1)<<12))
	}
	if got := extents(many); len(got) != maxExtents || got[0].start != 840*mib {
		t.Errorf("%d extents from %#x on", len(got), got[0].start)
	}
}
