package daemon

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// lockName is the file below the state directory. It stays when the daemon ends: removing it would let a
// third process lock a new file while a second still holds the old one.
const lockName = "daemon.lock"

// Lock makes stateDir (0700) and takes the one lock a daemon needs. release gives it back; the kernel does so
// too when the process dies, however it dies. A second caller gets errkind.Unavailable with the holder's pid.
func Lock(stateDir string) (release func(), err error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, lockError(stateDir, err)
	}
	path := filepath.Join(stateDir, lockName)
	f, err := sys.OpenRegular(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, lockError(stateDir, err)
	}
	if err := sys.Flock(f, false); err != nil {
		defer f.Close()
		if errors.Is(err, sys.ErrLocked) {
			return nil, errkind.Hint(errkind.New(errkind.Unavailable, "daemon: lock %s: another daemon runs here (%s)", stateDir, holder(f)),
				"see it with `spillway status`; stop it first, or give this one another `state_dir:` and `socket:`")
		}
		return nil, lockError(stateDir, err)
	}
	// The pid is for people; the lock is what counts, so a full disk is no reason not to start.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return func() { f.Close() }, nil
}

// holder says who wrote the lock file.
func holder(f *os.File) string {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	pid, perr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || perr != nil || pid <= 0 {
		return "pid unknown"
	}
	return "pid " + strconv.Itoa(pid)
}

func lockError(dir string, err error) error {
	err = fmt.Errorf("daemon: lock %s: %w", dir, err)
	if errors.Is(err, fs.ErrPermission) {
		return errkind.Hint(errkind.Wrap(errkind.Denied, err), "run as root or with sudo")
	}
	return err
}
