// Package workloads puts real servers, a build and adversaries under the offload agent and measures each beside a
// twin that is left alone.
//
// Promise: two twins have equal data and get the same requests in the same seconds; one is of class latency, the
// other off, and half-way they change places. Before that both are off for a while: the A/A, without which no
// ratio means anything. The daemon is the real program; a law that it does not know runs in the same agent in a
// process of this program. Nothing an experiment made stays, see package rig.
// Ownership: Run owns everything until it returns. Failure: a server that is not installed is a Missing; anything
// that dies meanwhile ends the experiment with an error that names it.
// Non-goals: absolute latencies. The time scale is compressed: a decision every second, at most 1 % a decision.
package workloads

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spillway-io/spillway/bench/laws"
	"github.com/spillway-io/spillway/bench/workloads/adversary"
	"github.com/spillway-io/spillway/bench/workloads/client"
	"github.com/spillway-io/spillway/bench/workloads/drive"
	"github.com/spillway-io/spillway/bench/workloads/rig"
	"github.com/spillway-io/spillway/offload/demo/workload"
)

// The parts that run as processes of their own, beside rig's.
const (
	partDrive     = "drive"
	partAdversary = "adversary"
	partJob       = "job"
	partTree      = "tree"
	partSidecar   = "sidecar"
	partBatch     = "batch"
	partExport    = "export"
)

// Main turns this process into a part of an experiment if a rig started it, and does not return then. The
// program's main must call it first.
func Main() {
	if len(os.Args) < 3 || os.Args[1] != rig.Part {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := part(ctx, os.Args[2], os.Args[3:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, os.Args[2]+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func part(ctx context.Context, name string, args []string, in io.Reader, out io.Writer) error {
	switch name {
	case "enter":
		return rig.EnterMain(args)
	case rig.AgentPart:
		dec := json.NewDecoder(in)
		var task rig.AgentTask
		if err := dec.Decode(&task); err != nil {
			return fmt.Errorf("read task: %w", err)
		}
		return rig.AgentMain(ctx, io.MultiReader(dec.Buffered(), in), task, laws.New)
	case partDrive:
		return drive.Main(ctx, in, out, client.Dial)
	case partExport:
		return exportMain(ctx, in, out)
	case partAdversary:
		return adversary.Main(ctx, in, out)
	case partJob:
		return adversary.JobMain(args)
	case partTree:
		return writeTree(args)
	case partSidecar:
		return workload.Sidecar(ctx, in, out)
	case partBatch:
		return workload.Batch(ctx, in, out)
	}
	return fmt.Errorf("no part is called %q", name)
}

// Workload is what both twins do.
type Workload struct {
	Name  string
	What  string
	Needs []Program
	// Load is what the generator sends; Targets are filled in. Keys, Cold, Theta describe the data.
	Load drive.Spec
	// Kind is the protocol of the server; "" for an adversary, which drives itself.
	Kind string
	// Prepare, if any, makes what both twins' data come from. It returns what Start gets.
	Prepare func(ctx context.Context, s *stage) error
	// Start starts the server of one twin in its cgroup, with its data in place, and returns it and its socket.
	Start func(ctx context.Context, s *stage, m *rig.Member) (*rig.Process, string, error)

	Adversary *adversary.Task // what an adversary is, when Kind is ""
	MaxPool   int             // zswap's max_pool_percent; 0 leaves it
}

// Program is an executable that a workload needs and the Debian package it comes in.
type Program struct{ Path, Package string }

// Missing says that a workload's program is not installed.
type Missing struct{ Program }

func (m *Missing) Error() string {
	return fmt.Sprintf("%s is not installed: apt-get install --no-install-recommends %s", m.Path, m.Package)
}

// Config says how to run one workload.
type Config struct {
	Exe   string // the spillway program, absolute
	Law   string // one of the product's, a baseline of package laws, or Off: both twins stay off throughout
	Quick bool   // shorter phases and less data
	Out   io.Writer
	// Targets are further parameters of class latency, "name: value" each.
	Targets []string
	Slower  int // how many times slower than rig.Ratio memory is taken; 0: as fast
}

// Off is the law that takes nothing.
const Off = "off"

// times are how long the phases last.
type times struct{ settle, aa, half, skip, save time.Duration }

func (c Config) times() times {
	if c.Quick {
		return times{settle: 2 * time.Second, aa: 8 * time.Second, half: 16 * time.Second, skip: 3 * time.Second, save: 6 * time.Second}
	}
	return times{settle: 5 * time.Second, aa: 20 * time.Second, half: 52 * time.Second, skip: 5 * time.Second, save: 15 * time.Second}
}

// scale makes data smaller for a quick run, whose phases are too short for more.
func (c Config) scale(n int) int {
	if c.Quick {
		return n / 2
	}
	return n
}
