// Package herd keeps cgroups with a memory-holding process each, for tests and benchmarks that need a busy node.
//
// Promise: every process of a herd dies with the program that made it, and Close removes every cgroup. The
// program's main or TestMain must call Main first: a hog is the same program, started again.
// Ownership: a Herd belongs to one goroutine. Non-goals: measuring anything.
package herd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
)

// Herd is a parent cgroup and its children with a hog each, mirrored in the cgroup2 mount on a hybrid machine so
// that each has pressure of its own.
type Herd struct {
	Root string // path of the parent below the memory hierarchy

	h    cgroup.Hierarchy
	exe  string
	next int
	hogs map[string]*exec.Cmd // by cgroup path

	planter *exec.Cmd // of a crowd
	alive   *os.File  // of a crowd: its tasks end when this is closed
}

// New makes the parent cgroup, named spillway-NAME-PID.
func New(name string) (*Herd, error) {
	h, err := cgroup.Discover("/")
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d := &Herd{h: h, exe: exe, Root: fmt.Sprintf("/spillway-%s-%d", name, os.Getpid()), hogs: map[string]*exec.Cmd{}}
	for _, dir := range d.dirs(d.Root) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("herd: %w", err), d.Close())
		}
	}
	if h.Mode == cgroup.V2 {
		if err := os.WriteFile(filepath.Join(h.Memory, d.Root, "cgroup.subtree_control"), []byte("+memory"), 0o644); err != nil {
			return nil, errors.Join(fmt.Errorf("herd: %w", err), d.Close())
		}
	}
	return d, nil
}

// Add makes one more cgroup whose hog holds mib MiB and keeps hot percent of it warm, and returns its path.
func (d *Herd) Add(ctx context.Context, mib, hot int) (string, error) {
	p := fmt.Sprintf("%s/job-%d", d.Root, d.next)
	d.next++
	dirs := d.dirs(p)
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", fmt.Errorf("herd: %w", err)
		}
	}
	cmd := exec.Command(d.exe, append([]string{strconv.Itoa(mib), strconv.Itoa(hot)}, dirs...)...)
	d.hogs[p] = cmd
	if err := start(ctx, cmd); err != nil {
		return "", fmt.Errorf("herd: hog of %s: %w", p, err)
	}
	return p, nil
}

// AddCrowd makes n cgroups with mib MiB each that one process left there, and an idle task in each: thousands of
// cgroups without thousands of hogs. A herd has at most one crowd, and it comes first.
func (d *Herd) AddCrowd(ctx context.Context, n, mib int) error {
	if d.next > 0 {
		return errors.New("herd: the crowd comes first")
	}
	// Every idle task reads the same pipe, which ends with us.
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("herd: %w", err)
	}
	defer r.Close()
	d.alive = w
	for d.next < n {
		p := fmt.Sprintf("%s/job-%d", d.Root, d.next)
		d.next++
		idle := exec.Command("cat")
		idle.Stdin = r
		if err := idle.Start(); err != nil {
			return fmt.Errorf("herd: %w", err)
		}
		d.hogs[p] = idle
		for _, dir := range d.dirs(p) {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return fmt.Errorf("herd: %w", err)
			}
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(idle.Process.Pid)), 0o644); err != nil {
				return fmt.Errorf("herd: %w", err)
			}
		}
	}
	d.planter = exec.Command(d.exe, append([]string{"crowd", strconv.Itoa(mib), strconv.Itoa(n)}, d.dirs(d.Root)...)...)
	if err := start(ctx, d.planter); err != nil {
		return fmt.Errorf("herd: crowd: %w", err)
	}
	return nil
}

// start starts a hog and waits until it holds its memory.
func start(ctx context.Context, cmd *exec.Cmd) error {
	cmd.Env = append(os.Environ(), hogMark+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if _, err := cmd.StdinPipe(); err != nil { // never written: its end tells the hog that we are gone
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		return fmt.Errorf("it did not start: %q: %w", line, errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// Remove ends the hog of the cgroup at path and removes the cgroup.
func (d *Herd) Remove(path string) error {
	if c := d.hogs[path]; c != nil {
		end(c)
		delete(d.hogs, path)
	}
	return d.rmdir(path)
}

func end(c *exec.Cmd) {
	if c.Process == nil { // never started
		return
	}
	_ = c.Process.Kill()
	_ = c.Wait() // killed: the error says only that
}

// Close ends every hog and removes every cgroup.
func (d *Herd) Close() error {
	var errs []error
	if d.planter != nil {
		end(d.planter)
		d.planter = nil
	}
	if d.alive != nil {
		d.alive.Close()
	}
	for p := range d.hogs {
		errs = append(errs, d.Remove(p))
	}
	return errors.Join(append(errs, d.rmdir(d.Root))...)
}

// rmdir waits up to 5 s for a cgroup to become empty: the kernel reaps a killed task in its own time.
func (d *Herd) rmdir(path string) error {
	for _, dir := range d.dirs(path) {
		var err error
		gone := Eventually(context.Background(), 5*time.Second, func() bool {
			err = os.Remove(dir)
			return err == nil || errors.Is(err, fs.ErrNotExist)
		})
		if !gone {
			return fmt.Errorf("herd: %w", err)
		}
	}
	return nil
}

func (d *Herd) dirs(path string) []string {
	if d.h.Mode == cgroup.Hybrid {
		return []string{filepath.Join(d.h.Memory, path), filepath.Join(d.h.Unified, path)}
	}
	return []string{filepath.Join(d.h.Memory, path)}
}

// Paths lists the cgroups with a hog.
func (d *Herd) Paths() (out []string) {
	for p := range d.hogs {
		out = append(out, p)
	}
	return out
}

// Alive counts the hogs that still run.
func (d *Herd) Alive() (n int) {
	for _, c := range d.hogs {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		if err == nil && !strings.Contains(string(state), ") Z ") {
			n++
		}
	}
	return n
}

// Knobs reads everything a daemon may have changed: limits and protections of the herd, zswap, page-cluster,
// swap areas. Keys are files.
func (d *Herd) Knobs() (map[string]string, error) {
	out := map[string]string{}
	var files []string
	for p := range d.hogs {
		for _, f := range []string{"memory.limit_in_bytes", "memory.swappiness", "memory.max", "memory.high", "memory.min", "memory.low"} {
			files = append(files, filepath.Join(d.h.Memory, p, f))
		}
	}
	zswap, err := filepath.Glob("/sys/module/zswap/parameters/*")
	if err != nil {
		return nil, err
	}
	for _, f := range append(append(files, zswap...), "/proc/sys/vm/page-cluster") {
		data, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the other hierarchy's name
		}
		if err != nil {
			return nil, fmt.Errorf("herd: %w", err)
		}
		out[f] = strings.TrimSpace(string(data))
	}
	areas, err := proc.ReadSwaps("/")
	if err != nil {
		return nil, err
	}
	for _, a := range areas {
		out["/proc/swaps "+a.Path] = "on"
	}
	return out, nil
}

// Differences names what is not as it was.
func Differences(before, after map[string]string) (out []string) {
	for k, v := range before {
		if after[k] != v {
			out = append(out, fmt.Sprintf("%s is %q, was %q", k, after[k], v))
		}
	}
	for k, v := range after {
		if _, was := before[k]; !was {
			out = append(out, fmt.Sprintf("%s is %q, was not there", k, v))
		}
	}
	return out
}

// Eventually asks until ok, and gives up after limit or when ctx ends.
func Eventually(ctx context.Context, limit time.Duration, ok func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// Running says whether process pid exists and is not a zombie.
func Running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ") && sys.Kill(pid, 0) == nil
}
