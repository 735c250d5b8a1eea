package track

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
)

const kdamonds = "sys/kernel/mm/damon/admin/kdamonds"

// maxKdamonds bounds how many states are read.
const maxKdamonds = 1024

// checkDAMON never returns nil: it says what is there. A running kdamond is somebody else's and stays untouched; its
// sysfs directory has room for one user only. A free DAMON is not driven either: physical monitoring does not tell
// whose memory a region is, virtual monitoring counts address space whether or not it is resident, and a kdamond
// would have to be journalled and stopped again, for an answer that generations give exactly.
func checkDAMON(root string) error {
	number := func(name string) (string, error) {
		b, err := os.ReadFile(filepath.Join(root, kdamonds, name))
		return strings.TrimSpace(string(b)), err
	}
	text, err := number("nr_kdamonds")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &probe.Missing{Feature: "DAMON's sysfs interface", Since: "5.18", Do: "use a kernel built with CONFIG_DAMON_SYSFS"}
	case err != nil:
		return fmt.Errorf("track: %w", err)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxKdamonds {
		return fmt.Errorf("track: %s/nr_kdamonds holds %q: %w", kdamonds, text, proc.ErrFormat)
	}
	for i := range n {
		state, err := number(filepath.Join(strconv.Itoa(i), "state"))
		if err != nil || state != "on" {
			continue
		}
		pid, err := number(filepath.Join(strconv.Itoa(i), "pid"))
		if _, bad := strconv.Atoi(pid); err != nil || bad != nil {
			pid = "unknown"
		}
		return errkind.Hint(errkind.New(errkind.Unsupported, "track: DAMON is in use: kdamond %d (pid %s) runs, is not ours, and is left alone", i, pid),
			"use another source; heat.source: auto finds one")
	}
	return errkind.Hint(errkind.New(errkind.Unsupported, "track: DAMON is here, and Spillway does not drive it: it does not tell resident memory by cgroup"),
		"use another source; heat.source: auto finds one")
}
