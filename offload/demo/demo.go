// Package demo shows the product's main job on this machine, as a user would see it, and measures it: two
// key-value servers under the same load, one with its memory offloaded and one without, which change places
// half-way; beside them a sidecar with a cold heap and a batch job.
//
// Promise: the daemon is the real program, started with a configuration file and asked through its admin
// socket. Whatever ends the demo, kill -9 included, nothing it made stays: cgroups and folders are journalled
// by a worker process, children die with their parent, the daemon undoes its own, and a last process sweeps up.
// Ownership: Run owns everything it starts until it returns. The sampler's goroutine owns its file
// descriptors (see package watch).
// Failure: a goal that was missed, or noise that hides it, is an error that says so in one sentence.
// Non-goals: proving a figure for your service. The time scale is compressed (period 1 s, 1 % a period).
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
)

// Config says what to demonstrate. Only Exe and Out are needed.
type Config struct {
	Exe         string    // the spillway program
	RedisServer string    // redis-server's path; "": found in PATH, and the built-in server when there is none
	Out         io.Writer // progress and table
	In          io.Reader // where Enter comes from at the end; nil: only a signal ends the hold
	Terminal    bool      // Out is a terminal: one progress line rewritten in place, and the end waits for Enter
	Keep        bool      // wait at the end although Out is no terminal
	JSONPath    string    // results; "": not written
	// StateDir is a folder for sockets, journals and the swap file, on a real disk. It must not exist, but for
	// what an earlier run left. Default /var/lib/spillway-demo.
	StateDir string
	// Listen is the dashboard's address; default 127.0.0.1:9720, or any free port when that is taken.
	Listen string

	// What follows changes the experiment; zero keeps the default.
	Keys      int           // keys of each server; default 300,000, about 410 MB
	Rate      int           // reads a second for each server; default 2,500
	Calibrate time.Duration // the A/A block; default 28s
	Half      time.Duration // one half; default 82s
}

// Defaults of the experiment.
const (
	defaultStateDir = "/var/lib/spillway-demo"
	defaultKeys     = 300_000
	defaultRate     = 2_500
	coldShare       = 0.6 // of the keys, the older ones: published cold shares are 19 to 62 %
	popularity      = 0.99
	fillSeed        = 7
	readSeed        = 11

	period       = time.Second
	ratio        = 0.01 // per period: the cap
	sidecarCold  = 100 << 20
	sidecarHot   = 2 << 20
	batchBytes   = 24 << 20
	batchShare   = 0.10
	swapFileSize = 1536 << 20
)

func (c Config) withDefaults() (Config, error) {
	c.StateDir = cmp.Or(c.StateDir, defaultStateDir)
	c.Keys = cmp.Or(c.Keys, defaultKeys)
	c.Rate = cmp.Or(c.Rate, defaultRate)
	c.Calibrate = cmp.Or(c.Calibrate, 28*time.Second)
	c.Half = cmp.Or(c.Half, 82*time.Second)
	switch {
	case c.Exe == "":
		return c, errors.New("demo: no program to demonstrate")
	case c.Out == nil:
		return c, errors.New("demo: nowhere to print")
	case !filepath.IsAbs(c.StateDir) || strings.Count(filepath.Clean(c.StateDir), "/") < 2:
		return c, errkind.New(errkind.Invalid, "demo: state folder %q: give an absolute path below a top-level folder", c.StateDir)
	case c.Keys < 1000 || c.Keys > 10_000_000:
		return c, errkind.New(errkind.Invalid, "demo: %d keys: give 1,000 to 10,000,000", c.Keys)
	case c.Calibrate < 2*skip || c.Half < 2*saveWindow:
		return c, errkind.New(errkind.Invalid, "demo: the A/A block needs at least %v and a half %v", 2*skip, 2*saveWindow)
	}
	exe, err := filepath.Abs(c.Exe) // the children run in /
	if err != nil {
		return c, fmt.Errorf("demo: find %s: %w", c.Exe, err)
	}
	c.Exe = exe
	return c, nil
}

// cold is how many keys are never read.
func (c Config) cold() int { return int(coldShare * float64(c.Keys)) }

// Run shows the demo. Its error is nil when every goal was met and nothing was left behind.
func Run(ctx context.Context, cfg Config) (err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return err
	}
	show := newProgress(cfg.Out, cfg.Terminal)
	defer show.stop()
	show.expect(10*time.Second + 5*time.Second + cfg.Calibrate + skip + 2*cfg.Half + 8*time.Second)
	r, err := newRig(ctx, cfg, show)
	if err != nil {
		return fmt.Errorf("demo: set up: %w", err)
	}
	res, err := r.timeline(ctx)
	show.stop()
	if err == nil {
		res.judge()
		printResult(cfg.Out, res)
		hold(ctx, cfg, r.node.dashboard)
	}
	left, cerr := r.close()
	if err != nil { // no result
		return errors.Join(err, cerr, leftBehind(left))
	}
	res.addLeftovers(left)
	printLeftovers(cfg.Out, left)
	return errors.Join(res.verdict(), cerr, res.write(cfg.JSONPath))
}

// leftBehind is the error about what is still there, nil when nothing is.
func leftBehind(names []string) error {
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("demo: left behind: %s", strings.Join(names, "; "))
}

// hold keeps everything running for whoever wants to look, until Enter or the end of ctx.
func hold(ctx context.Context, cfg Config, dashboard string) {
	if dashboard != "" {
		fmt.Fprintf(cfg.Out, "\ndashboard  %s\n", dashboard)
	}
	if !cfg.Terminal && !cfg.Keep {
		return
	}
	fmt.Fprint(cfg.Out, "Everything is still running. Enter or Ctrl-C ends it and puts everything back. ")
	enter := make(chan struct{})
	if cfg.In != nil {
		go func() {
			cfg.In.Read(make([]byte, 1))
			close(enter)
		}()
	}
	select {
	case <-ctx.Done():
	case <-enter:
	}
	fmt.Fprintln(cfg.Out)
}
