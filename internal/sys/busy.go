package sys

import (
	"context"
	"errors"
	"time"
)

// WhileBusy repeats f every so often while it answers EBUSY, for as long as patience or until ctx ends, and returns its
// last answer. It runs f at least once. every is greater than 0.
func WhileBusy(ctx context.Context, patience, every time.Duration, f func() error) error {
	give, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := f()
		if err == nil || !errors.Is(err, EBUSY) {
			return err
		}
		select {
		case <-give.Done():
			return err
		case <-tick.C:
		}
	}
}
