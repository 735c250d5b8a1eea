package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

func stateDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustOpen(t testing.TB, dir string, c Config) *Journal {
	t.Helper()
	j, r, err := Open(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Clean() {
		t.Fatalf("report %+v, want a clean one", r)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func mustPut(t testing.TB, j *Journal, e Entry) uint64 {
	t.Helper()
	id, err := j.Put(e)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

var whole = Entry{
	Kind: Knob, Boot: "b00t", At: 1700000000, Path: "/sys/module/zswap/parameters/enabled", Inode: 7,
	Old: "N", New: "Y", Size: 1 << 30, Priority: -1, Made: true, Added: true, Kill: true,
}

func TestReopenFindsWhatWasPut(t *testing.T) {
	dir := stateDir(t)
	j := mustOpen(t, dir, Config{})
	knob := mustPut(t, j, whole)
	limit := mustPut(t, j, Entry{Kind: Limit, Boot: "b00t", Path: "/kube\xffpods/a\n\x1b[2J"})
	closed := mustPut(t, j, Entry{Kind: Mkdir, Path: "/sys/fs/cgroup/x"})
	if err := j.Intent(limit, -1, 4096); err != nil {
		t.Fatal(err)
	}
	if err := j.Remove(closed); err != nil {
		t.Fatal(err)
	}
	want := j.Entries()
	if len(want) != 2 || want[0].ID != knob || !want[1].Pending || want[1].To != 4096 {
		t.Fatalf("entries %+v", want)
	}
	w := whole
	w.ID = knob
	if want[0] != w {
		t.Errorf("entry %+v, want %+v", want[0], w)
	}

	// As after kill -9: the file is read again without having been closed.
	again, report, err := Read(dir)
	if err != nil || !report.Clean() {
		t.Fatalf("read: %v, %+v", err, report)
	}
	if !reflect.DeepEqual(again, want) {
		t.Errorf("read back %+v, want %+v", again, want)
	}
	if err := j.Done(limit); err != nil {
		t.Fatal(err)
	}
	if again, _, _ := Read(dir); again[1].Pending {
		t.Error("a finished step is still pending")
	}
	next := mustPut(t, mustOpen(t, dir, Config{}), Entry{Kind: TempDir, Path: "/tmp/x"})
	if next <= closed-1 {
		t.Errorf("id %d of a reopened journal collides with a live one", next)
	}
}

func TestRemovingTheLastEntryEmptiesTheFile(t *testing.T) {
	dir := stateDir(t)
	j := mustOpen(t, dir, Config{})
	id := mustPut(t, j, whole)
	if err := j.Remove(id); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, FileName)); err != nil || info.Size() != 0 || j.Size() != 0 {
		t.Errorf("file of %v bytes (%v), want 0", info.Size(), err)
	}
	if err := j.Intent(id, 1, 2); err == nil {
		t.Error("intent on a removed entry succeeded")
	}
}

func TestTornAndDamagedLinesAreReportedAndTheRestSurvives(t *testing.T) {
	dir := stateDir(t)
	j := mustOpen(t, dir, Config{})
	first := mustPut(t, j, whole)
	mustPut(t, j, Entry{Kind: TempDir, Path: "/tmp/second"})
	mustPut(t, j, Entry{Kind: TempDir, Path: "/tmp/third"})
	j.Close()
	name := filepath.Join(dir, FileName)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	lines[1] = bytes.Replace(lines[1], []byte("second"), []byte("SECOND"), 1)
	lines[2] = lines[2][:len(lines[2])-10] // killed while writing
	damaged := append(bytes.Join(lines[:2], nil), "\x00\xff garbage\n2 00000000 {}\n"...)
	damaged = append(damaged, lines[2]...)
	if err := os.WriteFile(name, damaged, 0o600); err != nil {
		t.Fatal(err)
	}

	entries, report, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Torn || report.Damaged != 3 || !strings.Contains(report.FirstError, "checksum") {
		t.Errorf("report %+v, want torn, 3 damaged, the first by checksum", report)
	}
	if len(entries) != 1 || entries[0].ID != first {
		t.Errorf("entries %+v, want only the first", entries)
	}
	j, report, err = Open(dir, Config{})
	if err != nil || report.Damaged != 3 {
		t.Fatalf("open: %v, %+v", err, report)
	}
	defer j.Close()
	if kept, err := os.ReadFile(filepath.Join(dir, DamagedName)); err != nil || !bytes.Equal(kept, damaged) {
		t.Errorf("the damaged file was not kept: %v", err)
	}
	mustPut(t, j, Entry{Kind: TempDir, Path: "/tmp/fourth"})
	if entries, report, err := Read(dir); err != nil || !report.Clean() || len(entries) != 2 {
		t.Errorf("after repair: %d entries, %+v, %v", len(entries), report, err)
	}
}

// Every prefix of a journal is what a kill -9 can leave.
func TestEveryPrefixReads(t *testing.T) {
	dir := stateDir(t)
	j := mustOpen(t, dir, Config{})
	id := mustPut(t, j, Entry{Kind: Limit, Path: "/a"})
	if err := j.Intent(id, -1, 8192); err != nil {
		t.Fatal(err)
	}
	if err := j.Done(id); err != nil {
		t.Fatal(err)
	}
	mustPut(t, j, whole)
	b, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(b) + 1 {
		s := replay(b[:n])
		if s.report.Damaged != 0 {
			t.Fatalf("prefix of %d bytes: %+v", n, s.report)
		}
		if whole := n == 0 || b[n-1] == '\n'; s.report.Torn == whole {
			t.Fatalf("prefix of %d bytes: torn %v", n, s.report.Torn)
		}
	}
}

func TestCompactionKeepsAWeekOfStepsSmall(t *testing.T) {
	dir := stateDir(t)
	const limit = 16 << 10
	j := mustOpen(t, dir, Config{CompactAt: limit})
	var ids []uint64
	for i := range 20 {
		ids = append(ids, mustPut(t, j, Entry{Kind: Limit, Boot: "b", Path: fmt.Sprintf("/pods/%d", i), Inode: uint64(i)}))
	}
	largest := int64(0)
	for i := range 20_000 {
		id := ids[i%len(ids)]
		if err := j.Intent(id, -1, int64(4096*i)); err != nil {
			t.Fatal(err)
		}
		largest = max(largest, j.Size())
		if i == 19_999 {
			break // the last step is under way
		}
		if err := j.Done(id); err != nil {
			t.Fatal(err)
		}
	}
	if largest > limit+MaxLine {
		t.Errorf("file grew to %d bytes, compaction is at %d", largest, limit)
	}
	entries, report, err := Read(dir)
	if err != nil || !report.Clean() || len(entries) != len(ids) {
		t.Fatalf("%d entries, %+v, %v", len(entries), report, err)
	}
	for i, e := range entries {
		if e.Pending != (i == 19_999%len(ids)) || e.Pending && e.To != 4096*19_999 {
			t.Errorf("entry %+v", e)
		}
	}
}

func TestFullDiskFailsTheRecordAndLeavesNoHalfLine(t *testing.T) {
	dir := stateDir(t)
	room := 1 << 20
	j := mustOpen(t, dir, Config{Write: func(f *os.File, b []byte) (int, error) {
		n := min(len(b), room)
		room -= n
		n, err := f.Write(b[:n])
		if err == nil && n < len(b) {
			err = &os.PathError{Op: "write", Path: f.Name(), Err: sys.ENOSPC}
		}
		return n, err
	}})
	id := mustPut(t, j, Entry{Kind: Limit, Path: "/a"})
	for _, left := range []int{0, 1, 30} {
		room = left
		err := j.Intent(id, -1, 4096)
		if !errors.Is(err, sys.ENOSPC) || errkind.Of(err) != errkind.Exhausted || errkind.HintOf(err) == "" {
			t.Errorf("with %d bytes left: %v, want a full disk with a hint", left, err)
		}
		room = left
		if _, err := j.Put(whole); !errors.Is(err, sys.ENOSPC) {
			t.Errorf("with %d bytes left: %v, want a full disk", left, err)
		}
	}
	if e, _ := j.Get(id); e.Pending || len(j.Entries()) != 1 {
		t.Errorf("entries after failed records: %+v", j.Entries())
	}
	room = 1 << 20
	if err := j.Intent(id, -1, 8192); err != nil {
		t.Fatal(err)
	}
	entries, report, err := Read(dir)
	if err != nil || !report.Clean() || len(entries) != 1 || entries[0].To != 8192 {
		t.Errorf("after the disk had room again: %+v, %+v, %v", entries, report, err)
	}
}

func TestTornJournalOpensOnAFullDisk(t *testing.T) {
	dir := stateDir(t)
	j := mustOpen(t, dir, Config{})
	mustPut(t, j, whole)
	j.Close()
	name := filepath.Join(dir, FileName)
	b, _ := os.ReadFile(name)
	if err := os.WriteFile(name, append(b, b[:20]...), 0o600); err != nil {
		t.Fatal(err)
	}
	full := true
	j, report, err := Open(dir, Config{Write: func(f *os.File, b []byte) (int, error) {
		if full {
			return 0, sys.ENOSPC
		}
		return f.Write(b)
	}})
	if err != nil || !report.Torn || len(j.Entries()) != 1 {
		t.Fatalf("open: %v, %+v", err, report)
	}
	defer j.Close()
	full = false
	mustPut(t, j, Entry{Kind: TempDir, Path: "/tmp/x"})
	if entries, report, err := Read(dir); err != nil || len(entries) != 2 || report.Damaged != 1 {
		t.Errorf("%d entries, %+v, %v; want 2 and the fragment as one damaged line", len(entries), report, err)
	}
}

func TestRefusesWhatOthersCouldWrite(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(t *testing.T, dir string)
	}{
		{"directory writable by all", func(t *testing.T, dir string) { chmod(t, dir, 0o777) }},
		{"journal writable by the group", func(t *testing.T, dir string) {
			mustWrite(t, filepath.Join(dir, FileName))
			chmod(t, filepath.Join(dir, FileName), 0o660)
		}},
		{"journal is a link", func(t *testing.T, dir string) {
			mustWrite(t, filepath.Join(dir, "target"))
			if err := os.Symlink("target", filepath.Join(dir, FileName)); err != nil {
				t.Fatal(err)
			}
		}},
		{"journal is a directory", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, FileName), 0o700); err != nil {
				t.Fatal(err)
			}
		}},
		{"journal is a pipe", func(t *testing.T, dir string) {
			if err := syscall.Mkfifo(filepath.Join(dir, FileName), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Read(dir); !errors.Is(err, sys.ErrNotRegular) {
				t.Errorf("read: %v", err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := stateDir(t)
			tc.make(t, dir)
			if j, _, err := Open(dir, Config{}); err == nil {
				j.Close()
				t.Error("opened")
			}
		})
	}
	if _, _, err := Open("relative", Config{}); errkind.Of(err) != errkind.Invalid {
		t.Errorf("relative directory: %v", err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func mustWrite(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestConcurrentWritersAndCompactions(t *testing.T) {
	dir := stateDir(t)
	j := mustOpen(t, dir, Config{CompactAt: 4 << 10})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			id, err := j.Put(Entry{Kind: Limit, Path: fmt.Sprintf("/w%d", w)})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 500 {
				if err := errors.Join(j.Intent(id, -1, int64(i)), j.Done(id)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if entries, report, err := Read(dir); err != nil || !report.Clean() || len(entries) != 4 {
		t.Errorf("%d entries, %+v, %v", len(entries), report, err)
	}
}

func FuzzDecode(f *testing.F) {
	b, err := appendOpen(nil, whole)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.TrimSuffix(b, []byte("\n")))
	f.Add(bytes.TrimSuffix(appendIntent(nil, 3, -1, 1<<40), []byte("\n")))
	f.Add(bytes.TrimSuffix(appendShort(nil, opClosed, 3), []byte("\n")))
	f.Add([]byte("1 00000000 {}"))
	f.Add([]byte("2 "))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := Decode(line)
		if err != nil {
			// The checksum keeps the fuzzer out; let it at what is behind.
			if len(line) < prefixLen || len(line) >= MaxLine {
				return
			}
			fixed := end(append(begin(nil), line[prefixLen:]...), 0)
			if r, err = Decode(fixed[:len(fixed)-1]); err != nil {
				return
			}
		}
		if r.Entry.ID == 0 {
			t.Fatalf("decoded id 0 from %q", line)
		}
		if r.Op != opOpen {
			return
		}
		again, err := appendOpen(nil, r.Entry)
		if err != nil {
			return // longer than a line, which the escaping can cause
		}
		r2, err := Decode(again[:len(again)-1])
		if err != nil || r2.Entry != r.Entry {
			t.Fatalf("%+v became %+v, %v", r.Entry, r2.Entry, err)
		}
	})
}

func FuzzReplay(f *testing.F) {
	b, _ := appendOpen(nil, whole)
	f.Add(append(b, appendIntent(nil, 1, -1, 4096)...))
	f.Add([]byte("\n\n1 "))
	f.Fuzz(func(t *testing.T, file []byte) {
		s := replay(file)
		if lines := bytes.Count(file, []byte("\n")); len(s.entries)+s.report.Damaged > lines {
			t.Fatalf("%d entries and %d damaged lines from %d lines", len(s.entries), s.report.Damaged, lines)
		}
		for id := range s.entries {
			if id >= s.next {
				t.Fatalf("next id %d, entry %d lives", s.next, id)
			}
		}
	})
}

func BenchmarkStep(b *testing.B) {
	j := mustOpen(b, stateDir(b), Config{})
	id := mustPut(b, j, Entry{Kind: Limit, Path: "/kubepods/burstable/pod1"})
	b.ReportAllocs()
	for b.Loop() {
		if err := j.Intent(id, -1, 123456789); err != nil {
			b.Fatal(err)
		}
		if err := j.Done(id); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAHugeFileIsRefusedWithAdvice(t *testing.T) {
	dir := stateDir(t)
	name := filepath.Join(dir, FileName)
	mustWrite(t, name)
	if err := os.Truncate(name, 100<<20); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(dir); errkind.Of(err) != errkind.Exhausted || errkind.HintOf(err) == "" {
		t.Errorf("got %v (hint %q), want a refusal that says what to do", err, errkind.HintOf(err))
	}
}
