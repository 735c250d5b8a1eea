// Command spillway is the node daemon (`spillway up`) and everything a person types about it. Each file holds
// one command group and joins packages; decisions and formats live in those packages.
//
// Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 unsupported on this machine, 4 cannot tell.
package main

import (
	"context"
	"io"
	"os"

	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/internal/errkind"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit code. Signals are the business of the commands that
// have something to clean up; the others end by the signal's default action.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	a := &app{in: in, out: out, err: errOut}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	cli.PrintError(errOut, err)
	return errkind.ExitCode(err)
}
