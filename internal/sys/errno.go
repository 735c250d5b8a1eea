package sys

import "syscall"

// The errnos callers compare with errors.Is. They are named here so that only this floor imports syscall.
const (
	EAGAIN       = syscall.EAGAIN
	EADDRINUSE   = syscall.EADDRINUSE
	EBUSY        = syscall.EBUSY
	ECHILD       = syscall.ECHILD
	ECONNREFUSED = syscall.ECONNREFUSED
	EINTR        = syscall.EINTR
	EINVAL       = syscall.EINVAL
	ELOOP        = syscall.ELOOP
	ENODEV       = syscall.ENODEV
	ENOMEM       = syscall.ENOMEM
	ENOSPC       = syscall.ENOSPC
	ENOTEMPTY    = syscall.ENOTEMPTY
	EPERM        = syscall.EPERM
	EPIPE        = syscall.EPIPE
	EROFS        = syscall.EROFS
	ESRCH        = syscall.ESRCH
)

// Open flags the os package does not name.
const (
	O_NOFOLLOW  = syscall.O_NOFOLLOW
	O_DIRECTORY = syscall.O_DIRECTORY
)

// Signal is a signal to send. The constants are the ones Spillway sends or handles.
type Signal = syscall.Signal

const (
	SIGCONT = syscall.SIGCONT
	SIGHUP  = syscall.SIGHUP
	SIGINT  = syscall.SIGINT
	SIGKILL = syscall.SIGKILL
	SIGPIPE = syscall.SIGPIPE
	SIGQUIT = syscall.SIGQUIT
	SIGSTOP = syscall.SIGSTOP
	SIGTERM = syscall.SIGTERM
	SIGUSR1 = syscall.SIGUSR1
	SIGUSR2 = syscall.SIGUSR2
	// SIGURG calls a thread back from a blocked system call: the Go runtime already handles it for its own
	// preemption and takes a stray one for nothing, so no handler needs installing.
	SIGURG = syscall.SIGURG
)
