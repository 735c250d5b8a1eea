package cli

import (
	"os"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
)

// checkOwner refuses a configuration that somebody other than root and the user running this could have
// written: the daemon runs as root and creates the swap files and touches the cgroups it names.
func checkOwner(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errkind.New(errkind.Invalid, "config: %s is not a regular file", path)
	}
	uid, _, ok := sys.Owner(info)
	if !ok {
		return errkind.New(errkind.Unknown, "config: %s: this system does not say who owns the file", path)
	}
	return judgeOwner(path, uid, info.Mode(), uint32(os.Geteuid()))
}

// judgeOwner is the rule itself: owner uid, permission bits, and the user asking.
func judgeOwner(path string, uid uint32, mode os.FileMode, asking uint32) error {
	if uid != 0 && uid != asking {
		return errkind.Hint(errkind.New(errkind.Denied,
			"config: %s belongs to user %d, not to root: whoever writes it steers a root daemon", path, uid),
			"chown root:root %s && chmod 0644 %s", path, path)
	}
	if mode.Perm()&0o022 != 0 {
		return errkind.Hint(errkind.New(errkind.Denied,
			"config: %s is writable for others than its owner (mode %04o): whoever writes it steers a root daemon", path, mode.Perm()),
			"chmod go-w %s", path)
	}
	return nil
}
