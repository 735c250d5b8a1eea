package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit/guest/wire"
)

// machine is one guest before it starts: what QEMU is told.
type machine struct {
	accel     string
	cpus      int
	memMiB    int
	vmlinuz   string
	initramfs string
	cmdline   string
	disks     []disk
	wall      time.Duration // set by boot
}

type disk struct{ path, serial string }

// commandLine makes the kernel quick under emulation and loud when it dies: no speculation work-arounds, no crypto
// self-tests, a panic ends QEMU.
const commandLine = "console=ttyS0 quiet panic=-1 oops=panic psi=1 mitigations=off cryptomgr.notests nokaslr " +
	"random.trust_cpu=on no_timer_check tsc=reliable"

// consoleKept is how much of the end of the console an error quotes.
const consoleKept = 4 << 10

// args is the command line of QEMU. Descriptors 3 and 4 take the console and the frames.
func (m machine) args() []string {
	cpu := "max"
	accel := m.accel
	if accel == tcg {
		accel = "tcg,thread=multi"
	}
	a := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", "q35", "-accel", accel, "-cpu", cpu,
		"-smp", strconv.Itoa(m.cpus), "-m", strconv.Itoa(m.memMiB),
		"-kernel", m.vmlinuz, "-initrd", m.initramfs, "-append", strings.TrimSpace(commandLine + " " + m.cmdline),
		"-chardev", "file,id=console,path=/dev/fd/3", "-serial", "chardev:console",
		"-chardev", "file,id=frames,path=/dev/fd/4", "-serial", "chardev:frames",
	}
	for _, d := range m.disks {
		a = append(a,
			"-drive", "if=none,format=raw,cache=unsafe,discard=unmap,id="+d.serial+",file="+d.path,
			"-device", "virtio-blk-pci,drive="+d.serial+",serial="+d.serial)
	}
	return a
}

// boot runs the machine until it powers off and gives each frame to each, with the wall time since the start. It
// fails when the machine did not report the end of its plan within limit, or when each failed.
func (m *machine) boot(ctx context.Context, limit time.Duration, each func(wire.Frame, time.Duration) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no end after %v", limit))
	defer cancel()
	consoleR, consoleW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("guest: make pipe: %w", err)
	}
	framesR, framesW, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("guest: make pipe: %w", err), consoleR.Close(), consoleW.Close())
	}
	defer consoleR.Close()
	defer framesR.Close()

	var said bytes.Buffer // by QEMU itself
	c := exec.CommandContext(ctx, "qemu-system-x86_64", m.args()...)
	c.ExtraFiles = []*os.File{consoleW, framesW}
	c.Stdout, c.Stderr = &said, &said
	c.SysProcAttr = sys.DieWithParent(sys.SIGKILL)

	began := time.Now()
	exited := make(chan error, 1)
	go func() {
		// The kernel ties the guest's life to this thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.Start()
		consoleW.Close()
		framesW.Close()
		if err == nil {
			err = c.Wait()
		}
		exited <- err
	}()
	console := make(chan []byte, 1)
	go func() { console <- lastBytes(consoleR, consoleKept) }()

	done, frameErr := readFrames(framesR, began, each)
	if frameErr != nil {
		cancel()
	}
	waitErr := <-exited
	m.wall = time.Since(began)
	tail := <-console
	switch {
	case frameErr != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled):
		err = frameErr
	case ctx.Err() != nil:
		err = fmt.Errorf("guest: %w", context.Cause(ctx))
	case waitErr != nil:
		err = fmt.Errorf("guest: run QEMU: %w: %s", waitErr, strings.TrimSpace(said.String()))
	case frameErr != nil:
		err = frameErr
	case !done:
		err = errors.New("guest: the machine ended before its plan did")
	default:
		return nil
	}
	return fmt.Errorf("%w; end of its console:\n%s", err, tail)
}

// readFrames reads to the end of the stream even when each failed early: QEMU blocks on a pipe nobody reads.
func readFrames(r io.Reader, began time.Time, each func(wire.Frame, time.Duration) error) (done bool, err error) {
	d := wire.NewDecoder(r)
	for {
		f, err := d.Decode()
		if errors.Is(err, io.EOF) {
			return done, nil
		}
		if err != nil {
			return done, err
		}
		if err := each(f, time.Since(began)); err != nil {
			return done, err
		}
		done = done || f.Kind == wire.KindDone
	}
}

// lastBytes drains r and returns its last n bytes, from the start of a line.
func lastBytes(r io.Reader, n int) []byte {
	var kept []byte
	buf := make([]byte, 4<<10)
	for {
		k, err := r.Read(buf)
		kept = append(kept, buf[:k]...)
		if cut := len(kept) - n; cut > 0 {
			kept = append(kept[:0], kept[cut:]...)
		}
		if err != nil {
			break
		}
	}
	if len(kept) == n {
		_, kept, _ = bytes.Cut(kept, []byte("\n"))
	}
	return bytes.ReplaceAll(kept, []byte("\r\n"), []byte("\n"))
}
