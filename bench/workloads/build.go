package workloads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spillway-io/spillway/bench/workloads/rig"
	"github.com/spillway-io/spillway/offload/class"
)

// BuildResult compares builds without and with the agent, one after the other: they use all CPUs.
type BuildResult struct {
	Law       string
	Off, On   []BuildRun // pairs, off first in the even ones
	Leftovers []string
}

// BuildRun is one build with a cold cache.
type BuildRun struct {
	Wall   time.Duration
	Mean   int64 // footprint of the build's cgroup over the whole build, mean
	Peak   int64 // largest footprint
	Major  uint64
	Steps  int
	Taken  int64
	Source string // what was built
}

// Ratio is each pair's wall time with the agent over that without; Saved what share of the mean footprint went.
func (b *BuildResult) Ratio() (ratio, saved []float64) {
	for i := range min(len(b.On), len(b.Off)) {
		ratio = append(ratio, b.On[i].Wall.Seconds()/b.Off[i].Wall.Seconds())
		saved = append(saved, 1-float64(b.On[i].Mean)/float64(b.Off[i].Mean))
	}
	return ratio, saved
}

// Build builds pkg of the module in dir with an empty GOCACHE, pairs times off and on alternately. Class
// throughput: nobody waits for a single request.
func Build(ctx context.Context, cfg Config, dir, pkg string, pairs int) (res *BuildResult, err error) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		return nil, &Missing{Program{"go", "golang"}}
	}
	r, err := rig.Open(ctx, rig.Config{Exe: cfg.Exe, Members: []rig.Member{{Name: "build"}}})
	if err != nil {
		return nil, fmt.Errorf("build: set up: %w", err)
	}
	res = &BuildResult{Law: cfg.Law}
	err = func() error {
		rec, err := r.Watch()
		if err != nil {
			return err
		}
		d, err := r.StartDaemon(ctx, rig.Setup{Law: cfg.Law})
		if err != nil {
			return err
		}
		one := func(on bool) error {
			classes := map[string]class.Class{}
			if on {
				classes["build"] = class.Throughput
			}
			if err := d.Apply(ctx, classes); err != nil {
				return err
			}
			run, err := buildOnce(ctx, r, rec, goTool, dir, pkg)
			if err != nil {
				return err
			}
			if err := d.Collect(ctx); err != nil {
				return err
			}
			word, list := "off", &res.Off
			if on {
				word, list = cfg.Law, &res.On
				_, run.Steps, run.Taken = d.Decided(r.Member("build"), time.Now().Add(-run.Wall), time.Now())
			}
			fmt.Fprintf(cfg.Out, "  build under %s: %.1f s, %d MB (mean), %d steps\n", word, run.Wall.Seconds(), run.Mean/1e6, run.Steps)
			*list = append(*list, run)
			return nil
		}
		for i := range pairs {
			if err := errors.Join(one(i%2 == 1), one(i%2 == 0)); err != nil { // off on, on off: drift favours neither
				return err
			}
		}
		return nil
	}()
	left, cerr := r.Close()
	if err = errors.Join(err, cerr); err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	res.Leftovers = left
	return res, nil
}

// buildOnce is one build with an empty cache. Its cgroup keeps the cache's files in its account, so they are
// removed before the next.
func buildOnce(ctx context.Context, r *rig.Rig, rec *rig.Recorder, goTool, dir, pkg string) (run BuildRun, err error) {
	cache := filepath.Join(r.Tmp(), "gocache")
	if err := os.Mkdir(cache, 0o700); err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	begin, err := rec.Look()
	if err != nil {
		return run, err
	}
	log := filepath.Join(r.Tmp(), "build.log")
	p, err := r.Start(rig.Spec{
		Name: "go build", In: r.Member("build"), Log: log, Dir: dir,
		Args: []string{"env", "GOCACHE=" + cache, "CGO_ENABLED=0", goTool, "build", "-buildvcs=false", "-o", filepath.Join(cache, "out"), pkg},
	})
	if err != nil {
		return run, err
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			p.Kill()
			return run, context.Cause(ctx)
		case <-p.Done:
			ended = true
		case <-tick.C:
			if err := r.Alive(ctx); err != nil {
				return run, err
			}
		}
	}
	if p.Err != nil {
		return run, fmt.Errorf("go build: %w: %s", p.Err, tail(log))
	}
	end, err := rec.Look()
	if err != nil {
		return run, err
	}
	run.Wall, run.Source = end.At.Sub(begin.At), pkg
	in := rec.Between(begin.At, end.At)
	for _, x := range in {
		f := rec.Footprint(x, 0)
		run.Mean += f / int64(len(in))
		run.Peak = max(run.Peak, f)
	}
	run.Major = end.Of[0].MajorFaults - begin.Of[0].MajorFaults
	return run, nil
}
