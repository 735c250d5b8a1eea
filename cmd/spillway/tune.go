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
	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/internal/daemon"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/replay"
	"github.com/spillway-io/spillway/offload/trace"
)

// tuneFlags are the flags of `spillway offload tune`.
type tuneFlags struct {
	generate   uint64
	jobs, days int
	search     replay.Search
	out        string

	generated bool
	file      string
}

func (a *app) tuneCommand() *cobra.Command {
	f := tuneFlags{search: replay.Search{Within: 0.98}}
	c := &cobra.Command{
		Use:   "tune TRACE | tune --generate SEED",
		Short: "Find the gswap settings that save most within a promotion target, by replaying a trace",
		Long: `Replay a trace of how jobs used their memory under many settings of the law gswap, and print those
that no other beats in both saving and job-minutes over the target. The winner saves most among those that
keep 98 % of the job-minutes at or under it; --out writes it as a piece of configuration.

A trace comes from "spillway offload record". --generate makes up a fleet that is fitted to published figures:
it shows what tuning does, and is no substitute for a trace of yours. Nothing here asks or changes the daemon.

Of each setting, that is percentile, warm-up and promotion of the configuration, the table says:
  saved       share of all memory that was stored, before compression
  of cold     share of what was idle for 2m or longer that was stored
  p50, p98    promotions a minute, as a share of the working set, of the median job-minute and of the 98th of a hundred
  over        share of job-minutes with more promotions than --target
  cold start  share of what was idle and not stored because its job was still in its warm-up`,
		Example: `  spillway offload tune fleet.trace --out gswap.yaml
  spillway offload tune --generate 1 --jobs 200 --days 2`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.generated = cmd.Flags().Changed("generate")
			if len(args) == 1 {
				f.file = args[0]
			}
			if err := f.check(); err != nil {
				return usage(cmd, err)
			}
			ctx, stop := daemon.SignalContext(cmd.Context())
			defer stop()
			return a.tune(ctx, f)
		},
	}
	fl := c.Flags()
	fl.Uint64Var(&f.generate, "generate", 0, "replay a made-up fleet of this `SEED` instead of a trace")
	fl.IntVar(&f.jobs, "jobs", 1000, "jobs of the made-up fleet")
	fl.IntVar(&f.days, "days", 7, "days of the made-up fleet")
	fl.IntVar(&f.search.Trials, "trials", 200, "settings to try")
	fl.Uint64Var(&f.search.Seed, "seed", 1, "seed of the search")
	fl.Float64Var(&f.search.Target, "target", replay.Published().Promotion, "promotions a minute that a job may have, as a `SHARE` of its working set")
	fl.StringVar(&f.out, "out", "", "write the winner to this new `FILE`, for `spillway config check` and the daemon")
	return c
}

func (f tuneFlags) check() error {
	bad := func(format string, a ...any) error {
		return errkind.New(errkind.Invalid, "offload: tune: "+format, a...)
	}
	switch {
	case f.generated == (f.file != ""):
		return bad("name either a trace or --generate SEED")
	case f.jobs < 1 || f.jobs > 100_000:
		return bad("--jobs %d is outside 1 to 100000", f.jobs)
	case f.days < 1 || f.days > 366:
		return bad("--days %d is outside 1 to 366", f.days)
	case f.search.Trials < 1 || f.search.Trials > 10_000:
		return bad("--trials %d is outside 1 to 10000", f.search.Trials)
	case !(f.search.Target >= 1e-5 && f.search.Target <= 0.1):
		return bad("--target %v is outside 0.00001 to 0.1 of the working set a minute", f.search.Target)
	}
	return nil
}

func (a *app) tune(ctx context.Context, f tuneFlags) error {
	if f.out != "" { // a search takes a minute or a day: not then
		if _, err := os.Lstat(f.out); err == nil {
			return exists(f.out)
		}
	}
	t, total, name := replay.Trace{}, f.jobs, fmt.Sprintf("made up, seed %d", f.generate)
	if f.generated {
		t = replay.Generate(replay.Model{
			Seed: f.generate, Jobs: f.jobs, Length: time.Duration(f.days) * 24 * time.Hour, Interval: 5 * time.Minute,
		})
	} else {
		file, err := os.Open(f.file)
		if err != nil {
			return fmt.Errorf("offload: tune: %w", err)
		}
		defer file.Close()
		if t, err = trace.Read(file); err != nil {
			return fmt.Errorf("offload: tune %s: %w", f.file, err)
		}
		total, name = 0, f.file+", source "+t.Source
	}
	r, err := replay.Tune(ctx, t, f.search, a.counting(total))
	switch {
	case errors.Is(err, replay.ErrNothingCold):
		return errkind.Hint(errkind.Wrap(errkind.Invalid, fmt.Errorf("offload: tune: the trace (%s) holds no memory idle for %s: every setting saves nothing", name, spanText(admin.Duration(policy.Age(0))))),
			"record while access tracking is on, and for longer than that")
	case err != nil:
		return fmt.Errorf("offload: tune: %w", err)
	}
	if err := a.print(r, func(w io.Writer) error { return writeTuning(w, name, r) }); err != nil {
		return err
	}
	if r.Winner == nil {
		return errkind.Hint(fmt.Errorf("offload: tune: none of %d settings keeps %g %% of the job-minutes at or under the target", r.Trials, 100*r.Within),
			"try more with --trials, or allow more with --target")
	}
	if f.out == "" {
		return nil
	}
	return writeNew(f.out, []byte(fragment(name, r)))
}

// counting draws how far a replay is, on a terminal only; total 0 is unknown.
func (a *app) counting(total int) func(jobs int) {
	out, isFile := a.err.(*os.File)
	if !isFile || !term.IsTerminal(out.Fd()) {
		return nil
	}
	start := time.Now()
	drawn := start
	return func(jobs int) {
		switch now := time.Now(); {
		case jobs == total:
			fmt.Fprint(out, "\r\x1b[K")
		case now.Sub(drawn) < 200*time.Millisecond:
		case total == 0:
			drawn = now
			fmt.Fprintf(out, "\r\x1b[K%d jobs replayed", jobs)
		default:
			drawn = now
			left := time.Duration(float64(now.Sub(start)) * float64(total-jobs) / float64(jobs))
			fmt.Fprintf(out, "\r\x1b[K%d of %d jobs replayed, %v left", jobs, total, left.Round(time.Second))
		}
	}
}

func writeTuning(w io.Writer, name string, r replay.Report) error {
	f := r.Fleet
	t := cli.NewTable()
	t.Row("trace", fmt.Sprintf("%s: %d jobs, %.0f job-minutes", name, f.Jobs, f.Minutes))
	t.Row("memory", fmt.Sprintf("%v at a time, %.1f %% of it idle for %s or longer; %.1f %% or more in one job of ten",
		bytesize.Size(f.Memory), 100*f.Cold, spanText(admin.Duration(policy.Age(0))), 100*f.JobCold[2]))
	t.Row("target", fmt.Sprintf("promotions of at most %.3g %% of the working set a minute, in %g %% of the job-minutes", 100*r.Target, 100*r.Within))
	t.Row("search", fmt.Sprintf("%d settings, seed %d", r.Trials, r.Seed))
	if err := t.Write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = cli.NewTable("", ">PERCENTILE", ">WARM-UP", ">PROMOTION", ">SAVED", ">OF COLD", ">P50", ">P98", ">OVER", ">COLD START")
	add := func(label string, x replay.Result) {
		p := func(share float64) string { return fmt.Sprintf("%.3g%%", 100*share) }
		t.Row(label, fmt.Sprintf("%g", x.Percentile), spanText(admin.Duration(x.Warmup)), p(x.Promotion), p(x.Saved), p(x.Stored), p(x.P50), p(x.P98), p(x.Over), p(x.ColdStart))
	}
	add("default", r.Published)
	near := r.Frontier // the part around the limit is what a person chooses from
	for len(near) > 12 && near[len(near)-1].Over > 3*(1-r.Within) {
		near = near[:len(near)-1]
	}
	for _, x := range near[max(0, len(near)-12):] {
		label := ""
		if r.Winner != nil && x == *r.Winner {
			label = "winner"
		}
		add(label, x)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if r.Winner != nil {
		_, err := fmt.Fprint(w, "\n", fragment(name, r))
		return err
	}
	return nil
}

// fragment is the winner as configuration. K and S are for every class; P is the target of latency, and the other
// classes keep their multiples of the default.
func fragment(name string, r replay.Report) string {
	x := *r.Winner
	all := fmt.Sprintf("percentile: %g, warmup: %s", x.Percentile, spanText(admin.Duration(x.Warmup)))
	return fmt.Sprintf(`# spillway offload tune, %s: %d jobs, %d settings, seed %d
# saves %.1f %% of the memory before compression; %.2f %% of the job-minutes are over %.3g %% of the working set a minute
offload:
  law: gswap
  params:
    latency: {promotion: %g, %s}
    throughput: {%s}
    tax: {%s}
`, strings.Map(printable, name), r.Fleet.Jobs, r.Trials, r.Seed, 100*x.Saved, 100*x.Over, 100*r.Target, x.Promotion, all, all, all)
}

// printable keeps a hostile name inside its comment.
func printable(c rune) rune {
	if c < ' ' || c == 0x7f || c > '~' {
		return '?'
	}
	return c
}

func exists(path string) error {
	return errkind.Hint(fmt.Errorf("offload: make %s: it exists", path), "remove it, or name another file with --out")
}

// newFile makes a file that must not exist yet.
func newFile(path string) (*os.File, error) {
	f, err := sys.OpenRegular(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, exists(path)
	}
	if err != nil {
		return nil, fmt.Errorf("offload: make %s: %w", path, err)
	}
	return f, nil
}

// writeNew writes a new file, or none.
func writeNew(path string, b []byte) error {
	f, err := newFile(path)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return errors.Join(fmt.Errorf("offload: write %s: %w", path, err), os.Remove(path))
	}
	return nil
}
