package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/testkit/herd"
)

// plant makes n cgroups whose hogs hold mib MiB each and keep hot percent of it warm.
func plant(ctx context.Context, n, mib, hot int) (*herd.Herd, error) {
	t, err := herd.New("bench")
	if err != nil {
		return nil, err
	}
	for range n {
		if _, err := t.Add(ctx, mib, hot); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	return t, nil
}

// daemon is a `spillway up` that this program started.
type daemon struct {
	cmd    *exec.Cmd
	dir    string
	client *admin.Client
	log    *os.File
}

// up starts the daemon on the tree. dir keeps its state, socket and configuration; extra are further lines of its
// offload part.
func (b *bench) up(ctx context.Context, t *herd.Herd, dir, extra string) (*daemon, error) {
	conf := fmt.Sprintf("listen: \"off\"\nsocket: %s/sock\nstate_dir: %s/state\noffload:\n  roots: [%s]\n  period: 1s\n  params: {latency: {ratio: 0.01}}\n%s",
		dir, dir, t.Root, extra)
	file := filepath.Join(dir, "spillway.yaml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir, client: admin.Dial(filepath.Join(dir, "sock")), log: log}
	d.cmd = exec.CommandContext(ctx, b.exe, "up", "--config", file)
	d.cmd.Cancel = func() error { return d.cmd.Process.Signal(syscall.SIGTERM) }
	d.cmd.WaitDelay = 30 * time.Second
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	if !herd.Eventually(ctx, 20*time.Second, func() bool { _, err := d.client.Status(ctx); return err == nil }) {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("the daemon did not come up: %s", text)
	}
	return d, nil
}

// stop ends the daemon as systemd would, and reports how it ended.
func (d *daemon) stop() error {
	defer d.log.Close()
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	err := d.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		text, _ := os.ReadFile(d.log.Name())
		return fmt.Errorf("the daemon ended with %v: %s", err, text)
	}
	return err
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
