package laws

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/testkit/datafile"
	"github.com/spillway-io/spillway/offload/policy"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// TestData runs testdata/*.txt: blocks of input above ---- and the expectation below; comments start with #.
//
//	law NAME [without-swap]      a fresh law
//	sample [xN] KEY=VALUE…       N equal samples; what is not given stays as it was in the last one
//
// A sample that gives no usage continues the last one: minus the last step, plus what came back. Sizes and times carry
// their unit. Answers in a row that differ only in size are folded; explain adds the last one's sentence.
func TestData(t *testing.T) {
	datafile.Run(t, *update, func(t *testing.T) func(string) string { return (&script{t: t}).block })
}

// script holds what one data file has built up.
type script struct {
	t    *testing.T
	law  policy.Law
	last policy.Sample
	step int64
}

func (x *script) block(input string) string {
	var out strings.Builder
	for line := range strings.Lines(input) {
		x.line(&out, strings.Fields(line))
	}
	return out.String()
}

func (x *script) line(out *strings.Builder, f []string) {
	switch {
	case len(f) == 0 || f[0][0] == '#':
	case f[0] == "law":
		l, err := New(f[1])
		if err != nil {
			fmt.Fprintf(out, "error: %v\n", err)
			return
		}
		if k, ok := l.(*Katalyst); ok && len(f) > 2 {
			k.WithoutSwap = f[2] == "without-swap"
		}
		x.law, x.step = l, 0
		x.last = policy.Sample{Period: 6 * time.Second, PSI: true, Counts: true, SwapFree: 1 << 40}
	case f[0] == "sample":
		s, n, explain := x.sample(f[1:])
		var d policy.Decision
		var runs fold
		for i := range n {
			if i > 0 {
				s.Usage += int64(s.RefaultAnon+s.RefaultFile)*page - x.step
			}
			d = x.law.Decide(s)
			x.last, x.step = s, d.Step
			runs.add(out, d)
		}
		runs.flush(out)
		if explain {
			fmt.Fprintf(out, "  %s\n", d.Detail)
		}
	default:
		x.t.Fatalf("unknown line %q", f)
	}
}

// sample reads one line's arguments; what happened in a period (mem=, io=, back=, scanned=, …) does not stay.
func (x *script) sample(args []string) (s policy.Sample, times int, explain bool) {
	times = 1
	s = x.last
	s.Usage += -x.step
	s.MemSome, s.IOSome, s.RefaultAnon, s.Scanned, s.Stolen, s.Activated = 0, 0, 0, 0, 0, 0
	s.HostPressure, s.SwapFull = false, false
	sizes := map[string]*int64{
		"usage": &s.Usage, "floor": &s.Floor, "anon": &s.Anon, "file": &s.File, "shmem": &s.Shmem, "mapped": &s.Mapped,
		"inactive-anon": &s.InactiveAnon, "inactive-file": &s.InactiveFile, "swap-free": &s.SwapFree,
	}
	counts := map[string]*uint64{"back": &s.RefaultAnon, "scanned": &s.Scanned, "stolen": &s.Stolen, "activated": &s.Activated}
	spans := map[string]*time.Duration{"period": &s.Period, "mem": &s.MemSome, "io": &s.IOSome}
	flags := map[string]func(){
		"no-psi": func() { s.PSI = false }, "no-counts": func() { s.Counts = false }, "explain": func() { explain = true },
		"host-pressure": func() { s.HostPressure = true }, "swap-full": func() { s.SwapFull = true },
	}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		var err error
		switch {
		case sizes[k] != nil:
			var n bytesize.Size
			n, err = bytesize.Parse(v)
			*sizes[k] = int64(n)
		case counts[k] != nil:
			*counts[k], err = strconv.ParseUint(v, 10, 64)
		case spans[k] != nil:
			*spans[k], err = time.ParseDuration(v)
		case flags[k] != nil:
			flags[k]()
		default:
			times, err = strconv.Atoi(strings.TrimPrefix(a, "x"))
		}
		if err != nil {
			x.t.Fatalf("%q: %v", a, err)
		}
	}
	return s, times, explain
}

// fold joins answers with the same reason into one line.
type fold struct {
	what        string
	first, last int64
	times       int
}

func (f *fold) add(out *strings.Builder, d policy.Decision) {
	what := string(d.Reason)
	if d.Signal != "" {
		what += " (" + d.Signal + ")"
	}
	if what != f.what || (d.Step == 0) != (f.last == 0) {
		f.flush(out)
		f.what, f.first = what, d.Step
	}
	f.last = d.Step
	f.times++
}

func (f *fold) flush(out *strings.Builder) {
	if f.times == 0 {
		return
	}
	text := size(f.first)
	if f.last != f.first {
		text += " … " + size(f.last)
	}
	if f.times > 1 {
		text = fmt.Sprintf("%d× %s", f.times, text)
	}
	fmt.Fprintf(out, "%s %s\n", text, f.what)
	*f = fold{}
}

// FuzzDecide gives every law two samples of anything: the promises of the package comment must hold.
func FuzzDecide(f *testing.F) {
	f.Add(int64(6e9), int64(1<<30), int64(0), int64(1e6), int64(1e6), int64(1<<29), int64(1<<28), uint64(100), uint64(50), true, false, false)
	f.Add(int64(-1), int64(-1), int64(-1), int64(-1), int64(-1), int64(-1), int64(-1), uint64(0), uint64(1<<63), true, true, true)
	f.Add(int64(1<<63-1), int64(1<<63-1), int64(1<<62), int64(1<<63-1), int64(0), int64(1<<63-1), int64(1<<63-1), uint64(1<<63), uint64(1), true, false, false)
	f.Fuzz(func(t *testing.T, period, usage, floor, mem, io, anon, file int64, scanned, stolen uint64, psi, host, full bool) {
		s := policy.Sample{
			Period: time.Duration(period), Usage: usage, Floor: floor, PSI: psi, HostPressure: host, SwapFull: full,
			MemSome: time.Duration(mem), IOSome: time.Duration(io), Counts: true, Scanned: scanned, Stolen: stolen, Activated: stolen / 3,
			Anon: anon, File: file, InactiveAnon: anon / 2, InactiveFile: file / 2, SwapFree: anon,
		}
		for _, name := range Names() {
			l, err := New(name)
			if err != nil {
				t.Fatal(err)
			}
			l.Decide(policy.Sample{Period: time.Hour, Usage: 1 << 40, PSI: true, Counts: true, Anon: 1 << 40, InactiveAnon: 1 << 40, SwapFree: 1 << 40})
			d := l.Decide(s)
			switch {
			case d.Step < 0 || d.Step%page != 0:
				t.Errorf("%s: step %d of %+v", name, d.Step, s)
			case d.Step > 0 && (host || full || period <= 0 || usage-d.Step < floor):
				t.Errorf("%s: takes %d although it must not: %+v", name, d.Step, s)
			case d.Detail == "" || d.Reason == "":
				t.Errorf("%s: does not say why: %+v", name, d)
			}
		}
	})
}

func TestUnknownLaw(t *testing.T) {
	if _, err := New("memtierd"); err == nil || !strings.Contains(err.Error(), NameOomd) {
		t.Errorf("want an error that lists the laws, got %v", err)
	}
}
