package tier

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/worker"
)

// fakeWorker does to a folder what the real one does to the kernel, and keeps a list of what it was asked.
type fakeWorker struct {
	t    *testing.T
	root string
	fail string // a change whose description contains this fails
	n    int
	log  []string
	undo map[string]func()
}

func newFake(t *testing.T, root string) *fakeWorker {
	return &fakeWorker{t: t, root: root, undo: map[string]func(){}}
}

func (f *fakeWorker) Do(_ context.Context, ch worker.Change) (worker.Done, error) {
	var what string
	var do, undo func()
	device := ""
	swaps := filepath.Join(f.root, "proc/swaps")
	switch {
	case ch.Knob != nil:
		rel := strings.TrimPrefix(ch.Knob.Path, f.root)
		old := f.read(ch.Knob.Path)
		what = fmt.Sprintf("%s=%s", filepath.Base(rel), ch.Knob.Value)
		do = func() { write(f.t, ch.Knob.Path, ch.Knob.Value) }
		undo = func() { write(f.t, ch.Knob.Path, old) }
	case ch.SwapFile != nil:
		what = fmt.Sprintf("swap %s %d prio %d", ch.SwapFile.Path, ch.SwapFile.Size>>20, ch.SwapFile.Priority)
		old := f.read(swaps)
		do = func() {
			write(f.t, swaps, old+fmt.Sprintf("%s file %d 0 %d\n", ch.SwapFile.Path, ch.SwapFile.Size>>10, ch.SwapFile.Priority))
		}
		undo = func() { write(f.t, swaps, old) }
	case ch.Zram != nil:
		device = "/dev/zram7"
		what = fmt.Sprintf("zram %d prio %d %s", ch.Zram.Size>>20, ch.Zram.Priority, ch.Zram.Algorithm)
		old := f.read(swaps)
		do = func() {
			write(f.t, filepath.Join(f.root, "sys/block/zram7/mm_stat"), "0 0 0 0 0 0 0\n")
			write(f.t, swaps, old+fmt.Sprintf("/dev/zram7 partition %d 0 %d\n", ch.Zram.Size>>10, ch.Zram.Priority))
		}
		undo = func() { write(f.t, swaps, old) }
	case ch.Mkdir != nil:
		dir := ch.Mkdir.Path
		what = "mkdir " + filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
		do = func() {
			write(f.t, filepath.Join(dir, "memory.usage_in_bytes"), "0\n")
			write(f.t, filepath.Join(dir, "memory.stat"), "total_cache 0\n")
		}
		undo = func() {
			if err := os.RemoveAll(dir); err != nil {
				f.t.Error(err)
			}
		}
	}
	if f.fail != "" && strings.Contains(what, f.fail) {
		return worker.Done{}, errors.New("no such thing")
	}
	do()
	f.n++
	id := fmt.Sprint(f.n)
	f.log = append(f.log, what)
	f.undo[id] = func() { undo(); f.log = append(f.log, "undo "+what) }
	return worker.Done{ID: id, Device: device}, nil
}

func (f *fakeWorker) Undo(_ context.Context, id string) error {
	u, ok := f.undo[id]
	if !ok {
		return fmt.Errorf("no change %s", id)
	}
	delete(f.undo, id)
	u()
	return nil
}

func (f *fakeWorker) Step(context.Context, worker.Step) (worker.StepResult, error) {
	return worker.StepResult{}, errors.New("the fake takes no memory")
}

func (f *fakeWorker) read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}

// expect compares what the worker was asked since the last call.
func (f *fakeWorker) expect(want ...string) {
	f.t.Helper()
	if !slices.Equal(f.log, want) {
		f.t.Errorf("worker was asked\n%s\nwant\n%s", strings.Join(f.log, "\n"), strings.Join(want, "\n"))
	}
	f.log = nil
}

// bare is the machine without swap, with zswap off and a page-cluster knob.
func bare(t *testing.T) string {
	root, _ := unpack(t, "testdata/none.txtar")
	write(t, filepath.Join(root, "sys/module/zswap/parameters/enabled"), "N\n")
	write(t, filepath.Join(root, "proc/sys/vm/page-cluster"), "3\n")
	return root
}

func TestApply(t *testing.T) {
	root := bare(t)
	s, w := open(t, root), newFake(t, root)
	setup := Setup{Zswap: On, Compressor: "zstd", MaxPoolPercent: 10, PageCluster: ptr(0),
		SwapFile: &SwapFile{Path: "/swap", Size: bytesize.MiB}}
	plan, err := s.Plan(setup)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan) != 4 || !strings.Contains(plan[3], `create swap file "/swap" of 1 MiB`) {
		t.Errorf("plan %q", plan)
	}
	w.expect()

	if err := s.Apply(t.Context(), setup, w); err != nil {
		t.Fatal(err)
	}
	// max_pool_percent is 10 already, so it is nobody's to undo; the pool is ready before the area is.
	w.expect("compressor=zstd", "enabled=Y", "page-cluster=0", "swap /swap 1 prio -1")
	if p, ok := s.Primary(); !ok || p.Name != "zswap" || !p.Ours {
		t.Errorf("primary %+v %v", p, ok)
	}
	if got := s.Tiers()[1]; got.Name != "swap:/swap" || !got.Ours {
		t.Errorf("second tier %+v", got)
	}

	if err := s.Apply(t.Context(), setup, w); err != nil {
		t.Fatal(err)
	}
	w.expect() // the same again changes nothing

	setup.Compressor, setup.PageCluster, setup.SwapFile.Priority = "", ptr(1), ptr(7)
	if err := s.Apply(t.Context(), setup, w); err != nil {
		t.Fatal(err)
	}
	w.expect("undo swap /swap 1 prio -1", "undo page-cluster=0", "undo compressor=zstd", "page-cluster=1", "swap /swap 1 prio 7")

	if err := s.Apply(t.Context(), Setup{}, w); err != nil {
		t.Fatal(err)
	}
	w.expect("undo swap /swap 1 prio 7", "undo page-cluster=1", "undo enabled=Y")
	if _, ok := s.Primary(); ok {
		t.Error("a tier is left")
	}
}

func TestApplyZram(t *testing.T) {
	root := bare(t)
	write(t, filepath.Join(root, "sys/block/zram0/comp_algorithm"), "[lzo-rle] lzo lz4\n")
	s, w := open(t, root), newFake(t, root)
	if err := s.Apply(t.Context(), Setup{Zram: &Zram{Size: bytesize.GiB, Algorithm: "lz4"}}, w); err != nil {
		t.Fatal(err)
	}
	w.expect("zram 1024 prio 100 lz4")
	if p, _ := s.Primary(); p.Name != "zram7" || !p.Ours {
		t.Errorf("primary %+v", p)
	}
	err := s.Apply(t.Context(), Setup{Zram: &Zram{Size: bytesize.GiB, Algorithm: "zstd"}}, w)
	if err == nil || !strings.Contains(err.Error(), "lzo-rle, lzo, lz4") {
		t.Errorf("an algorithm the kernel lacks: %v", err)
	}
}

func TestApplyTakesBackHalfOfIt(t *testing.T) {
	root := bare(t)
	s, w := open(t, root), newFake(t, root)
	if err := s.Apply(t.Context(), Setup{PageCluster: ptr(0)}, w); err != nil {
		t.Fatal(err)
	}
	w.log, w.fail = nil, "swap /swap"
	err := s.Apply(t.Context(), Setup{PageCluster: ptr(0), Zswap: On, SwapFile: &SwapFile{Path: "/swap", Size: bytesize.MiB}}, w)
	if err == nil || !strings.Contains(err.Error(), `create swap file "/swap"`) || errkind.HintOf(err) == "" {
		t.Errorf("error %v, hint %q", err, errkind.HintOf(err))
	}
	w.expect("enabled=Y", "undo enabled=Y") // what an earlier call made stays
	if got := w.read(filepath.Join(root, "proc/sys/vm/page-cluster")); got != "0" {
		t.Errorf("page-cluster %q", got)
	}
}

func TestApplyUsesASwapFileThatIsOnAlready(t *testing.T) {
	root, _ := unpack(t, "testdata/no_zswap_kernel.txtar")
	s, w := open(t, root), newFake(t, root)
	if err := s.Apply(t.Context(), Setup{SwapFile: &SwapFile{Path: "/swapfile", Size: bytesize.GiB}}, w); err != nil {
		t.Fatal(err)
	}
	w.expect()
	if p, _ := s.Primary(); p.Ours {
		t.Error("somebody else's swap file is called ours")
	}
}

func TestMachineChecks(t *testing.T) {
	none := bare(t)
	write(t, filepath.Join(none, "taken"), "precious")
	write(t, filepath.Join(none, "disk/a"), "")
	if err := os.Symlink("disk", filepath.Join(none, "link")); err != nil {
		t.Fatal(err)
	}
	noModule, _ := unpack(t, "testdata/no_zswap_kernel.txtar")
	withZswap, _ := unpack(t, "testdata/zswap_file.txtar")
	for _, tc := range []struct {
		what, root string
		setup      Setup
		kind       errkind.Kind
		want       []string
	}{
		{"more than the disk", none, Setup{SwapFile: &SwapFile{Path: "/swap", Size: 1 << 60}}, errkind.Invalid, []string{"more than", "free", "write at most"}},
		{"folder missing", none, Setup{SwapFile: &SwapFile{Path: "/no/swap", Size: bytesize.MiB}}, errkind.Invalid, []string{`"/no" does not exist`, "mkdir"}},
		{"symbolic link", none, Setup{SwapFile: &SwapFile{Path: "/link/swap", Size: bytesize.MiB}}, errkind.Invalid, []string{`write "/disk/swap"`}},
		{"file exists", none, Setup{SwapFile: &SwapFile{Path: "/taken", Size: bytesize.MiB}}, errkind.Invalid, []string{"never overwrites"}},
		{"zswap without an area", none, Setup{Zswap: On}, errkind.Invalid, []string{"add tiers.swap_file"}},
		{"zram larger than memory", none, Setup{Zram: &Zram{Size: bytesize.TiB}}, errkind.Invalid, []string{"times the memory", "write at most"}},
		{"no zswap", noModule, Setup{Compressor: "lz4"}, errkind.Unsupported, []string{"zswap", "3.11"}},
		{"no zram", noModule, Setup{Zram: &Zram{Size: bytesize.GiB}}, errkind.Unsupported, []string{"zram"}},
		{"zram behind zswap", withZswap, Setup{Zram: &Zram{Size: bytesize.GiB}}, errkind.Invalid, []string{"compressed twice", "zswap: off"}},
		{"validated first", none, Setup{Zswap: "x"}, errkind.Invalid, []string{"tiers.zswap"}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			w := newFake(t, tc.root)
			err := open(t, tc.root).Apply(t.Context(), tc.setup, w)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error()+errkind.HintOf(err), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if got := errkind.Of(err); got != tc.kind {
				t.Errorf("kind %v, want %v", got, tc.kind)
			}
			w.expect()
		})
	}
	// 80 % of what is free is the limit, and the error names a size that is then accepted.
	s := open(t, none)
	err := s.checkDisk(SwapFile{Path: "/swap", Size: 1 << 60}, false)
	_, text, _ := strings.Cut(err.Error(), "write at most ")
	most, perr := bytesize.Parse(text)
	if perr != nil {
		t.Fatalf("%v: %v", err, perr)
	}
	if err := s.checkDisk(SwapFile{Path: "/swap", Size: most - most/10}, false); err != nil {
		t.Error(err)
	}
}
