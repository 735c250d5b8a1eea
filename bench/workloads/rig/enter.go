package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// enterPart is the part that joins cgroups, becomes another user and then becomes another program. A server that
// was moved after its start would leave behind what it had touched, and children that it had forked.
const enterPart = "enter"

// enter is the command line up to the program's own.
func (r *Rig) enter(sp Spec) []string {
	u := User{}
	if sp.User != nil {
		u = *sp.User
	}
	var dirs []string
	if sp.In != nil {
		dirs = sp.In.Dirs
	}
	return []string{r.self, Part, enterPart, strconv.Itoa(u.UID), strconv.Itoa(u.GID), strings.Join(dirs, ":"), "--"}
}

// EnterMain is the body of enterPart: UID GID DIR:DIR -- PROGRAM ARGS. It returns only when it failed.
func EnterMain(args []string) error {
	if len(args) < 5 || args[3] != "--" {
		return fmt.Errorf("rig: enter: want UID GID DIRS -- PROGRAM, got %q", args)
	}
	uid, err := strconv.Atoi(args[0])
	gid, err2 := strconv.Atoi(args[1])
	if err := errors.Join(err, err2); err != nil {
		return fmt.Errorf("rig: enter: %w", err)
	}
	runtime.LockOSThread() // the thread that asks to die with the parent must be the one that executes
	for dir := range strings.SplitSeq(args[2], ":") {
		if dir == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("rig: enter: %w", err)
		}
	}
	if uid != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(gid), syscall.Setuid(uid)); err != nil {
			return fmt.Errorf("rig: enter: become user %d: %w", uid, err)
		}
		// The kernel forgets it when the user changes. A parent that died before is noticed by its cgroup's end.
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("rig: enter: %w", err)
		}
	}
	program, err := exec.LookPath(args[4])
	if err != nil {
		return fmt.Errorf("rig: enter: %w", err)
	}
	return fmt.Errorf("rig: enter: run %s: %w", program, syscall.Exec(program, args[4:], os.Environ()))
}
