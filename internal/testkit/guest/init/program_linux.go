package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spillway-io/spillway/internal/testkit/guest/wire"
)

// runProgram runs p to its end. That it failed is a frame; an error is a broken port.
func runProgram(out *wire.Encoder, index int, p wire.Program) error {
	if err := out.Encode(wire.Frame{Kind: wire.KindStart, Index: index}); err != nil {
		return err
	}
	began := time.Now()
	err := start(out, index, p)
	end := wire.Frame{Kind: wire.KindExit, Index: index, Took: time.Since(began)}
	if err != nil {
		end.Code, end.Message = -1, err.Error()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
			end.Code, end.Message = exit.ExitCode(), ""
		}
	}
	return out.Encode(end)
}

func start(out *wire.Encoder, index int, p wire.Program) error {
	c := exec.Command(p.Path, p.Args...)
	c.Dir = p.Dir
	c.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/tmp", "SPILLWAY_GUEST=1"}, p.Env...)
	w := out.Output(index)
	c.Stdout, c.Stderr = w, w
	// A grandchild that outlives the program and holds its output must not hold the run.
	c.WaitDelay = 5 * time.Second
	if err := c.Start(); err != nil {
		return err
	}
	// When a test uses up the memory, the kernel must kill the test and not the one who reports it. A program
	// that is gone already needs no score.
	os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
	os.WriteFile("/proc/"+strconv.Itoa(c.Process.Pid)+"/oom_score_adj", []byte("0"), 0)
	return c.Wait()
}
