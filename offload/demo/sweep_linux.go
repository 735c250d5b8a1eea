package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/demo/child"
)

// sweepTask tells the sweeper which folder to empty once its parent is gone.
type sweepTask struct {
	StateDir string `json:"state_dir"`
}

// sweeper starts the process that outlives the demo. The worker and the daemon undo their changes when the
// demo dies, but cannot remove the folder in which their own journals lie.
func sweeper(s *child.Spawner, cfg Config) (*child.Process, error) {
	return s.Start(child.Spec{Name: "sweeper", Args: []string{cfg.Exe, "demo-part", partSweep},
		Task: sweepTask{StateDir: cfg.StateDir}, Outlive: true})
}

// sweep waits for in to end, that is, for the demo to be over or dead, and then for the journals to be free;
// it undoes what they still hold and removes the folder.
func sweep(_ context.Context, in io.Reader, _ io.Writer) error {
	signal.Ignore(sys.SIGINT, sys.SIGTERM, sys.SIGHUP)
	var task sweepTask
	dec := json.NewDecoder(in)
	if err := dec.Decode(&task); err != nil {
		return fmt.Errorf("demo: sweep: read task: %w", err)
	}
	io.Copy(io.Discard, in)
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	return restoreAndRemove(ctx, Config{StateDir: task.StateDir})
}

// restoreAndRemove undoes what the two journals hold and removes the state folder. While somebody uses a
// journal it waits, until ctx ends.
func restoreAndRemove(ctx context.Context, cfg Config) error {
	for _, dir := range []string{cfg.nodeDir(), cfg.rigDir()} {
		if err := restoreOne(ctx, dir); err != nil {
			return err
		}
	}
	// Only what is known to be ours goes: rig and node hold journals, tmp was the worker's and is gone.
	for _, dir := range []string{cfg.nodeDir(), cfg.rigDir()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("demo: sweep: %w", err)
		}
	}
	if err := os.Remove(cfg.StateDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("demo: sweep: %w", err)
	}
	return nil
}

func restoreOne(ctx context.Context, dir string) error {
	for {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		outcomes, err := worker.Restore(ctx, dir, false, nil)
		if err == nil {
			for _, o := range outcomes {
				err = errors.Join(err, o.Err)
			}
			if err == nil {
				return nil
			}
			return fmt.Errorf("demo: undo what %s holds: %w", dir, err)
		}
		if errkind.Of(err) != errkind.Unavailable {
			return fmt.Errorf("demo: undo what %s holds: %w", dir, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("demo: undo what %s holds: %w", dir, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// restoreEarlier takes back what a killed run and its sweeper left. A run that is still going on is an error.
func restoreEarlier(ctx context.Context, cfg Config) error {
	for _, dir := range []string{cfg.nodeDir(), cfg.rigDir()} {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := restoreOne(ctx, dir)
		cancel()
		if err != nil {
			return errkind.Hint(err, "another demo may be running: wait for it or stop it")
		}
	}
	return nil
}
