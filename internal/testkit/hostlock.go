package testkit

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/sys"
)

// hostLockPath is on a tmpfs that every test process of this machine sees.
const hostLockPath = "/run/spillway-test.lock"

// HostLock holds the machine-wide test lock until the test ends. Take it before touching what the host has
// only one of: swap areas, zswap and zram settings, the kernel's global counters. Tests of other packages
// run in other processes, so a mutex would not do. It waits for its turn and skips where /run is not writable.
func HostLock(t testing.TB) {
	t.Helper()
	f, err := sys.OpenRegular(hostLockPath, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("needs the host lock %s: %v", hostLockPath, err)
	}
	if err != nil {
		t.Fatalf("testkit: take the host lock: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	start := time.Now()
	if err := sys.Flock(f, false); errors.Is(err, sys.ErrLocked) {
		t.Logf("waiting for another test that holds %s", hostLockPath)
		err = sys.Flock(f, true)
		if err != nil {
			t.Fatalf("testkit: take the host lock: %v", err)
		}
		t.Logf("waited %v", time.Since(start).Round(time.Millisecond))
	} else if err != nil {
		t.Fatalf("testkit: take the host lock: %v", err)
	}
}
