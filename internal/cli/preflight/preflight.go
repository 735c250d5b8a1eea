// Package preflight looks, before the daemon starts, for what would make every action fail later, so that a
// person reads one sentence at once instead of the same error in a log every few seconds.
//
// Promise: it changes nothing; files are opened for writing and closed unwritten. Non-goals: what only lowers
// the yield (no swap, no PSI): the agent goes on without it and says so in its report.
package preflight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// MayAct says whether a process of user uid can change the cgroups below root: nil, or an error with a hint.
func MayAct(root string, uid int) error {
	if uid != 0 {
		return errkind.Hint(errkind.New(errkind.Denied,
			"up: not started as root (user %d): only root may write the limits of cgroups and set up swap", uid),
			"sudo spillway up; or only look: spillway up --dry-run --socket FILE --state-dir DIR")
	}
	h, err := cgroup.Discover(root)
	if err != nil {
		return err
	}
	return writable(h.Memory)
}

// writable opens a file that every cgroup directory has. The kernel checks the mount before anything else.
func writable(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, sys.EROFS):
		return errkind.Hint(errkind.New(errkind.Unsupported,
			"up: the cgroup file system at %s is mounted read-only, as in most containers: limits cannot be written", dir),
			"run it on the host itself or in a privileged container; or only look: spillway up --dry-run")
	}
	return fmt.Errorf("up: cgroups cannot be changed: %w", err)
}
