package admin

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Duration is a time.Duration that JSON writes as seconds, with a fraction: 0.0025 is 2.5 ms. Seconds are what
// Prometheus and the dashboard count in.
type Duration time.Duration

// String is time.Duration's.
func (d Duration) String() string { return time.Duration(d).String() }

// Seconds is the length in seconds.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }

// MarshalJSON writes seconds, exact to the nanosecond up to about 100 days.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(d).Seconds(), 'f', -1, 64), nil
}

// UnmarshalJSON reads seconds. null leaves d as it is, like every type of encoding/json.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return fmt.Errorf("admin: read duration: %q is not a number of seconds", b)
	}
	ns := math.Round(f * float64(time.Second))
	// float64(MaxInt64) is 2^63, one more than fits.
	if math.IsNaN(ns) || ns >= math.MaxInt64 || ns < math.MinInt64 {
		return fmt.Errorf("admin: read duration: %s s does not fit", b)
	}
	*d = Duration(ns)
	return nil
}
