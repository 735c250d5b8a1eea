package adversary

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
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/offload/demo/workload"
)

// JobLife is how long one job of Churn keeps its memory idle before it reads all of it back: long enough for an
// agent that lists cgroups every 5 s to begin.
const JobLife = 12 * time.Second

// heirloom is how long a job's shared memory outlives the job and its cgroup.
const heirloom = 4 * time.Second

// churn makes one cgroup with one job a request: the job fills shared memory, idles, reads it back and ends. The
// cgroup is removed at once, but somebody else still has the memory open for a while, as a file in /dev/shm would be.
// What of it is in swap then pins the removed cgroup until the memory goes.
type churn struct {
	task Task
	next atomic.Int64

	heirs sync.WaitGroup
	quit  chan struct{} // closed when the program ends
}

func newChurn(t Task) *churn {
	return &churn{task: t, quit: make(chan struct{})}
}

// end lets all shared memory go.
func (c *churn) end() {
	close(c.quit)
	c.heirs.Wait()
}

// Do runs one job from the making of its cgroup to its removal.
func (c *churn) Do(ctx context.Context, _ int) (err error) {
	name := "job-" + strconv.FormatInt(c.next.Add(1), 10)
	var dirs []string
	for _, d := range c.task.Dirs {
		dir := filepath.Join(d, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("adversary: churn: %w", err)
		}
		dirs = append(dirs, dir)
	}
	shared, err := sharedMemory(name)
	if err != nil {
		return err
	}
	args := append(append([]string{}, c.task.Job...), strconv.Itoa(c.task.Bytes))
	args = append(args, dirs...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.ExtraFiles = []*os.File{shared}
	cmd.Stderr = os.Stderr
	err = cmd.Run()
	for _, d := range dirs {
		err = errors.Join(err, remove(ctx, d))
	}
	c.heirs.Go(func() {
		t := time.NewTimer(heirloom)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.quit:
		}
		shared.Close()
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("adversary: churn: %w", err)
	}
	return ctx.Err()
}

func (c *churn) Close() error { return nil }

// remove waits a little for the kernel to have reaped what was in the cgroup.
func remove(ctx context.Context, dir string) error {
	for range 200 {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || ctx.Err() != nil {
			return err
		}
		pause(ctx, 5*time.Millisecond)
	}
	return fmt.Errorf("%s is still in use", dir)
}

// sharedMemory is a file in the kernel's own tmpfs, with no name that could be left behind.
func sharedMemory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("adversary: shared memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// JobMain is the body of one job: SIZE DIR…, with its shared memory as descriptor 3.
func JobMain(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("adversary: job: want SIZE DIR…, got %q", args)
	}
	size, err := strconv.Atoi(args[0])
	if err != nil || size < 1 || size > 1<<30 {
		return fmt.Errorf("adversary: job: size %q", args[0])
	}
	for _, dir := range args[1:] {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("adversary: job: %w", err)
		}
	}
	f := os.NewFile(3, "shared")
	if _, err := f.Write(workload.Fill(make([]byte, size), 0x10b)); err != nil {
		return fmt.Errorf("adversary: job: %w", err)
	}
	pause(context.Background(), JobLife)
	if _, err := f.Seek(0, 0); err != nil {
		return fmt.Errorf("adversary: job: %w", err)
	}
	n, err := bufio.NewReaderSize(f, 1<<20).WriteTo(discard{})
	if err != nil || n != int64(size) {
		return fmt.Errorf("adversary: job: read %d of %d bytes back: %w", n, size, err)
	}
	return nil
}

// discard reads what it is given, unlike io.Discard, for which the kernel need not copy.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
