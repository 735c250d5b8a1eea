// Package sys is a door and imports a room.
package sys

import (
	_ "syscall"

	_ "example.com/broken/farmem"
)
