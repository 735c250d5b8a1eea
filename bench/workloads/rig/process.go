package rig

import (
	"fmt"

	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/offload/demo/child"
)

// Part is the word that makes this program one of the experiment's processes: `SELF Part NAME …`.
const Part = "workload-part"

// Spec says what to start.
type Spec struct {
	Name string
	Args []string // the program, or nil with Part
	Part []string // instead: arguments of this program's own part
	In   *Member  // the cgroup in which it runs from its first instruction on; nil: ours
	User *User    // whom it runs as; nil: root
	Task any      // sent to its input as JSON, which then stays open; nil: no input
	Log  string   // file to which its output and errors are added; "": output is a pipe, errors are ours
	CPUs []int    // that it may run on; nil: any
	// Ask is the signal that asks it to end when it has no input; 0 is SIGTERM.
	Ask sys.Signal
	// OnDeath is the signal it gets when this program dies; 0 is SIGKILL.
	OnDeath sys.Signal
	Outlive bool   // instead: it goes on, in its own session
	Dir     string // working directory; "" is /
}

// User is who a server runs as.
type User struct{ UID, GID int }

// Process is one child.
type Process = child.Process

// Start starts a child that dies with this process, in its own process group so that a Ctrl-C reaches only us.
func (r *Rig) Start(sp Spec) (*Process, error) {
	args := sp.Args
	if sp.Part != nil {
		args = append([]string{r.self, Part}, sp.Part...)
	}
	if sp.In != nil || sp.User != nil {
		args = append(r.enter(sp), args...)
	}
	p, err := r.spawn.Start(child.Spec{
		Name: sp.Name, Args: args, Task: sp.Task, Log: sp.Log, CPUs: sp.CPUs,
		Ask: sp.Ask, OnDeath: sp.OnDeath, Outlive: sp.Outlive, Dir: sp.Dir,
	})
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	return p, nil
}

// Places says where the two twins and the generator run: see child.Places.
func Places() (twins, generator []int) { return child.Places() }
