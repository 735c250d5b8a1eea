package swap

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func swapon(path string, flags int) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	_, _, e := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(p)), uintptr(flags), 0)
	runtime.KeepAlive(p)
	if e != 0 {
		return e
	}
	return nil
}

func swapoff(path string) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	_, _, e := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(p)), 0, 0)
	runtime.KeepAlive(p)
	if e != 0 {
		return e
	}
	return nil
}
