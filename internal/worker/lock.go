package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// lockName is the file in the state directory whose flock the worker holds for its life. It holds the pid and
// what the holder is doing, so that a newcomer knows whether waiting makes sense.
const lockName = "lock"

const (
	serving = "serving"
	undoing = "undoing"
)

// lockPatience is how long a newcomer waits for a holder that serves: its daemon may have died this instant.
// For one that is undoing it waits as long as its context allows.
const lockPatience = time.Second

// acquire takes the lock. A holder that stays is errkind.Unavailable with its pid.
func acquire(ctx context.Context, dir string) (*os.File, error) {
	f, err := sys.OpenRegular(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("worker: lock: %w", err)
	}
	patience := time.NewTimer(lockPatience)
	defer patience.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for late := false; ; {
		err := sys.Flock(f, false)
		if err == nil {
			_ = mark(f, serving)
			return f, nil
		}
		if !errors.Is(err, sys.ErrLocked) {
			f.Close()
			return nil, fmt.Errorf("worker: lock: %w", err)
		}
		pid, state := holder(f)
		if late && state != undoing && !dying(pid) {
			f.Close()
			return nil, errkind.Hint(errkind.New(errkind.Unavailable, "worker: state directory %q is in use by process %d", dir, pid),
				"stop the running spillway first, or use another --state-dir")
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, errkind.New(errkind.Unavailable, "worker: process %d is still undoing its changes: %w", pid, ctx.Err())
		case <-patience.C:
			late = true
		case <-again.C:
		}
	}
}

// dying says whether a process has been killed but is not gone yet: a thread that waits for the disk ends only when
// the disk answers, and keeps the lock until then.
func dying(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		text = strings.TrimSpace(text)
		switch name {
		case "State":
			if strings.HasPrefix(text, "Z") || strings.HasPrefix(text, "X") {
				return true
			}
		case "SigPnd", "ShdPnd":
			if mask, err := strconv.ParseUint(text, 16, 64); err == nil && mask&(1<<(sys.SIGKILL-1)) != 0 {
				return true
			}
		}
	}
	return false
}

// mark writes what the holder is doing. Whoever can go on without it does: the flock is the lock, and on a full disk
// undoing must still work.
func mark(f *os.File, state string) error {
	b := fmt.Appendf(nil, "%d %s\n", os.Getpid(), state)
	_, err := f.WriteAt(b, 0)
	if err != nil {
		b = nil // what an earlier holder wrote would be believed
	}
	if err := errors.Join(err, f.Truncate(int64(len(b)))); err != nil {
		return fmt.Errorf("worker: mark lock: %w", err)
	}
	return nil
}

func holder(f *os.File) (pid int, state string) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 64))
	if err != nil {
		return 0, ""
	}
	num, state, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	pid, err = strconv.Atoi(num)
	if err != nil {
		return 0, ""
	}
	return pid, state
}
