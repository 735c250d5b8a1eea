// Package sys is a door.
package sys

import (
	_ "syscall"

	_ "example.com/clean/internal/bytesize"
	_ "golang.org/x/sys/unix"
)
