package track

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spillway-io/spillway/internal/worker"
)

// aim brings what is watched up to date, and switches the kdamond on.
func (d *damon) aim(ctx context.Context, at time.Time, procs []process, paced bool) error {
	up, err := uptime(d.root)
	if err != nil {
		return err
	}
	next := d.choose(at, up, procs)
	if len(next) == 0 && len(d.slots) == 0 {
		return nil // nobody to watch
	}
	changed := paced || !slices.EqualFunc(next, d.slots, func(a, b slot) bool {
		return a.pid == b.pid && a.start == b.start && slices.Equal(joinSpans(a.spans), joinSpans(b.spans))
	})
	begin := len(d.slots) == 0
	if d.slots = next; !changed {
		return nil
	}
	if begin {
		err := d.k.setUp(ctx, d.sample)
		if errors.Is(err, errors.ErrUnsupported) { // since it was probed somebody has taken it
			return fmt.Errorf("%w: %w", err, errLost)
		}
		if err != nil {
			return err
		}
	} else if paced {
		if err := d.k.pace(ctx, d.sample); err != nil {
			return err
		}
	}
	list := make([]watched, 0, len(next))
	for _, s := range next {
		list = append(list, watched{s.pid, joinSpans(s.spans)})
	}
	if err := d.k.targets(ctx, list); err != nil {
		return err
	}
	if begin {
		return d.k.command(ctx, worker.KdamondOn)
	}
	if err := d.k.command(ctx, worker.KdamondCommit); err != nil {
		return err
	}
	if on, err := d.k.on(ctx); err != nil || on {
		return err
	}
	// A process ended before the kernel took it over: then the kdamond ends, too (6.12), and everything begins anew.
	return d.stop(ctx)
}

// choose gives the places of those who ended to the largest of the others. up is how long the machine has been.
func (d *damon) choose(at time.Time, up time.Duration, procs []process) []slot {
	here := map[int]process{}
	for _, p := range procs {
		if lived := up - time.Duration(p.start)*time.Second/ticks; p.start != 0 && lived >= d.ripe && p.room >= minPrivate {
			here[p.pid] = p
		}
	}
	nobody := slot{pid: os.Getpid(), spans: []span{{nowhere(), at}}} // the kernel wants a process for each place
	next := slices.Clone(d.slots)
	if len(next) == 0 {
		next = []slot{nobody}
	}
	for i := 1; i < len(next); i++ {
		p, ok := here[next[i].pid]
		want := extents(p.vmas)
		if !ok || p.start != next[i].start || len(want) == 0 {
			next[i] = nobody
			continue
		}
		next[i].spans = watch(next[i].spans, want, at)
		delete(here, p.pid)
	}
	var rest []process
	for _, p := range here {
		rest = append(rest, p)
	}
	slices.SortFunc(rest, func(a, b process) int { return cmp.Or(cmp.Compare(b.room, a.room), cmp.Compare(a.pid, b.pid)) })
	for _, p := range rest {
		want := extents(p.vmas)
		if len(want) == 0 {
			continue
		}
		s := slot{p.pid, p.start, p.group, watch(nil, want, at)}
		if i := slices.IndexFunc(next[1:], func(s slot) bool { return s.start == 0 }); i >= 0 {
			next[1+i] = s
		} else if len(next) < maxTargets {
			next = append(next, s)
		}
	}
	for len(next) > 0 && next[len(next)-1].start == 0 {
		next = next[:len(next)-1]
	}
	if len(next) == 0 && len(d.slots) > 0 { // all have gone: it goes on watching nobody
		next = []slot{nobody}
	}
	return next
}

// nowhere is the second page of the address space, which nobody maps.
func nowhere() extent {
	page := uint64(os.Getpagesize())
	return extent{page, 2 * page}
}
