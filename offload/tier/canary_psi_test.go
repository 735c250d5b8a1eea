package tier

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"
)

// Whose pressure says which share of the stall was counted: the canary's own, else a calm host's, else nobody's.
func TestShareOfStallCounted(t *testing.T) {
	text := func(micros int) string {
		return fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", micros)
	}
	for _, tc := range []struct {
		name            string
		own, host       bool
		before, ownGrow int // µs: what the host stalled in the second before, and what the file that speaks grew by after
		total           time.Duration
		want            float64
		from            string
	}{
		{"its own", true, true, 5000, 300, time.Millisecond, 0.3, fromOwn},
		{"its own, blind", true, false, 0, 0, time.Millisecond, 0, fromOwn},
		{"more than all", true, false, 0, 5000, time.Millisecond, 1, fromOwn},
		{"a calm host", false, true, 50, 300, time.Millisecond, 0.3, fromHost},
		{"a host that stalls", false, true, 5000, 300, time.Millisecond, math.NaN(), noisyHost},
		{"no pressure at all", false, false, 0, 0, time.Millisecond, math.NaN(), noPSI},
		{"nothing stalled", true, true, 0, 0, 0, math.NaN(), noStall},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			own, host := filepath.Join(root, "memory.pressure"), filepath.Join(root, "proc/pressure/memory")
			r := &canaryRun{c: CanaryConfig{Root: root}}
			if tc.own {
				r.press = own
				write(t, own, text(1000))
			}
			if tc.host {
				write(t, host, text(7000))
			}
			r.noteHost()
			r.hostFrom = r.hostFrom.Add(-time.Second)
			if tc.host {
				write(t, host, text(7000+tc.before))
			}
			s, err := r.stalls()
			if err != nil {
				t.Fatal(err)
			}
			if tc.own {
				write(t, own, text(1000+tc.ownGrow))
			} else if tc.host {
				write(t, host, text(7000+tc.before+tc.ownGrow))
			}
			got, from := s.share(tc.total)
			if from != tc.from || math.IsNaN(got) != math.IsNaN(tc.want) || got-tc.want > 1e-9 || tc.want-got > 1e-9 {
				t.Errorf("%v from %q, want %v from %q", got, from, tc.want, tc.from)
			}
		})
	}
}
