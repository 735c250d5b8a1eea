// Package swap makes swap files and zram devices, switches them on and off, and reads zswap's parameters.
//
// Promise: MakeFile leaves either a whole file, every block allocated, that swapon accepts, or no file. Nothing
// here deletes or reformats what it did not make: MakeFile refuses an existing file, ZramSetup a device in use.
// Ownership: whoever calls On owes an Off; the journal, not this package, remembers that.
// Failure: errors carry an errkind and, where the user can do something, a hint. Off returns EINTR as it is, so
// that a signal can end a swapoff that must bring gigabytes back.
// Non-goals: hibernation, swap on network filesystems, choosing sizes.
package swap

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/spillway-io/spillway/internal/errkind"
)

// MinSize is the least size of a swap area in bytes: the kernel refuses areas of fewer than ten pages.
const MinSize = 10 * 4096

// Offsets of the fields of a version 1 swap header, which fills the first page of the area.
const (
	versionAt  = 1024
	lastPageAt = 1028
	badPagesAt = 1032
	uuidAt     = 1036
	signature  = "SWAPSPACE2" // the last ten bytes of the page
)

// header returns the first page of a swap area of size bytes. Preconditions: pageSize is a power of two of
// at least 4096.
func header(size int64, pageSize int) ([]byte, error) {
	pages := size / int64(pageSize)
	if size < MinSize || pages < 10 {
		return nil, errkind.New(errkind.Invalid, "swap: size %d is below the smallest area, %d bytes", size, 10*pageSize)
	}
	if pages > 1<<32 {
		return nil, errkind.New(errkind.Invalid, "swap: size %d is above the largest area, %d bytes", size, int64(pageSize)<<32)
	}
	b := make([]byte, pageSize)
	// The kernel takes the version in its own byte order and finds out by trying both.
	binary.NativeEndian.PutUint32(b[versionAt:], 1)
	binary.NativeEndian.PutUint32(b[lastPageAt:], uint32(pages-1))
	binary.NativeEndian.PutUint32(b[badPagesAt:], 0)
	if _, err := rand.Read(b[uuidAt : uuidAt+16]); err != nil {
		return nil, fmt.Errorf("swap: make uuid: %w", err)
	}
	b[uuidAt+6] = b[uuidAt+6]&0x0f | 0x40 // random UUID, version 4
	b[uuidAt+8] = b[uuidAt+8]&0x3f | 0x80
	copy(b[pageSize-len(signature):], signature)
	return b, nil
}
