package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload"
	"github.com/spillway-io/spillway/offload/policy"
)

// AgentPart is the part that runs the product's agent under a law that the product does not have. It is asked and
// reloaded over the same socket and with the same configuration file as the real daemon.
const AgentPart = "agent"

// AgentTask is what AgentPart is told.
type AgentTask struct {
	Config   string `json:"config"` // the file; its law only says which parameters are checked
	Socket   string `json:"socket"`
	StateDir string `json:"state_dir"`
	Exe      string `json:"exe"` // the spillway program, for worker and canary
	Law      string `json:"law"`
}

// NewLaw makes a law for one cgroup by its name.
type NewLaw func(name string) (policy.Law, error)

// AgentMain is the body of AgentPart. It ends when in does, or by a signal, and has undone everything then.
func AgentMain(ctx context.Context, in io.Reader, task AgentTask, law NewLaw) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { io.Copy(io.Discard, in); cancel() }()
	load := func() (offload.Config, error) {
		var f struct {
			Listen  string         `yaml:"listen"`
			Offload offload.Config `yaml:"offload"`
		}
		err := cli.LoadYAML(task.Config, &f)
		return f.Offload, err
	}
	cfg, err := load()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(task.StateDir, 0o700); err != nil {
		return fmt.Errorf("rig: agent: %w", err)
	}
	socket, err := admin.Listen(task.Socket)
	if err != nil {
		return err
	}
	defer socket.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	w, err := worker.Start(ctx, worker.Config{Exe: task.Exe, StateDir: task.StateDir, Log: log})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		defer cancel()
		err = errors.Join(err, w.Close(ctx))
	}()
	cfg.Log = log
	agent, err := offload.New(cfg, offload.Deps{
		Root: "/", Worker: w, Exe: task.Exe, Reload: load,
		NewLaw: func(string, policy.Params) (policy.Law, error) {
			l, err := law(task.Law)
			if err != nil {
				return nil, err
			}
			return &dilated{l}, nil
		},
	})
	if err != nil {
		return err
	}
	if err := agent.Prepare(ctx); err != nil {
		return err
	}
	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		if err := admin.NewServer(agent, prometheus.NewRegistry(), log).Serve(serve, socket); err != nil {
			log.Error("admin socket", "error", err)
		}
	})
	if err := agent.Run(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// dilation is how much time a law with its own clock is told has passed for one second: the experiments decide
// every second where production decides every six.
const dilation = 6

// dilated lets a law that counts seconds live on the compressed time scale. Everything that adds up over a period
// is stretched with it, so that every share and every rate stays what it was.
type dilated struct{ policy.Law }

// Decide implements policy.Law.
func (d *dilated) Decide(s policy.Sample) policy.Decision {
	s.Period *= dilation
	s.MemSome *= dilation
	s.IOSome *= dilation
	s.Age *= dilation
	for _, n := range []*uint64{&s.RefaultAnon, &s.RefaultFile, &s.Scanned, &s.Stolen, &s.Activated} {
		*n *= dilation
	}
	return d.Law.Decide(s)
}
