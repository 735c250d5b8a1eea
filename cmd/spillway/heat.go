package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/internal/daemon"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload"
	"github.com/spillway-io/spillway/offload/heat"
	"github.com/spillway-io/spillway/offload/track"
)

// heatFlags say how to watch a cgroup without a daemon.
type heatFlags struct {
	source  string
	span    time.Duration // 0: ask the daemon only
	scan    time.Duration
	sysroot string
}

func (a *app) heatCommand() *cobra.Command {
	var f heatFlags
	c := &cobra.Command{
		Use:   "heat CGROUP",
		Short: "How much of a cgroup's memory was not touched for 1, 2, 5, 15 and 60 minutes",
		Long: `Draw the cold curve of a cgroup: how much of its memory was not touched for 1, 2, 5, 15 and 60 minutes.
The daemon knows it for the cgroups it manages. With --for the command watches by itself where no daemon does:
it scans every --scan, which resets the kernel's access bits, and answers after that time.`,
		Example: "  spillway offload heat /kubepods/burstable/pod7/app\n  spillway offload heat /batch/job1 --for 2m --scan 30s --source clear-refs\n" +
			"  spillway offload heat /batch/job1 -o json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeCgroup,
		RunE: func(cmd *cobra.Command, args []string) error {
			path := cgroupPath(args[0])
			if !cmd.Flags().Changed("scan") {
				f.scan = min(max((f.span/4).Truncate(time.Second), time.Second), time.Minute)
			}
			if err := f.check(); err != nil {
				return usage(cmd, err)
			}
			ctx, stop := daemon.SignalContext(cmd.Context())
			defer stop()
			h, err := a.heat(ctx, path, f)
			if err != nil {
				return err
			}
			return a.print(h, func(w io.Writer) error { return writeHeat(w, h) })
		},
	}
	c.Flags().DurationVar(&f.span, "for", 0, "watch for this long where no daemon does, 2s to 24h")
	c.Flags().DurationVar(&f.scan, "scan", 0, "with --for: time between two scans, at least 1s (default a quarter of --for, at most 1m)")
	c.Flags().StringVar(&f.source, "source", string(track.Auto), "with --for: auto, mglru, idle or clear-refs")
	addSysroot(c, &f.sysroot)
	return c
}

func (f heatFlags) check() error {
	kind := track.Kind(f.source)
	switch {
	case !slices.Contains(track.Kinds(), kind) || kind == track.Off:
		return errkind.New(errkind.Invalid, "offload: heat: --source %q is none of auto, mglru, damon, idle, clear-refs", f.source)
	case f.span == 0:
		return nil
	case f.span < 2*time.Second || f.span > 24*time.Hour:
		return errkind.New(errkind.Invalid, "offload: heat: --for %v is outside 2s to 24h", f.span)
	case f.scan < time.Second || f.scan > f.span:
		return errkind.New(errkind.Invalid, "offload: heat: --scan %v is outside 1s to --for %v", f.scan, f.span)
	}
	return nil
}

// heat asks the daemon, and watches by itself where the daemon does not and --for allows it. Two who track one
// cgroup would reset each other's bits, so a daemon that tracks it has the word.
func (a *app) heat(ctx context.Context, path string, f heatFlags) (admin.Heat, error) {
	h, err := a.client().Heat(ctx, path)
	switch kind := errkind.Of(err); {
	case err == nil:
		return h, nil
	case kind != errkind.Unavailable && kind != errkind.Unsupported && kind != errkind.NotFound:
		return h, err
	case f.span == 0 && kind == errkind.Unavailable:
		return h, errkind.Hint(err, "start it: spillway up; or watch without it: spillway offload heat CGROUP --for 2m --source clear-refs")
	case f.span == 0:
		return h, err
	}
	return a.watchHeat(ctx, path, f)
}

// watchHeat scans from now until f.span has passed.
func (a *app) watchHeat(ctx context.Context, path string, f heatFlags) (none admin.Heat, err error) {
	hier, err := cgroup.Discover(f.sysroot)
	if err != nil {
		return none, err
	}
	g, err := leaf(hier, path)
	if err != nil {
		return none, err
	}
	tr, err := track.Open(f.sysroot, hier, track.Config{Source: track.Kind(f.source)}, nil)
	if err != nil {
		return none, err
	}
	defer tr.Close()
	begin := time.Now()
	tick := time.NewTicker(f.scan)
	defer tick.Stop()
	for at := begin; ; {
		res, err := tr.Scan(ctx, at, []track.Group{g})
		if err == nil {
			err = res.Errors[g]
		}
		if errors.Is(err, cgroup.ErrGone) {
			return none, errkind.New(errkind.NotFound, "offload: heat: %q was removed after %v of watching", path, at.Sub(begin).Round(time.Second))
		}
		if err != nil {
			return none, err
		}
		r, ok := res.Readings[g]
		if left := f.span - at.Sub(begin); left < f.scan/2 {
			if !ok {
				return none, errkind.Hint(errkind.New(errkind.Unknown, "offload: heat: no reading of %q in %v", path, f.span), "watch it for longer: --for %v", 2*f.span)
			}
			return offload.HeatOf(path, r, res.CPU), nil
		} else if err := a.progress(tr, r, left); err != nil {
			return none, err
		}
		select {
		case <-ctx.Done():
			return none, context.Cause(ctx)
		case at = <-tick.C:
		}
	}
}

// progress tells somebody at a terminal how far it is.
func (a *app) progress(tr *track.Tracker, r heat.Reading, left time.Duration) error {
	if f, isFile := a.err.(*os.File); !isFile || !term.IsTerminal(f.Fd()) {
		return nil
	}
	_, err := fmt.Fprintf(a.err, "%s: %v seen, %v idle since the last scan; %v to go\n", tr.Source(), bytesize.Size(r.Cold.Total()),
		bytesize.Size(r.Cold.Colder(1)), left.Round(time.Second))
	return err
}

// leaf is the cgroup at path, which must have no children: those are tracked one by one.
func leaf(h cgroup.Hierarchy, path string) (g track.Group, err error) {
	group, err := h.Open(path)
	if errors.Is(err, cgroup.ErrGone) {
		return g, errkind.Hint(errkind.New(errkind.NotFound, "offload: no cgroup %q", path), "paths are below %s and begin with /", h.Memory)
	}
	if err != nil {
		return g, err
	}
	defer group.Close()
	entries, err := os.ReadDir(filepath.Join(h.Memory, path))
	if err != nil {
		return g, fmt.Errorf("offload: heat: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			return g, errkind.Hint(errkind.New(errkind.Invalid, "offload: heat: %q has child cgroups, which are watched one by one", path),
				"name one of them, for example %s", filepath.Join(path, e.Name()))
		}
	}
	return track.Group{Path: path, Inode: group.Inode()}, nil
}

// writeHeat draws the curve.
func writeHeat(w io.Writer, h admin.Heat) error {
	t := cli.NewTable()
	t.Row("cgroup", h.Cgroup)
	t.Row("source", fmt.Sprintf("%s, a scan every %v, watched for %v", h.Source, spanText(h.Scan), spanText(h.Span)))
	t.Row("memory", bytesize.Size(h.Seen).String()+" seen")
	most := ""
	if time.Duration(h.Span) < heat.WorkingSetIdle { // what has not been watched for that long counts as touched
		most = "at most "
	}
	t.Row("working set", fmt.Sprintf("%s%v touched within 2m (%s)", most, bytesize.Size(h.WorkingSet), share(h.WorkingSet, h.Seen)))
	switch {
	case h.Promoted == nil:
		t.Row("came back", "this source cannot see it")
	default:
		var sum int64
		for _, p := range h.Promoted {
			sum += p.Bytes
		}
		t.Row("came back", fmt.Sprintf("%v a minute", bytesize.Size(sum)))
	}
	t.Row("costs", fmt.Sprintf("%v of processor time for the last scan, of all cgroups", time.Duration(h.ScanCPU).Round(10*time.Microsecond)))
	if err := t.Write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = cli.NewTable(">NOT TOUCHED FOR", ">MEMORY", ">SHARE")
	if n := len(h.Cold); n > 1 && len(h.Curve) > 0 && !h.Curve[0].Known { // watched for less than a minute: what there is
		p := h.Cold[n-1]
		t.Row(spanText(p.Idle), bytesize.Size(p.Bytes).String(), share(p.Bytes, h.Seen), bar(p.Bytes, h.Seen))
	}
	for _, p := range h.Curve {
		if !p.Known {
			t.Row(spanText(p.Idle), "?", "", "not watched for so long yet")
			continue
		}
		t.Row(spanText(p.Idle), bytesize.Size(p.Bytes).String(), share(p.Bytes, h.Seen), bar(p.Bytes, h.Seen))
	}
	return t.Write(w)
}

// barWidth is how many cells all of the memory has.
const barWidth = 40

func bar(n, of int64) string {
	if of <= 0 || n <= 0 {
		return ""
	}
	return strings.Repeat("█", max(int(float64(min(n, of))/float64(of)*barWidth+0.5), 1))
}

func share(n, of int64) string {
	if of <= 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(of))
}

// spanText is a duration without the zeros that time.Duration prints.
func spanText(d admin.Duration) string {
	s := time.Duration(d).Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
