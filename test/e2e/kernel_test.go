package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spillway-io/spillway/internal/cgroup"
)

// hogSize makes this test binary a process that holds as many bytes as it says, in the page cache of the file
// that hogFile names, and waits for its stdin to end. A file's pages can be taken with or without swap.
const (
	hogSize = "SPILLWAY_E2E_HOG"
	hogFile = "SPILLWAY_E2E_HOG_FILE"
)

func hog(size string) int {
	n, err := strconv.Atoi(size)
	if err != nil {
		return 2
	}
	f, err := os.Create(os.Getenv(hogFile))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer f.Close()
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i >> 7)
	}
	for range n >> 20 {
		if _, err := f.Write(b); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	if err := f.Sync(); err != nil { // dirty pages cannot be taken
		fmt.Println(err)
		return 1
	}
	fmt.Println("full")
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// memcg is a real memory cgroup of this story with a process in it.
type memcg struct {
	path, dir string
	cmd       *exec.Cmd
	in        io.Closer
}

// memcg NAME MIB: makes a memory cgroup below the story's own, with a process that fills MIB mebibytes of page cache; 0
// makes no process. $NAME is its path, $BASE the story's own cgroup.
func cmdMemcg(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: memcg NAME MIB")
	}
	h, err := cgroup.Discover("/")
	ts.Check(err)
	s := of(ts)
	base := fmt.Sprintf("/spillway-test-e2e-%d-%s", os.Getpid(), filepath.Base(s.work))
	if s.groups == nil {
		s.groups = map[string]*memcg{}
		ts.Check(os.Mkdir(filepath.Join(h.Memory, base), 0o755))
		s.undo = append(s.undo, func() { os.Remove(filepath.Join(h.Memory, base)) })
	}
	g := &memcg{path: base + "/" + args[0]}
	g.dir = filepath.Join(h.Memory, g.path)
	ts.Check(os.Mkdir(g.dir, 0o755))
	s.groups[args[0]] = g
	s.undo = append(s.undo, func() { g.remove() })
	self, err := h.Self()
	ts.Check(err)
	ts.Setenv("BASE", base)
	ts.Setenv("SELF", self)
	ts.Setenv(args[0], g.path)
	if args[1] == "0" {
		return
	}
	mib, err := strconv.Atoi(args[1])
	ts.Check(err)
	// The shell joins first, so that every page of the hog is charged to the cgroup.
	g.cmd = exec.Command("sh", "-c", `echo $$ > "$1/cgroup.procs" && exec "$2"`, "sh", g.dir, "/proc/self/exe")
	exe, err := os.Executable()
	ts.Check(err)
	g.cmd.Args[len(g.cmd.Args)-1] = exe
	g.cmd.Env = append(os.Environ(), hogSize+"="+strconv.Itoa(mib<<20), hogFile+"="+ts.MkAbs(strings.ReplaceAll(args[0], "/", "-")+".cache"))
	g.in, err = g.cmd.StdinPipe()
	ts.Check(err)
	out, err := g.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(g.cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "full\n" {
		ts.Fatalf("memcg: the process did not fill its memory: %q, %v", line, err)
	}
}

// remove ends the process and takes the cgroup away; the kernel may need a moment to uncharge it.
func (g *memcg) remove() error {
	if g.cmd != nil {
		g.in.Close()
		g.cmd.Process.Kill()
		g.cmd.Wait()
		g.cmd = nil
	}
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := os.Remove(g.dir)
		if err == nil || os.IsNotExist(err) {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline:
			return err
		}
	}
}

// vanish NAME: kills the process of a memcg and removes the cgroup.
func cmdVanish(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || of(ts).groups[args[0]] == nil {
		ts.Fatalf("usage, after memcg: vanish NAME")
	}
	ts.Check(of(ts).groups[args[0]].remove())
}

// stamp is when a file was last written, and for settings what it held.
type stamp struct {
	mtime time.Time
	value string
}

// watch DIR…, then later watch same: remembers every file below the cgroups' directories that can be written;
// the second time, none may have been written since. The kernel stamps a cgroup file at each write, as long as
// somebody holds it open, so that a limit lowered and restored shows although its value is the old one.
func cmdWatch(ts *testscript.TestScript, neg bool, args []string) {
	s := of(ts)
	h, err := cgroup.Discover("/")
	ts.Check(err)
	if len(args) == 1 && args[0] == "same" {
		for name, before := range s.watched {
			now, err := stampOf(name)
			ts.Check(err)
			if !now.mtime.Equal(before.mtime) || now.value != before.value {
				ts.Fatalf("%s was written: %v %q, before %v %q", name, now.mtime, now.value, before.mtime, before.value)
			}
		}
		if len(s.watched) < 5 {
			ts.Fatalf("watch: only %d files were watched", len(s.watched))
		}
		return
	}
	if s.watched == nil {
		s.watched = map[string]stamp{}
		s.undo = append(s.undo, func() {
			for _, f := range s.held {
				f.Close()
			}
		})
	}
	for _, path := range args {
		dir := filepath.Join(h.Memory, path)
		entries, err := os.ReadDir(dir)
		ts.Check(err)
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o222 == 0 {
				continue
			}
			if !strings.HasPrefix(path, "/spillway-test-") && !strings.HasPrefix(e.Name(), "memory.") {
				continue // others move tasks in the machine's own cgroups
			}
			name := filepath.Join(dir, e.Name())
			// Files that refuse to be read are watched by their time alone.
			if f, err := os.Open(name); err == nil {
				s.held = append(s.held, f)
			}
			s.watched[name], err = stampOf(name)
			ts.Check(err)
		}
	}
}

func stampOf(name string) (stamp, error) {
	info, err := os.Stat(name)
	if err != nil {
		return stamp{}, err
	}
	s := stamp{mtime: info.ModTime()}
	switch base := filepath.Base(name); {
	case strings.HasSuffix(base, "_in_bytes") && !strings.Contains(base, "usage"),
		strings.HasSuffix(base, ".max"), strings.HasSuffix(base, ".high"), strings.HasSuffix(base, ".low"), strings.HasSuffix(base, ".min"):
		// Some of the kernel's files can be written but not read; the time is watched all the same.
		if b, err := os.ReadFile(name); err == nil {
			s.value = string(b)
		}
	}
	return s, nil
}
