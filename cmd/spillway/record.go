package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/internal/daemon"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload/heat"
	"github.com/spillway-io/spillway/offload/trace"
)

// recordFlags are the flags of `spillway offload record`.
type recordFlags struct {
	length, every time.Duration
	out           string
}

// recording is the answer of `spillway offload record`.
type recording struct {
	File      string `json:"file"`
	Jobs      int    `json:"jobs"` // a cgroup that goes away and comes back counts twice
	Intervals int    `json:"intervals"`
	Missed    int    `json:"missed"` // intervals in which the daemon did not answer
	Source    string `json:"source"`
	Untracked int    `json:"untracked"` // cgroups whose accesses nobody tracks
	Note      string `json:"note,omitempty"`
}

func (a *app) recordCommand() *cobra.Command {
	var f recordFlags
	c := &cobra.Command{
		Use:   "record CGROUP...",
		Short: "Record how cgroups use their memory, as a trace for tuning",
		Long: `Ask the running daemon at the end of each interval how recently the memory of these cgroups and of those
below them was touched, and write a trace. Ctrl-C ends it early and keeps what was recorded. What there is so far
is written after the first interval and then every ten minutes, so that a kill loses no more than that.

Cgroups whose accesses the daemon does not track are left out; where it tracks none, the trace holds sizes and
refaults only, which tell load but no ages.`,
		Example: `  spillway offload record /kubepods --for 24h --every 5m --out fleet.trace
  spillway offload record /batch/job1 /batch/job2 --for 10m --out jobs.trace`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeCgroups,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return usage(cmd, err)
			}
			ctx, stop := daemon.SignalContext(cmd.Context())
			defer stop()
			return a.record(ctx, args, f)
		},
	}
	fl := c.Flags()
	fl.DurationVar(&f.length, "for", 10*time.Minute, "how long")
	fl.DurationVar(&f.every, "every", time.Minute, "length of an interval, whole seconds")
	fl.StringVar(&f.out, "out", "", "write the trace to this new `FILE`")
	return c
}

const (
	// maxRecording is what a reader takes of one job, less a little.
	maxRecording = 100_000
	// maxHeld bounds what is held in memory, of all jobs: 280 bytes each, 1.2 GB.
	maxHeld = 1 << 22
	// saveEvery bounds what a kill of the recorder loses.
	saveEvery = 10 * time.Minute
)

func (f recordFlags) check() error {
	bad := func(format string, a ...any) error {
		return errkind.New(errkind.Invalid, "offload: record: "+format, a...)
	}
	switch {
	case f.out == "":
		return bad("--out FILE is missing")
	case f.every < time.Second || f.every > time.Hour || f.every%time.Second != 0:
		return bad("--every %v is not whole seconds from 1s to 1h", f.every)
	case f.length < f.every || f.length/f.every > maxRecording:
		return bad("--for %v is outside 1 to %d intervals of %v", f.length, maxRecording, f.every)
	}
	return nil
}

func (a *app) record(ctx context.Context, names []string, f recordFlags) error {
	for i, n := range names {
		names[i] = cgroupPath(n)
	}
	switch _, missing, err := a.rows(ctx, names); { // before anything is waited for
	case err != nil:
		return err
	case len(missing) > 0:
		return errkind.Hint(errkind.New(errkind.NotFound, "offload: record: no cgroup %q", missing[0]),
			"paths are below the memory controller's mount and begin with /; `spillway status --all` lists them")
	}
	file, err := newFile(f.out) // the name is ours from now on
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	rec := trace.NewRecorder(f.every)
	s := saver{out: f.out, rec: rec}
	answer := a.follow(ctx, &s, names, f)
	answer.Source, answer.Jobs = rec.Source(), rec.Jobs()
	switch {
	case answer.Intervals == 0:
		err = errkind.New(errkind.Unavailable, "offload: record: the daemon never answered, or it was stopped before the first interval's end")
	case answer.Jobs == 0:
		err = errkind.Hint(errkind.New(errkind.Unavailable, "offload: record: no reading of these cgroups in %v", f.length),
			"the daemon reads every heat.every, 2m by default, and needs two readings: record for longer")
	default:
		err = s.save()
	}
	if err != nil && s.held > 0 {
		return errkind.Hint(err, "%s is good, and holds what was recorded up to %v", f.out, s.at.Format(time.DateTime))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.out))
	}
	return a.print(answer, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s: %s in %s of %v, source %s\n", cli.Escape(answer.File), count(answer.Jobs, "job"),
			count(answer.Intervals, "interval"), f.every, cli.Escape(answer.Source))
		if answer.Missed > 0 {
			fmt.Fprintf(w, "note: the daemon did not answer in %s\n", count(answer.Missed, "interval"))
		}
		if answer.Note != "" {
			fmt.Fprintln(w, "note:", cli.Escape(answer.Note))
		}
		return err
	})
}

// follow asks at the end of each interval until the time is over or ctx ends.
func (a *app) follow(ctx context.Context, s *saver, names []string, f recordFlags) recording {
	answer := recording{File: f.out}
	begin, total := time.Now(), int(f.length/f.every)
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	next := 0 // interval
	show := a.recording(total)
	defer show(total)
	for next < total {
		show(next)
		select {
		case <-ctx.Done():
			return answer
		case <-tick.C:
		}
		n := f.ended(time.Since(begin), next)
		answer.Missed += min(n, total) - next
		if next = n + 1; n >= total {
			return answer
		}
		rows, _, err := a.rows(ctx, names)
		if err != nil { // a daemon that restarts: a hole, not the end
			answer.Missed++
			continue
		}
		answer.Intervals++
		a.look(ctx, s.rec, n, rows, &answer)
		if err := s.now(time.Now()); err != nil {
			fmt.Fprintf(a.err, "note: what was recorded so far is not saved, recording goes on: %s\n", cli.Escape(err.Error()))
		}
		if s.rec.Held() >= maxHeld {
			answer.Note = fmt.Sprintf("it ended early: %d intervals of all cgroups together are the most; name fewer cgroups or longer intervals", s.rec.Held())
			return answer
		}
	}
	return answer
}

// ended is the number of the interval that ended last, after since. It goes by the clock, not by counting: a daemon
// that was slow to answer, or a recorder that was stopped, must not stretch the trace.
func (f recordFlags) ended(since time.Duration, atLeast int) int {
	return max(int(since/f.every)-1, atLeast)
}

// recording draws how far it is, on a terminal only.
func (a *app) recording(total int) func(done int) {
	out, isFile := a.err.(*os.File)
	if !isFile || !term.IsTerminal(out.Fd()) {
		return func(int) {}
	}
	return func(done int) {
		if done >= total {
			fmt.Fprint(out, "\r\x1b[K")
			return
		}
		fmt.Fprintf(out, "\r\x1b[K%d of %d intervals recorded", done, total)
	}
}

// saver keeps the file at out up to date with what was recorded. The file is replaced as a whole: it is a good trace at
// any time after the first save.
type saver struct {
	out  string
	rec  *trace.Recorder
	held int       // intervals that the file holds; 0: it is empty
	at   time.Time // of the last save
	next time.Time
}

// now saves when it is time to. A save that takes long makes the next one wait: a hundredth of the time is enough.
func (s *saver) now(at time.Time) error {
	if s.rec.Held() == 0 || at.Before(s.next) {
		return nil
	}
	err := s.save()
	s.next = at.Add(max(saveEvery, 100*time.Since(at)))
	return err
}

func (s *saver) save() error {
	temp := s.out + ".part"
	f, err := newFile(temp)
	if err != nil {
		return err
	}
	err = trace.Write(f, s.rec.Trace())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp, s.out)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("offload: record: %w", err), os.Remove(temp))
	}
	s.held, s.at = s.rec.Held(), time.Now()
	return nil
}

// look records one interval. Where some cgroups are tracked the others are left out: without ages they would only
// dilute the share of job-minutes over a target. Where none is, sizes and refaults are all there is.
func (a *app) look(ctx context.Context, rec *trace.Recorder, n int, rows []admin.Cgroup, answer *recording) {
	var untracked []trace.Seen
	var why error
	tracked := rec.Source() != trace.Refaults
	for _, c := range rows {
		s := trace.Seen{Name: c.Path, Usage: c.Usage, Refaults: c.Refaults}
		h, err := a.client().Heat(ctx, c.Path)
		switch {
		case err == nil:
			s.Heat = reading(h)
			rec.Add(n, s)
			tracked = true
		case errkind.Of(err) == errkind.Unsupported:
			untracked, why = append(untracked, s), err
		case errkind.Of(err) == errkind.Unknown: // tracked, and no reading yet
			tracked = true
		default: // it vanished meanwhile
		}
	}
	answer.Untracked = len(untracked)
	switch {
	case len(untracked) == 0:
		answer.Note = ""
	case tracked:
		answer.Note = fmt.Sprintf("%s left out, whose accesses are not tracked: %v", count(len(untracked), "cgroup"), why)
	default:
		answer.Note = fmt.Sprintf("no ages, only sizes and refaults, and nothing to tune from: %v", why)
		for _, s := range untracked {
			rec.Add(n, s)
		}
	}
}

// reading is the API's shape as access tracking made it.
func reading(h admin.Heat) *heat.Reading {
	ages := func(in []admin.HeatAge) heat.Histogram {
		out := heat.Histogram{}
		for _, x := range in {
			out = append(out, heat.Age{Idle: time.Duration(x.Idle), Bytes: x.Bytes})
		}
		return out
	}
	r := &heat.Reading{
		At: h.Time, Span: time.Duration(h.Span), Scan: time.Duration(h.Scan), Cold: ages(h.Cold), WorkingSet: h.WorkingSet, Source: h.Source,
	}
	if h.Promoted != nil {
		r.Promo = ages(h.Promoted)
	}
	return r
}

// rows asks for the cgroups of these names and below, each once, without those that are above another: theirs is
// counted there. missing are the names that nothing belongs to.
func (a *app) rows(ctx context.Context, names []string) (rows []admin.Cgroup, missing []string, err error) {
	all, err := a.client().Cgroups(ctx)
	if err != nil {
		return nil, nil, err
	}
	parents := map[string]bool{}
	for _, c := range all {
		for i, b := range []byte(c.Path) {
			if b == '/' {
				parents[c.Path[:i]] = true
			}
		}
	}
	taken := map[string]bool{}
	for _, name := range names {
		found := false
		for _, c := range all {
			if name != "/" && c.Path != name && !strings.HasPrefix(c.Path, name+"/") {
				continue
			}
			found = true
			if !parents[c.Path] && !taken[c.Path] {
				taken[c.Path] = true
				rows = append(rows, c)
			}
		}
		if !found {
			missing = append(missing, name)
		}
	}
	return rows, missing, nil
}
