package sys

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mincore reports in resident, one byte a page, whether that page of b is in memory (bit 0). b must start on
// a page boundary and resident must hold a byte for each page begun. For private anonymous memory a page in
// the swap cache counts as resident.
func Mincore(b []byte, resident []byte) error {
	pages := (len(b) + unix.Getpagesize() - 1) / unix.Getpagesize()
	if pages == 0 {
		return nil
	}
	if len(resident) < pages {
		return fmt.Errorf("sys: mincore of %d pages: room for %d", pages, len(resident))
	}
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), uintptr(unsafe.Pointer(unsafe.SliceData(resident))))
	if errno != 0 {
		return fmt.Errorf("sys: mincore of %d pages: %w", pages, errno)
	}
	return nil
}
