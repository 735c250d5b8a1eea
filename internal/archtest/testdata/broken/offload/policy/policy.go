// Package policy decides, but reads files, the clock, the process's dice and floor 1.
package policy

import (
	"context"
	"math/rand/v2"
	_ "os"
	clock "time"

	_ "example.com/broken/internal/sys"
)

var (
	started = clock.Now()
	dice    = rand.IntN(6)

	patience, stop = context.WithTimeout(context.Background(), 1)
)
