// Package microvm calls the kernel and uses unsafe by itself.
package microvm

import (
	_ "syscall"
	_ "unsafe"

	_ "golang.org/x/sys/unix"
)
