// Package top is the live table of `spillway top`: what every cgroup uses, what of it is offloaded where, its
// pressure, and what the daemon last decided about it.
//
// Promise: it only reads the admin API, keeps the last answer on the screen and says how old it is when the
// daemon goes away, and takes up again by itself when it comes back. Names are escaped before they reach the
// terminal. Only the rows on the screen are rendered, so 2,000 cgroups cost what 40 do.
// Ownership: the model belongs to the terminal program's own loop; fetches run beside it and only return
// messages. There is no lock.
// Failure: an error of the daemon is shown, never fatal; only a terminal that cannot be driven ends Run.
// Non-goals: changing anything; history beyond the sparkline (the dashboard has it).
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/spillway-io/spillway/internal/admin"
)

// Client is the part of the admin API that top reads; *admin.Client implements it. Calls may run concurrently.
type Client interface {
	Status(context.Context) (admin.Status, error)
	Cgroups(context.Context) ([]admin.Cgroup, error)
	History(context.Context) ([]admin.Point, error)
	Explain(ctx context.Context, cgroup string) (admin.Explanation, error)
}

// Config is what Run needs. Zero fields take the default named beside them.
type Config struct {
	Client Client
	Every  time.Duration // between two reads; 1 s
	In     io.Reader     // the terminal
	Out    io.Writer     // the terminal
	Env    []string      // TERM, NO_COLOR and the like decide about colours
}

// Run drives the terminal until the user quits or ctx ends; both return nil.
func Run(ctx context.Context, c Config) error { return run(ctx, c) }

func run(ctx context.Context, c Config, more ...tea.ProgramOption) error {
	if c.Every <= 0 {
		c.Every = time.Second
	}
	m := newModel(ctx, c.Client, c.Every)
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(c.In), tea.WithOutput(c.Out), tea.WithEnvironment(c.Env)}
	p := tea.NewProgram(m, append(options, more...)...)
	if _, err := p.Run(); err != nil && ctx.Err() == nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("top: drive the terminal: %w", err)
	}
	return nil
}
