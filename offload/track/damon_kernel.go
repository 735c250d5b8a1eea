package track

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/worker"
)

const (
	kdamonds = "sys/kernel/mm/damon/admin/kdamonds"
	// maxKdamonds bounds how many states are read.
	maxKdamonds = 1024
	// damonRegions is the most regions that the kernel makes (it keeps to about that), and maxShown the most that are
	// read.
	damonRegions = 1000
	maxShown     = 4 * damonRegions
	// leastRegions says how far the kernel may join quiet neighbours: to a hundredth of all that is watched.
	leastRegions = 100
	// damonBusy is how long a file of DAMON may say that it is busy, see worker.
	damonBusy = 3 * time.Second
	// damonCommand bounds one command, which takes an aggregation at most.
	damonCommand = 5 * time.Minute
	// damonApply is how often schemes are applied, which is how long showing the regions takes (since Linux 6.7;
	// before, it takes an aggregation).
	damonApply = time.Second
)

// modules are the users of DAMON that its sysfs interface does not list.
var modules = []string{"damon_reclaim", "damon_lru_sort", "damon_stat"}

// initPIDs is the number of the PID namespace that kernel threads live in (include/linux/proc_ns.h).
const initPIDs = "pid:[4026531836]"

// checkDAMON wants DAMON built in and used by nobody. It changes nothing: what only a kdamond's files tell is for
// probe.
func checkDAMON(root string) error {
	text, err := readTrimmed(root, "nr_kdamonds")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &probe.Missing{Feature: "DAMON's sysfs interface", Since: "5.18", Do: "use a kernel built with CONFIG_DAMON_SYSFS"}
	case err != nil:
		return fmt.Errorf("track: %w", err)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxKdamonds {
		return fmt.Errorf("track: %s/nr_kdamonds holds %q: %w", kdamonds, text, proc.ErrFormat)
	}
	inUse := func(format string, args ...any) error {
		err := errkind.New(errkind.Unsupported, "track: DAMON is in use: "+format+", is not ours, and is left alone", args...)
		return errkind.Hint(err, "use another source; heat.source: auto finds one")
	}
	for i := range n {
		state, err := readTrimmed(root, strconv.Itoa(i), "state")
		if err != nil || state != "on" {
			continue
		}
		pid, err := readTrimmed(root, strconv.Itoa(i), "pid")
		if _, bad := strconv.Atoi(pid); err != nil || bad != nil {
			pid = "unknown"
		}
		return inUse("kdamond %d (pid %s) runs", i, pid)
	}
	if n > 0 {
		return inUse("%d kdamonds are set up; what they are for", n)
	}
	for _, m := range modules {
		b, err := os.ReadFile(filepath.Join(root, "sys/module", m, "parameters/enabled"))
		if v := strings.TrimSpace(string(b)); err == nil && v == "Y" {
			return inUse("the kernel's module %s is on", m)
		}
	}
	if ns, err := os.Readlink(filepath.Join(root, "proc/self/ns/pid")); err == nil && ns != initPIDs {
		const text = "track: DAMON takes the numbers of processes as the host counts them, and this is another PID namespace"
		return errkind.Hint(errkind.New(errkind.Unsupported, text),
			"run Spillway in the host's PID namespace (hostPID: true), or use another source")
	}
	return nil
}

func readTrimmed(root string, parts ...string) (string, error) {
	b, err := os.ReadFile(filepath.Join(append([]string{root, kdamonds}, parts...)...))
	return strings.TrimSpace(string(b)), err
}

// kdamond is the one that we set up, and its files.
type kdamond struct {
	root string
	w    Machine
	id   string // of the change; "" while nothing is set up
}

// setUp makes a kdamond with everything but targets. On an error nothing is left.
func (k *kdamond) setUp(ctx context.Context, sample time.Duration) error {
	done, err := k.w.Do(ctx, worker.Change{Kdamond: &worker.Kdamond{}})
	if err != nil {
		return err
	}
	k.id = done.ID
	if err := k.fill(ctx, sample); err != nil {
		return errors.Join(err, k.remove(ctx))
	}
	return nil
}

func (k *kdamond) fill(ctx context.Context, sample time.Duration) error {
	if err := k.write(ctx, "contexts/nr_contexts", "1"); err != nil {
		return err
	}
	ops, err := k.read(ctx, "contexts/0/avail_operations")
	if err != nil {
		return fmt.Errorf("track: %w", err)
	}
	if !slices.Contains(strings.Fields(ops), "fvaddr") {
		return &probe.Missing{
			Feature: "DAMON's monitoring of given virtual addresses (fvaddr)", Since: "5.19",
			Do: "use a kernel built with CONFIG_DAMON_VADDR",
		}
	}
	err = errors.Join(k.write(ctx, "contexts/0/operations", "fvaddr"), k.write(ctx, "contexts/0/schemes/nr_schemes", "1"))
	if err != nil {
		return err
	}
	const scheme = "contexts/0/schemes/0/"
	if _, err := os.Stat(filepath.Join(k.dir(), scheme+"tried_regions")); errors.Is(err, fs.ErrNotExist) {
		return &probe.Missing{Feature: "DAMON's showing of regions (tried_regions)", Since: "6.2"}
	}
	settings := [][2]string{{scheme + "action", "stat"}}
	for _, p := range [][2]string{{"sz", "18446744073709551615"}, {"nr_accesses", "4294967295"}, {"age", "4294967295"}} {
		name := scheme + "access_pattern/" + p[0]
		settings = append(settings, [2]string{name + "/min", "0"}, [2]string{name + "/max", p[1]})
	}
	if _, err := os.Stat(filepath.Join(k.dir(), scheme+"apply_interval_us")); err == nil {
		settings = append(settings, [2]string{scheme + "apply_interval_us", micros(damonApply)})
	}
	const attrs = "contexts/0/monitoring_attrs/"
	settings = append(settings, [2]string{attrs + "nr_regions/min", strconv.Itoa(leastRegions)},
		[2]string{attrs + "nr_regions/max", strconv.Itoa(damonRegions)})
	for _, s := range settings {
		if err := k.write(ctx, s[0], s[1]); err != nil {
			return err
		}
	}
	return k.pace(ctx, sample)
}

// pace sets the intervals. Nine samplings make an aggregation: with ten, the kernel would take a region that was
// touched in one of them for as old as one that was touched in none (mm/damon/core.c: the threshold is a tenth of the
// highest count, in whole numbers).
func (k *kdamond) pace(ctx context.Context, sample time.Duration) error {
	const intervals = "contexts/0/monitoring_attrs/intervals/"
	aggregation := micros(aggregations * sample)
	return errors.Join(k.write(ctx, intervals+"sample_us", micros(sample)), k.write(ctx, intervals+"aggr_us", aggregation),
		k.write(ctx, intervals+"update_us", aggregation)) // at fixed addresses there is nothing to update
}

// aggregations is how many samplings make an aggregation, see pace.
const aggregations = 9

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// watched is one target: a process and what is watched of it.
type watched struct {
	pid     int
	extents []extent
}

// targets writes what is to be watched. It takes effect when the kdamond is switched on, or told to commit.
func (k *kdamond) targets(ctx context.Context, list []watched) error {
	if err := k.write(ctx, "contexts/0/targets/nr_targets", strconv.Itoa(len(list))); err != nil {
		return err
	}
	for i, t := range list {
		dir := fmt.Sprintf("contexts/0/targets/%d/", i)
		err := errors.Join(k.write(ctx, dir+"pid_target", strconv.Itoa(t.pid)),
			k.write(ctx, dir+"regions/nr_regions", strconv.Itoa(len(t.extents))))
		if err != nil {
			return err
		}
		for j, e := range t.extents {
			dir := fmt.Sprintf("%sregions/%d/", dir, j)
			err := errors.Join(k.write(ctx, dir+"start", strconv.FormatUint(e.start, 10)),
				k.write(ctx, dir+"end", strconv.FormatUint(e.end, 10)))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// command has the kdamond obey, and says that it is lost when it is not ours any more.
func (k *kdamond) command(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, damonCommand)
	defer cancel()
	err := k.w.Kdamond(ctx, k.id, command)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lost("somebody else set up DAMON's kdamonds anew")
	case errors.Is(err, sys.EBUSY) && command == worker.KdamondOn:
		return lost("somebody else runs DAMON")
	}
	return err
}

// on says whether it runs.
func (k *kdamond) on(ctx context.Context) (bool, error) {
	v, err := k.read(ctx, "state")
	if errors.Is(err, fs.ErrNotExist) {
		return false, lost("somebody else removed our kdamond")
	}
	return v == "on", err
}

// regions has the kdamond show its regions and reads them, in the kernel's order.
func (k *kdamond) regions(ctx context.Context) ([]region, error) {
	if err := k.command(ctx, worker.KdamondRegions); err != nil {
		return nil, err
	}
	return readRegions(filepath.Join(k.dir(), "contexts/0/schemes/0/tried_regions"))
}

// readRegions reads the regions below dir, numbered in the order in which the scheme was applied to them.
func readRegions(dir string) ([]region, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("track: %w", err)
	}
	var numbers []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n >= 0 {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) > maxShown {
		return nil, fmt.Errorf("track: DAMON shows %d regions, more than %d: %w", len(numbers), maxShown, proc.ErrFormat)
	}
	slices.SortFunc(numbers, cmp.Compare[int])
	out := make([]region, 0, len(numbers))
	for _, n := range numbers {
		var r region
		for _, f := range []struct {
			name string
			dst  *uint64
		}{{"start", &r.start}, {"end", &r.end}, {"nr_accesses", &r.accesses}, {"age", &r.age}} {
			b, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(n), f.name))
			if err != nil {
				return nil, fmt.Errorf("track: %w", err)
			}
			var ok bool
			if *f.dst, ok = proc.Uint([]byte(strings.TrimSpace(string(b)))); !ok {
				return nil, fmt.Errorf("track: DAMON's region %d has %s %.40q: %w", n, f.name, b, proc.ErrFormat)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// cpu is what the kdamond's thread has cost since it began, and its pid.
func (k *kdamond) cpu(ctx context.Context) (pid int, cpu time.Duration, err error) {
	text, err := k.read(ctx, "pid")
	if err != nil {
		return 0, 0, fmt.Errorf("track: %w", err)
	}
	if pid, err = strconv.Atoi(text); err != nil || pid <= 0 {
		return 0, 0, fmt.Errorf("track: kdamond's pid is %.40q: %w", text, proc.ErrFormat)
	}
	l, err := readLife(k.root, pid)
	return pid, l.cpu, err
}

// remove stops and removes the kdamond. What somebody else has set up instead stays.
func (k *kdamond) remove(ctx context.Context) error {
	if k.id == "" {
		return nil
	}
	id := k.id
	k.id = ""
	return k.w.Undo(context.WithoutCancel(ctx), id)
}

func (k *kdamond) dir() string { return filepath.Join(k.root, kdamonds, "0") }

func (k *kdamond) read(ctx context.Context, name string) (text string, err error) {
	err = untilFree(ctx, func() error { text, err = readTrimmed(k.root, "0", name); return err })
	return text, err
}

func (k *kdamond) write(ctx context.Context, name, value string) error {
	if err := untilFree(ctx, func() error { return setKdamond(filepath.Join(k.dir(), name), value) }); err != nil {
		return fmt.Errorf("track: set DAMON's %s to %s: %w", name, value, err)
	}
	return nil
}

// untilFree repeats f while DAMON's lock is taken.
func untilFree(ctx context.Context, f func() error) error {
	return sys.WhileBusy(ctx, damonBusy, 10*time.Millisecond, f)
}
