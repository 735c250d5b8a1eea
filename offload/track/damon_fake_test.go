package track

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/worker"
)

// fakeDAMON is a worker and, in one, DAMON of Linux 6.12 on a machine of files: it makes all the files that could be
// asked for, and obeys commands by reading and writing them.
type fakeDAMON struct {
	*machine
	operations string
	old        bool                             // no tried_regions, as before 6.2
	show       func(pid int, e extent) []region // what it finds in a target's extent; nil: one quiet region, ever older
	age        uint64                           // of that region
	said       []string                         // commands, and what became of them
	targets    []watched                        // taken over
	busy       int                              // so many switchings-on are refused
	stolen     bool                             // somebody else has set up DAMON
}

func newFakeDAMON(t *testing.T) *fakeDAMON {
	f := &fakeDAMON{machine: newMachine(t, "/app"), operations: "vaddr\nfvaddr\npaddr"}
	f.file(kdamonds+"/nr_kdamonds", "0\n")
	f.file("proc/uptime", "1000.00 2000.00\n")
	f.file("proc/self/smaps", "")
	f.file("proc/self/clear_refs", "")
	for _, pid := range []int{7, 8} {
		f.Place(pid, "/app", "/app")
		f.process(pid, 0x100000*uint64(pid), 64, nil)
	}
	f.cpu(0)
	return f
}

// process makes one with a mapping of 4 MiB more than has pages in memory, or those that here says, and one that is
// shared.
func (f *fakeDAMON) process(pid int, start uint64, mib int64, here func(page int) bool) {
	f.t.Helper()
	dir := fmt.Sprintf("proc/%d/", pid)
	f.file(dir+"stat", fmt.Sprintf("%d (a ) b) S 1 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 500 0 0\n", pid))
	size := uint64(mib) << 20
	private := mib << 10
	if here != nil {
		pages := make([]byte, (start+size)/4096*8)
		private = 0
		for i := range int(size / 4096) {
			if here(i) {
				binary.NativeEndian.PutUint64(pages[start/4096*8+uint64(i)*8:], pagePresent|pageExclusive)
				private += 4
			}
		}
		f.file(dir+"pagemap", string(pages))
	}
	f.file(dir+"smaps", fmt.Sprintf("%x-%x rw-p 0 00:00 0\nPss: %d kB\nPrivate_Dirty: %d kB\nReferenced: 0 kB\nVmFlags: rd\n"+
		"7f0000000000-7f0000100000 r-xp 0 00:00 0\nPss: 512 kB\nPrivate_Clean: 0 kB\n", start, start+size, private, private))
}

// cpu sets what the kdamond, process 99, has cost, ticks.
func (f *fakeDAMON) cpu(n int) {
	f.file("proc/99/stat", fmt.Sprintf("99 (kdamond.0) S 2 0 0 0 -1 0 0 0 0 0 0 %d 0 0 20 0 1 0 900 0 0\n", n))
}

func (f *fakeDAMON) Do(_ context.Context, ch worker.Change) (worker.Done, error) {
	if ch.Kdamond == nil || strings.TrimSpace(f.get(kdamonds+"/nr_kdamonds")) != "0" {
		return worker.Done{}, fmt.Errorf("fake: %+v: %w", ch, errors.ErrUnsupported)
	}
	f.said = append(f.said, "set up")
	f.file(kdamonds+"/nr_kdamonds", "1\n")
	const c = kdamonds + "/0/contexts/"
	for name, text := range map[string]string{
		"/0/state": "off", "/0/pid": "-1", "/0/contexts/nr_contexts": "0", "/0/contexts/0/avail_operations": f.operations,
		"/0/contexts/0/operations": "vaddr", "/0/contexts/0/targets/nr_targets": "0", "/0/contexts/0/schemes/nr_schemes": "0",
		"/0/contexts/0/schemes/0/action": "stat", "/0/contexts/0/schemes/0/apply_interval_us": "0",
	} {
		f.file(kdamonds+name, text+"\n")
	}
	for _, name := range []string{"intervals/sample_us", "intervals/aggr_us", "intervals/update_us", "nr_regions/min", "nr_regions/max"} {
		f.file(c+"0/monitoring_attrs/"+name, "0\n")
	}
	for _, name := range []string{"sz", "nr_accesses", "age"} {
		f.file(c+"0/schemes/0/access_pattern/"+name+"/min", "0\n")
		f.file(c+"0/schemes/0/access_pattern/"+name+"/max", "0\n")
	}
	if !f.old {
		f.file(c+"0/schemes/0/tried_regions/total_bytes", "0\n")
	}
	for i := range 4 {
		dir := fmt.Sprintf("%s0/targets/%d/", c, i)
		f.file(dir+"pid_target", "0\n")
		f.file(dir+"regions/nr_regions", "0\n")
		for j := range 4 {
			f.file(fmt.Sprintf("%sregions/%d/start", dir, j), "0\n")
			f.file(fmt.Sprintf("%sregions/%d/end", dir, j), "0\n")
		}
	}
	return worker.Done{ID: "5"}, nil
}

func (f *fakeDAMON) Undo(_ context.Context, id string) error {
	f.said = append(f.said, "undo "+id)
	f.targets = nil
	if f.stolen {
		return nil
	}
	f.file(kdamonds+"/nr_kdamonds", "0\n")
	return os.RemoveAll(filepath.Join(f.Root, kdamonds, "0"))
}

func (f *fakeDAMON) number(name string) int {
	n, err := strconv.Atoi(strings.TrimSpace(f.get(kdamonds + "/0/contexts/0/" + name)))
	if err != nil {
		f.t.Error(err)
	}
	return n
}

func (f *fakeDAMON) Kdamond(_ context.Context, id, command string) error {
	if f.stolen || id != "5" {
		return fmt.Errorf("fake: %s: %w", command, fs.ErrNotExist)
	}
	f.said = append(f.said, command)
	switch command {
	case worker.KdamondOn, worker.KdamondCommit:
		if f.busy > 0 {
			f.busy--
			return sys.EBUSY
		}
		var list []watched
		for i := range f.number("targets/nr_targets") {
			dir := fmt.Sprintf("targets/%d/", i)
			w := watched{pid: f.number(dir + "pid_target")}
			for j := range f.number(dir + "regions/nr_regions") {
				w.extents = append(w.extents, extent{uint64(f.number(fmt.Sprintf("%sregions/%d/start", dir, j))),
					uint64(f.number(fmt.Sprintf("%sregions/%d/end", dir, j)))})
			}
			if _, err := os.Stat(filepath.Join(f.Root, "proc", strconv.Itoa(w.pid))); err != nil && w.pid != os.Getpid() {
				f.file(kdamonds+"/0/state", "off\n") // the kernel of 6.12 ends the thread
				return nil
			}
			list = append(list, w)
		}
		f.targets = list
		f.file(kdamonds+"/0/state", "on\n")
		f.file(kdamonds+"/0/pid", "99\n")
	case worker.KdamondRegions:
		const dir = kdamonds + "/0/contexts/0/schemes/0/tried_regions/"
		if err := os.RemoveAll(filepath.Join(f.Root, dir)); err != nil {
			return err
		}
		f.file(dir+"total_bytes", "0\n")
		n := 0
		for _, w := range f.targets {
			for _, e := range w.extents {
				list := []region{{e, 0, f.age}}
				if f.show != nil {
					list = f.show(w.pid, e)
				}
				for _, r := range list {
					for name, v := range map[string]uint64{"start": r.start, "end": r.end, "nr_accesses": r.accesses, "age": r.age} {
						f.file(fmt.Sprintf("%s%d/%s", dir, n, name), strconv.FormatUint(v, 10)+"\n")
					}
					n++
				}
			}
		}
	}
	return nil
}

// open is DAMON on the made-up machine, after the probe.
func (f *fakeDAMON) open(c Config) *Tracker {
	f.t.Helper()
	tr, err := Open(f.Root, f.h, c, f)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { tr.Close() })
	f.said = nil
	return tr
}

const minute = time.Minute
