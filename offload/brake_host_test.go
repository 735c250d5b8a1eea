package offload

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/psi"
)

// On the real kernel: whatever pulls the brake within five seconds must have stalled for as long as the
// configuration says. A trigger with a window of two seconds first reports everything since boot (6.18).
func TestHostBrakeHasARealCause(t *testing.T) {
	probe.Need(t, probe.Root)
	probe.Need(t, probe.PSI)
	if _, err := cgroup.Discover("/"); err != nil {
		t.Skip(err)
	}
	a, err := New(Config{}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.closeAll()
	a.log = slog.New(slog.DiscardHandler)
	read := func() uint64 {
		f, err := psi.Open("/proc/pressure/memory")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		totals, err := f.Read()
		if err != nil {
			t.Fatal(err)
		}
		return totals.Some
	}
	const share = 0.01 // 20 ms in two seconds: nearly every machine has stalled for longer since it booted
	before := read()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	brake := make(chan time.Time, 16)
	a.watchPressure(ctx, Stop{MemPressure: share, Hold: time.Second}, brake)
	grew := usec(read() - before)
	if n := len(brake); n > 0 && grew < 10*time.Millisecond {
		t.Errorf("the brake was pulled %d times although memory stalled for %v only", n, grew)
	}
}
