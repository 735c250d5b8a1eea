package guest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/testkit/guest/wire"
)

func TestMain(m *testing.M) {
	if os.Getenv("GUEST_TEST_BOOT") != "" {
		(&machine{accel: tcg}).boot(context.Background(), time.Hour, func(wire.Frame, time.Duration) error { return nil })
	}
	os.Exit(m.Run())
}

func boot(t *testing.T, script string, limit time.Duration) (frames []wire.Frame, err error) {
	t.Helper()
	fakePrograms(t, map[string]string{"qemu-system-x86_64": script})
	m := &machine{accel: tcg}
	err = m.boot(t.Context(), limit, func(f wire.Frame, _ time.Duration) error {
		frames = append(frames, f)
		return nil
	})
	return frames, err
}

func TestBootReportsFrames(t *testing.T) {
	frames, err := boot(t, `echo '{"kind":"boot","release":"6.1"}' >&4; echo '{"kind":"done"}' >&4`, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(frames) != 2 || frames[0].Release != "6.1" {
		t.Errorf("frames %+v", frames)
	}
}

func TestBootFailures(t *testing.T) {
	for _, c := range []struct {
		name, script string
		limit        time.Duration
		want         []string
	}{
		{"hang", `echo "Kernel panic - not syncing: oops" >&3; exec sleep 1000`, 300 * time.Millisecond,
			[]string{"no end after 300ms", "Kernel panic - not syncing: oops"}},
		{"early end", `echo "the last words" >&3`, time.Minute, []string{"ended before its plan", "the last words"}},
		{"QEMU error", `echo "could not load kernel" >&2; exit 1`, time.Minute, []string{"exit status 1", "could not load kernel"}},
		{"noise on the port", `echo "[  0.1] oops" >&4; exec sleep 1000`, time.Minute, []string{"decode frame"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := boot(t, c.script, c.limit)
			if err == nil {
				t.Fatal("boot succeeded")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q lacks %q", err, w)
				}
			}
		})
	}
}

// A test killed with -9 must not leave its guest behind.
func TestGuestDiesWithUs(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v: %s", err, out)
	}
	fakePrograms(t, map[string]string{"qemu-system-x86_64": `exec 9>` + fifo + `; echo up >&9; exec sleep 1000`})
	us := exec.Command("/proc/self/exe")
	us.Env = append(os.Environ(), "GUEST_TEST_BOOT=1")
	if err := us.Start(); err != nil {
		t.Fatal(err)
	}
	defer us.Process.Kill()
	f, err := os.Open(fifo) // waits for the fake QEMU
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	if line, err := r.ReadString('\n'); err != nil || line != "up\n" {
		t.Fatalf("the fake QEMU says %q (%v)", line, err)
	}
	if err := us.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := us.Wait(); err == nil {
		t.Fatal("the killed process ended well")
	}
	if err := f.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// End of file comes when the last holder of the other end, the fake QEMU, is gone.
	if _, err := r.ReadByte(); err == nil || err.Error() != "EOF" {
		t.Errorf("QEMU outlived the process that started it: %v", err)
	}
}

func TestArgsNameEveryDisk(t *testing.T) {
	m := machine{accel: tcg, cpus: 2, memMiB: 512, cmdline: "zswap.zpool=zbud", disks: []disk{{"/a/disk0", "disk0"}}}
	line := strings.Join(m.args(), " ")
	for _, want := range []string{
		"-accel tcg,thread=multi", "-m 512", "psi=1", "zswap.zpool=zbud",
		"file=/a/disk0", "virtio-blk-pci,drive=disk0,serial=disk0", "-no-reboot", "panic=-1",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("QEMU's arguments lack %q: %s", want, line)
		}
	}
}
