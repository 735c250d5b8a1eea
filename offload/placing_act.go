package offload

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/mix"
)

// enact makes t's files say what d does. A value that is neither the kernel's default nor ours is somebody's, and
// stays.
func (a *Agent) enact(t *target, d mix.Placement, changes *int) {
	pl, dir := &t.home, t.group.Dir()
	if !d.Keep && pl.keep != "" { // first: over a limit, pages that may not go to the disk have no place at all
		a.unknob(&pl.keep, "cgroup's pages are still kept off the disk")
		t.wear.asked = time.Time{} // what a step can write has changed
	}
	if d.Limit != pl.max && (d.Limit == 0 || pl.foreign == "") {
		*changes--
		a.limit(t, filepath.Join(dir, fileZswapMax), d)
	}
	if !d.Keep || pl.keep != "" || pl.foreign != "" {
		return
	}
	*changes--
	if pl.foreign = a.foreignWriteback(dir); pl.foreign != "" {
		return
	}
	id, err := a.knob(filepath.Join(dir, fileWriteback), "0")
	if err != nil {
		a.unplaced(t, err)
		return
	}
	pl.keep, t.wear.asked = id, time.Time{}
}

// limit sets t's limit in the pool to d's, or takes it away.
func (a *Agent) limit(t *target, file string, d mix.Placement) {
	pl := &t.home
	if d.Limit == 0 {
		pl.max = 0
		a.unknob(&pl.limit, "cgroup's part of the pool is still limited")
		return
	}
	if pl.foreign = a.foreignWriteback(filepath.Dir(file)); pl.foreign != "" {
		a.unlimit(pl)
		return
	}
	now, err := os.ReadFile(file)
	ours := "max"
	if pl.limit != "" {
		ours = strconv.FormatInt(pl.max, 10)
	}
	switch text := strings.TrimSpace(string(now)); {
	case err != nil:
		a.unplaced(t, err)
		return
	case text != ours:
		a.unlimit(pl)
		pl.foreign = "its part of the pool is left as it is: somebody set " + fileZswapMax + " to " + strconv.Quote(text)
		return
	}
	id, err := a.knob(file, strconv.FormatInt(d.Limit, 10))
	if err != nil {
		a.unplaced(t, err)
		return
	}
	before := pl.limit // undone after the new one is made, so that the latter goes back to the default
	pl.limit, pl.max = id, d.Limit
	a.unknob(&before, "earlier limit of a cgroup's part of the pool is not forgotten")
	if a.wear.ledger != nil {
		pl.promised = d.Writes
		a.wear.ledger.Promise(d.Writes)
	}
}

func (a *Agent) unlimit(pl *targetHome) {
	pl.max = 0
	a.unknob(&pl.limit, "cgroup's part of the pool is still limited")
}

// foreignWriteback says who decides already whether dir's pages may leave the pool; "" for nobody. The file works on
// all below it.
func (a *Agent) foreignWriteback(dir string) string {
	for d := dir; len(d) > len(a.h.Memory); d = filepath.Dir(d) {
		text, err := os.ReadFile(filepath.Join(d, fileWriteback))
		switch v := strings.TrimSpace(string(text)); {
		case errors.Is(err, fs.ErrNotExist) && d != dir:
		case err != nil:
			return fileWriteback + " is unreadable"
		case v != "1":
			return "its pages are left where they are: somebody set " + fileWriteback + " to " + strconv.Quote(v)
		}
	}
	return ""
}

// unplaced notes that a file of t could not be changed: it is not tried again.
func (a *Agent) unplaced(t *target, err error) {
	t.home.foreign = "its pages are left where they are: " + err.Error()
	a.warnOnce("placing", "a cgroup's pages could not be placed", err)
}

func (a *Agent) knob(path, value string) (id string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), changeTimeout)
	defer cancel()
	done, err := a.deps.Worker.Do(ctx, worker.Change{Knob: &worker.Knob{Path: path, Value: value}})
	return done.ID, err
}

// unknob takes a change back and forgets it. One that fails stays journalled and is undone at the end.
func (a *Agent) unknob(id *string, failed string) {
	if *id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), changeTimeout)
	defer cancel()
	if err := a.deps.Worker.Undo(ctx, *id); err != nil {
		a.warnOnce("unplace "+failed, failed, err)
	}
	*id = ""
}

// unplace takes back what was done about t's pages and forgets what is known of them.
func (a *Agent) unplace(t *target) {
	pl := &t.home
	a.unlimit(pl)
	if pl.keep != "" {
		a.unknob(&pl.keep, "cgroup's pages are still kept off the disk")
		t.wear.asked = time.Time{}
	}
	a.unpromise(pl)
	t.home = targetHome{}
}

// unpromise ends the promise for a limit.
func (a *Agent) unpromise(pl *targetHome) {
	if pl.promised > 0 && a.wear.ledger != nil {
		a.wear.ledger.Fulfil(pl.promised)
	}
	pl.promised = 0
}

func (a *Agent) unplaceAll() {
	for _, t := range a.targets {
		if t.home.seen {
			a.unplace(t)
		}
	}
	a.placing.kept, a.placing.limited = 0, 0
	a.switchShrinker(false, false)
}
