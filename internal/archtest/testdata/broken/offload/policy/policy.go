// Package policy decides, but reads files, the clock and floor 1.
package policy

import (
	_ "os"
	clock "time"

	_ "example.com/broken/internal/sys"
)

var started = clock.Now()
