// Package policy decides from samples.
package policy

import (
	"math"
	"time"

	_ "example.com/clean/internal/bytesize"
)

// Half is half of a period.
func Half(d time.Duration) float64 { return math.Abs(d.Seconds()) / 2 }
