package sys_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-io/spillway/internal/sys"
)

func TestWhileBusy(t *testing.T) {
	other := errors.New("other")
	for _, c := range []struct {
		name    string
		answers []error // the last one stays
		calls   int
		want    error
	}{
		{"at once", []error{nil}, 1, nil},
		{"another error", []error{other}, 1, other},
		{"free later", []error{sys.EBUSY, fmt.Errorf("wrapped: %w", sys.EBUSY), nil}, 3, nil},
		{"never free", []error{sys.EBUSY}, 5, sys.EBUSY}, // at 0, 10, 20, 30 and 40 of 45 ms
	} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			err := sys.WhileBusy(t.Context(), 45*time.Millisecond, 10*time.Millisecond, func() error {
				n++
				return c.answers[min(n, len(c.answers))-1]
			})
			if !errors.Is(err, c.want) || n != c.calls {
				t.Errorf("%s: %v after %d calls, want %v after %d", c.name, err, n, c.want, c.calls)
			}
		})
	}
}
