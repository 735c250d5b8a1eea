package sys

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Gettid is the calling thread's id. It means something only while the goroutine is locked to its thread.
func Gettid() int { return unix.Gettid() }

// Tgkill sends sig to one thread of process pid. A thread that is about to enter a blocking call misses the
// signal's effect, so whoever calls a thread back repeats Tgkill until the call has returned.
func Tgkill(pid, tid int, sig Signal) error {
	if err := unix.Tgkill(pid, tid, sig); err != nil {
		return fmt.Errorf("sys: signal thread %d of %d: %w", tid, pid, err)
	}
	return nil
}

// Kill sends sig to process pid; signal 0 only asks whether it exists. pid must be positive: a group or
// "everybody" is never meant.
func Kill(pid int, sig Signal) error {
	if pid <= 0 {
		return fmt.Errorf("sys: signal %d: not a process id", pid)
	}
	if err := unix.Kill(pid, sig); err != nil {
		return fmt.Errorf("sys: signal %d: %w", pid, err)
	}
	return nil
}

// PidfdOpen opens a descriptor that stays bound to this very process, whoever gets its pid later. It becomes
// readable when the process ends. Linux 5.3.
func PidfdOpen(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err == unix.EINVAL {
		fd, err = unix.PidfdOpen(pid, 0) // the flag is 5.10
	}
	if err != nil {
		return nil, fmt.Errorf("sys: open process %d: %w", pid, err)
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("pidfd:%d", pid)), nil
}

// PidfdSendSignal signals the process behind f, a file from PidfdOpen.
func PidfdSendSignal(f *os.File, sig Signal) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("sys: signal %s: %w", f.Name(), err)
	}
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return fmt.Errorf("sys: signal %s: %w", f.Name(), err)
	}
	if sent != nil {
		return fmt.Errorf("sys: signal %s: %w", f.Name(), sent)
	}
	return nil
}

// PeerCred says who is at the other end of a unix socket, as the kernel recorded it when it connected.
func PeerCred(conn *net.UnixConn) (uid, gid uint32, pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, 0, 0, fmt.Errorf("sys: peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var got error
	err = raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err == nil {
		err = got
	}
	if err != nil {
		return 0, 0, 0, fmt.Errorf("sys: peer credentials: %w", err)
	}
	return cred.Uid, cred.Gid, int(cred.Pid), nil
}

// Detached starts a child in its own session, so that a Ctrl-C on our terminal and the end of our process
// group do not reach it.
func Detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// DieWithParent has the kernel send sig to the child when the thread that started it ends. Start the child
// from a goroutine locked to a thread that lives as long as the child should.
func DieWithParent(sig Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: sig} }

// Who selects whose usage Rusage reports.
type Who int

const (
	UsageSelf     Who = unix.RUSAGE_SELF
	UsageChildren Who = unix.RUSAGE_CHILDREN // ended and waited for
	UsageThread   Who = unix.RUSAGE_THREAD
)

// Rusage is CPU time since the start and the largest resident size ever, in bytes.
func Rusage(who Who) (user, system time.Duration, maxRSS int64, err error) {
	var ru unix.Rusage
	if err := unix.Getrusage(int(who), &ru); err != nil {
		return 0, 0, 0, fmt.Errorf("sys: getrusage: %w", err)
	}
	return time.Duration(ru.Utime.Nano()), time.Duration(ru.Stime.Nano()), int64(ru.Maxrss) << 10, nil
}

// ThreadCPU is the processor time of the calling thread, to the nanosecond, which Rusage is not. It means something
// only while the goroutine is locked to its thread.
func ThreadCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic("sys: CLOCK_THREAD_CPUTIME_ID is always there: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// Pin lets process pid (0: the calling thread) run on the given CPUs only; threads it has already started keep theirs.
func Pin(pid int, cpus ...int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(pid, &set); err != nil {
		return fmt.Errorf("sys: pin process %d to CPUs %v: %w", pid, cpus, err)
	}
	return nil
}

// CPUs are those that the calling thread may run on, in ascending order.
func CPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sys: read affinity: %w", err)
	}
	var out []int
	for c := range 8 * len(set) * 8 {
		if set.IsSet(c) {
			out = append(out, c)
		}
	}
	return out, nil
}
