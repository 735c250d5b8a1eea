package workloads

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spillway-io/spillway/offload/class"
)

// LimitResult compares two equal servers at equal memory limits that are too small for them, one of them offloaded.
type LimitResult struct {
	Full, Limit int64   // bytes: what a server takes without a limit, and the limit
	AA          Summary // p99 of a over b, second by second, both off and both at the limit
	AACPU       float64 // processor time a request of a over b's, meanwhile
	Blocks      []LimitBlock
	Leftovers   []string
}

// LimitBlock is one pair: twin On under the law, the other off, in the same seconds.
type LimitBlock struct {
	On     int
	Class  class.Class // of twin On
	Ratio  []float64   // p99 of the one over the other's, second by second
	Twins  [2]Twin
	CPU    [2]float64 // µs of processor time a request, of each server
	Worker float64    // µs a request of the offloaded twin, of the worker that takes steps
}

// Capacity is by how much more requests a second one processor serves for the offloaded twin than for the other, its
// own time alone and with the worker's.
func (b LimitBlock) Capacity() (own, all float64) {
	on, off := b.CPU[b.On], b.CPU[1-b.On]
	return off / on, off / (on + b.Worker)
}

// LimitClass is what the offloaded twin is for the answer. A service that waits for memory at its limit is above the
// targets of class latency already, and nothing is taken from it: two blocks show that. Five times these targets leave
// room.
const LimitClass = class.Tax

// limitShare is the limit, as a share of what the server takes without one.
const limitShare = 0.75

// Limit measures whether a service at its own limit does more when its cold part is offloaded. A fifth of its data is
// never asked for, the rest by Zipf, so that the rarely asked part does not fit. Before each block both twins read all
// their data once and are at the limit again.
func Limit(ctx context.Context, cfg Config) (*LimitResult, error) {
	w := small(cfg, 80_000, 16_000) // 110 MB
	if _, err := exec.LookPath(w.Needs[0].Path); err != nil {
		return nil, &Missing{w.Needs[0]}
	}
	aa, settleFor, block := 20*time.Second, 7*time.Second, 26*time.Second
	classes := []class.Class{class.Latency, class.Latency, LimitClass, LimitClass, LimitClass, LimitClass, LimitClass, LimitClass}
	if cfg.Quick {
		aa, settleFor, block, classes = 8*time.Second, 4*time.Second, 8*time.Second, classes[1:4]
	}
	res := &LimitResult{}
	left, err := inStage(ctx, cfg, w, func(s *stage) (err error) {
		if err := s.startTwins(ctx); err != nil {
			return err
		}
		if s.rec, err = s.rig.Watch(); err != nil {
			return err
		}
		if err := s.startDaemon(ctx); err != nil { // it makes the swap file, too
			return err
		}
		// The daemon takes its swap file back at the end, and the pages in it must have room then.
		defer func() { err = errors.Join(err, s.unlimit()) }()
		now, err := s.rec.Look()
		if err != nil {
			return err
		}
		res.Full = (now.Of[0].Usage + now.Of[1].Usage) / 2
		res.Limit = int64(limitShare*float64(res.Full)) &^ 4095
		s.say("both are limited to %d of %d MB", res.Limit/1e6, res.Full/1e6)
		if err := s.startLoad(ctx); err != nil {
			return err
		}
		b, err := s.limitBlock(ctx, "A/A: both off", nil, res.Limit, settleFor, aa)
		if err != nil {
			return err
		}
		res.AA, res.AACPU = summarize(b.Ratio), b.CPU[0]/b.CPU[1]
		for i, c := range classes {
			on := i % 2
			name := fmt.Sprintf("block %d: %s of class %s under %s", i+1, s.twins[on].Name, c, cfg.Law)
			b, err := s.limitBlock(ctx, name, map[string]class.Class{s.twins[on].Name: c}, res.Limit, settleFor, block)
			if err != nil {
				return err
			}
			b.Class = c
			own, all := b.Capacity()
			x, y := b.Twins[on], b.Twins[1-on]
			s.say("p99 %.0f to %.0f µs; capacity %.3f, with the worker %.3f; at the limit %d to %d times; PSI %.4f to %.4f; major faults per 1,000 %.1f to %.1f; %d steps took %d MB; %v",
				x.P99, y.P99, own, all, x.LimitStalls, y.LimitStalls, x.Stall, y.Stall, x.MajorPer1000, y.MajorPer1000, x.Steps, x.Taken/1e6, x.Reasons)
			res.Blocks = append(res.Blocks, b)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	res.Leftovers = left
	return res, nil
}

// limit gives both twins the same limit.
func (s *stage) limit(bytes int64) error {
	for _, t := range s.twins {
		if err := t.limit(bytes); err != nil {
			return err
		}
	}
	return nil
}

// limit takes what is above it at once. It goes with the twin's cgroup.
func (t *twin) limit(bytes int64) (err error) {
	for range 10 { // the kernel may give up before it has taken enough
		if err = setLimit(t.Dirs[0], strconv.FormatInt(bytes, 10), strconv.FormatInt(bytes, 10)); !errors.Is(err, syscall.EBUSY) {
			break
		}
	}
	return err
}

func (s *stage) unlimit() (err error) {
	for _, t := range s.twins {
		err = errors.Join(err, setLimit(t.Dirs[0], "max", "-1"))
	}
	return err
}

// setLimit writes the limit of the cgroup whose memory directory is dir, in the words of cgroup v2 or v1.
func setLimit(dir, v2, v1 string) error {
	for _, at := range [][2]string{{"memory.max", v2}, {"memory.limit_in_bytes", v1}} {
		f, err := os.OpenFile(filepath.Join(dir, at[0]), os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("set limit: %w", err)
		}
		_, err = f.WriteString(at[1])
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("set limit %s: %w", at[1], err)
		}
		return nil
	}
	return fmt.Errorf("set limit: %s has no file for one", dir)
}

// limitBlock has both twins read everything without a limit, which at the limit could get them killed, limits them
// again, and measures with one offloaded, or none, after settleFor.
func (s *stage) limitBlock(ctx context.Context, name string, classes map[string]class.Class, limit int64, settleFor, d time.Duration) (b LimitBlock, err error) {
	if _, second := classes[s.twins[1].Name]; second {
		b.On = 1
	}
	if err := errors.Join(s.apply(ctx, -1), s.unlimit()); err != nil {
		return b, err
	}
	for _, t := range s.twins {
		if err := s.readAll(ctx, t); err != nil {
			return b, err
		}
	}
	if err := s.limit(limit); err != nil {
		return b, err
	}
	// What this brought back must not be what the law sees first.
	if _, err := s.phase(ctx, name+": everything read, at the limit", 3*time.Second); err != nil {
		return b, err
	}
	begin, err := s.rec.Look()
	if err != nil {
		return b, err
	}
	if err := s.daemon.Apply(ctx, classes); err != nil {
		return b, err
	}
	if _, err := s.phase(ctx, name+": settle", settleFor); err != nil {
		return b, err
	}
	before, err := s.cpu()
	if err != nil {
		return b, err
	}
	p, err := s.phase(ctx, name, d)
	if err != nil {
		return b, err
	}
	after, err := s.cpu()
	if err != nil {
		return b, err
	}
	if err := s.collect(ctx); err != nil {
		return b, err
	}
	p.from = p.from.Add(-s.cfg.times().skip) // what is skipped after a change has passed already
	b.Ratio = s.ratios(p, b.On)
	for i := range s.twins {
		b.Twins[i] = s.twin(i, begin, p)
		b.CPU[i] = (after.server[i] - before.server[i]).Seconds() * 1e6 / (b.Twins[i].Throughput * d.Seconds())
	}
	b.Worker = (after.worker - before.worker).Seconds() * 1e6 / (b.Twins[b.On].Throughput * d.Seconds())
	return b, nil
}

// spent is processor time so far.
type spent struct {
	server [2]time.Duration
	worker time.Duration
}

func (s *stage) cpu() (c spent, err error) {
	for i, t := range s.twins {
		if c.server[i], err = onCPU(t.proc.PID()); err != nil {
			return c, err
		}
	}
	if s.daemon == nil {
		return c, nil
	}
	c.worker, err = ofChildren(s.daemon.PID())
	return c, err
}

// onCPU is what all threads of a process have run for: the kernel's own count in ns, without the threads that have
// ended.
func onCPU(pid int) (sum time.Duration, err error) {
	tasks := fmt.Sprintf("/proc/%d/task", pid)
	all, err := os.ReadDir(tasks)
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	for _, t := range all {
		b, err := os.ReadFile(filepath.Join(tasks, t.Name(), "schedstat"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // ended meanwhile
		}
		if err != nil {
			return 0, fmt.Errorf("processor time: %w", err)
		}
		n, err := parseSchedstat(string(b))
		if err != nil {
			return 0, fmt.Errorf("processor time of %d: %w", pid, err)
		}
		sum += n
	}
	return sum, nil
}

// parseSchedstat reads the first of the three figures: ns on a processor.
func parseSchedstat(text string) (time.Duration, error) {
	f := strings.Fields(text)
	if len(f) != 3 {
		return 0, fmt.Errorf("%.80q is no schedstat", text)
	}
	n, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%.80q is no schedstat", text)
	}
	return time.Duration(n), nil
}

// ofChildren is what the children of a process have run for: a daemon's worker and its canary.
func ofChildren(pid int) (sum time.Duration, err error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(lists) == 0 {
		return 0, fmt.Errorf("processor time: the children of %d are not listed (CONFIG_PROC_CHILDREN)", pid)
	}
	for _, l := range lists {
		b, err := os.ReadFile(l)
		if err != nil {
			continue // a thread that ended
		}
		for f := range strings.FieldsSeq(string(b)) {
			child, err := strconv.Atoi(f)
			if err != nil {
				return 0, fmt.Errorf("processor time: child %.20q of %d", f, pid)
			}
			if n, err := onCPU(child); err == nil {
				sum += n
			}
		}
	}
	return sum, nil
}
