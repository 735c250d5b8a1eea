package psi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillway-io/spillway/internal/errkind"
)

// The kernel's bounds for a trigger's window.
const (
	MinWindow = 500 * time.Millisecond
	MaxWindow = 10 * time.Second
)

// Trigger is a kernel-side watch on a pressure file: it fires when tasks stalled ("some") for longer than a
// set time within a window, at most once a window.
type Trigger struct {
	fd, wake int
	path     string
}

// AllowedWindow is the window this process may ask for: want, or without the capability SYS_RESOURCE the next
// multiple of two seconds, which is what the kernel (6.4 and newer) grants to everybody.
func AllowedWindow(want time.Duration) (time.Duration, error) {
	resource, err := mayAnyWindow()
	if err != nil || resource {
		return want, err
	}
	return (want + commonWindow - 1) / commonWindow * commonWindow, nil
}

const commonWindow = 2 * time.Second

func mayAnyWindow() (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false, fmt.Errorf("psi: read own capabilities: %w", err)
	}
	return sets[unix.CAP_SYS_RESOURCE/32].Effective&(1<<(unix.CAP_SYS_RESOURCE%32)) != 0, nil
}

// OpenTrigger sets up a watch on path that fires once tasks stalled for stall within window. Window is in
// [MinWindow, MaxWindow], stall in (0, window]; a window that this process may not ask for is an error of kind
// Denied, see AllowedWindow. Linux 5.2.
func OpenTrigger(path string, stall, window time.Duration) (*Trigger, error) {
	if window < MinWindow || window > MaxWindow || stall < time.Microsecond || stall > window {
		return nil, fmt.Errorf("psi: trigger %v in %v: outside (0, window] in [%v, %v]", stall, window, MinWindow, MaxWindow)
	}
	fd, err := open(path, unix.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	// The kernel wants the terminating zero counted in.
	rule := fmt.Sprintf("some %d %d\x00", stall.Microseconds(), window.Microseconds())
	if _, err := unix.Write(fd, []byte(rule)); err != nil {
		if may, capErr := mayAnyWindow(); err == unix.EINVAL && capErr == nil && !may && window%commonWindow != 0 {
			err = errkind.Hint(errkind.New(errkind.Denied, "a window of %v: %w", window, err),
				"give the process the capability SYS_RESOURCE, or use a window that is a multiple of %v", commonWindow)
		}
		return nil, errors.Join(explain("set trigger on", path, err), unix.Close(fd))
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("psi: make eventfd: %w", err), unix.Close(fd))
	}
	return &Trigger{fd: fd, wake: wake, path: path}, nil
}

// Wait blocks until the trigger fires (nil), ctx ends (its cause) or the watched cgroup goes (ErrGone).
// One Wait at a time.
func (t *Trigger) Wait(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	one := []byte{1, 0, 0, 0, 0, 0, 0, 1} // not zero in either byte order
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_, _ = unix.Write(t.wake, one) // EAGAIN means that it is already awake
	})
	// Without waiting for the function, it could write to a descriptor that Close freed.
	defer func() {
		if !stop() {
			<-woken
			var drop [8]byte
			_, _ = unix.Read(t.wake, drop[:])
		}
	}()
	fds := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLPRI}, {Fd: int32(t.wake), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("psi: wait on %q: %w", t.path, err)
		case fds[0].Revents&(unix.POLLERR|unix.POLLNVAL) != 0:
			return fmt.Errorf("psi: wait on %q: %w", t.path, ErrGone)
		case fds[0].Revents&unix.POLLPRI != 0:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

// Close ends the watch. A second Close does nothing.
func (t *Trigger) Close() error {
	if t.fd < 0 {
		return nil
	}
	err := errors.Join(unix.Close(t.fd), unix.Close(t.wake))
	t.fd, t.wake = -1, -1
	if err != nil {
		return fmt.Errorf("psi: close trigger on %q: %w", t.path, err)
	}
	return nil
}
