package psi_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/psi"
)

const text = "some avg10=1.53 avg60=0.87 avg300=0.22 total=123456789\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4321\n"

func TestParse(t *testing.T) {
	for in, want := range map[string]psi.Totals{
		text: {Some: 123456789, Full: 4321},
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n":                                            {Some: 7}, // CPU before 5.13
		"full avg10=0.00 avg60=0.00 avg300=0.00 total=8\n":                                            {Full: 8}, // IRQ
		"some total=1 avg10=0.00\nmore avg10=0 total=2\nfull avg10=0.00 total=18446744073709551615\n": {Some: 1, Full: 1<<64 - 1},
	} {
		if got, err := psi.Parse([]byte(in)); err != nil || got != want {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "\n", "some\n", "some avg10=0.00\n", "some total=\n", "some total=-1\n", "some total=1.5\n", "some total=18446744073709551616\n", "some subtotal=1\n"} {
		if got, err := psi.Parse([]byte(in)); !errors.Is(err, proc.ErrFormat) {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

func TestOpenNamesTheCure(t *testing.T) {
	dir := t.TempDir()
	if _, err := psi.Open(filepath.Join(dir, "memory")); !errors.Is(err, psi.ErrOff) {
		t.Errorf("host file missing: %v", err)
	}
	if _, err := psi.Open(filepath.Join(dir, "memory.pressure")); !errors.Is(err, psi.ErrOff) {
		t.Errorf("cgroup file missing: %v", err)
	}
	if _, err := psi.Open(filepath.Join(dir, "gone", "memory.pressure")); !errors.Is(err, psi.ErrGone) {
		t.Errorf("cgroup missing: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.pressure"), []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := psi.Open(filepath.Join(dir, "memory.pressure")); !errors.Is(err, psi.ErrCgroupOff) {
		t.Errorf("switched off for the cgroup: %v", err)
	}
}

func TestHostPressure(t *testing.T) {
	probe.Need(t, probe.PSI)
	f, err := psi.Open("/proc/pressure/memory")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := f.Read(); err != nil || got.Full > got.Some {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTriggerBounds(t *testing.T) {
	for _, c := range [][2]time.Duration{{time.Millisecond, 499 * time.Millisecond}, {time.Millisecond, 11 * time.Second}, {0, time.Second}, {2 * time.Second, time.Second}} {
		if tr, err := psi.OpenTrigger("/proc/pressure/memory", c[0], c[1]); err == nil || !strings.Contains(err.Error(), "outside") {
			t.Errorf("%v: %v, %v", c, tr, err)
		}
	}
}

func TestTriggerEndsWithItsContext(t *testing.T) {
	probe.Need(t, probe.PSI)
	probe.Need(t, probe.Root)
	// A whole window of stall does not happen while this test runs.
	tr, err := psi.OpenTrigger("/proc/pressure/memory", 10*time.Second, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	for range 3 { // a cancelled Wait must leave nothing behind for the next
		ctx, cancel := context.WithCancelCause(context.Background())
		done := make(chan error, 1)
		go func() { done <- tr.Wait(ctx) }()
		select {
		case err := <-done:
			t.Fatalf("fired or failed: %v", err)
		default:
		}
		cancel(why)
		if err := <-done; !errors.Is(err, why) {
			t.Errorf("%v", err)
		}
		if err := tr.Wait(ctx); !errors.Is(err, why) {
			t.Errorf("with an ended context: %v", err)
		}
	}
	if err := errors.Join(tr.Close(), tr.Close()); err != nil {
		t.Error(err)
	}
}

func TestTriggerNeedsLeaveForAnOddWindow(t *testing.T) {
	probe.Need(t, probe.PSI)
	odd := 3 * time.Second
	allowed, err := psi.AllowedWindow(odd)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := psi.OpenTrigger("/proc/pressure/memory", odd, odd)
	switch {
	case allowed == odd && err == nil:
		tr.Close()
	case allowed == 4*time.Second && errkind.Of(err) == errkind.Denied && strings.Contains(errkind.HintOf(err), "SYS_RESOURCE"):
	default:
		t.Errorf("allowed %v, but opening gave %v, hint %q", allowed, err, errkind.HintOf(err))
	}
}

// CPU pressure is the one that a test can make without hurting anybody: more busy threads than processors.
func TestTriggerFires(t *testing.T) {
	probe.Need(t, probe.PSI)
	probe.Need(t, probe.Root)
	window, err := psi.AllowedWindow(psi.MinWindow)
	if err != nil || window != psi.MinWindow && window != 2*time.Second {
		t.Fatalf("window %v, %v", window, err)
	}
	tr, err := psi.OpenTrigger("/proc/pressure/cpu", 5*time.Millisecond, window)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	spin(t, ctx)
	if err := tr.Wait(ctx); err != nil {
		t.Errorf("never fired: %v", err)
	}
}

func spin(t *testing.T, ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var busy sync.WaitGroup
	threads := runtime.NumCPU() + 2
	before := runtime.GOMAXPROCS(threads + 2)
	for range threads {
		busy.Go(func() {
			runtime.LockOSThread()
			for ctx.Err() == nil {
			}
		})
	}
	t.Cleanup(func() { cancel(); busy.Wait(); runtime.GOMAXPROCS(before) })
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(text))
	f.Add([]byte("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"))
	f.Add([]byte("full total=18446744073709551615"))
	f.Add([]byte("some \ttotal=1\x00\nfull"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := psi.Parse(b)
		if err != nil && (!errors.Is(err, proc.ErrFormat) || got != psi.Totals{}) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
