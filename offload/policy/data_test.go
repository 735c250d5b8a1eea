package policy

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/testkit/datafile"
	"github.com/spillway-io/spillway/offload/heat"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// TestData runs testdata/*.txt. A file is a list of blocks, input above ---- and expectation below; comments start
// with #. Input lines:
//
//	law NAME [ratio= max-step= mem= io= refault= hold= promotion= percentile= warmup=]    a fresh law
//	heat [at= scan= ws= cold=IDLE:SIZE,… promo=IDLE:SIZE,…]    what access tracking says from here on; alone: nothing
//	sample [xN] [usage= floor= period= mem= io= anon= file= cost-anon= cost-file= reclaimed= age= inactive= no-psi
//	       swap-full write-price= host-pressure explain]
//
// A sample that gives no usage continues the last one: minus the last step, plus what came back. reclaimed is
// the last step unless given. Floor, period and age (one day) stay until given again, the rest does not. A heat
// without promo= cannot see promotions. Answers in a
// row that differ only in size are folded; explain adds the sentence a user would see.
func TestData(t *testing.T) {
	datafile.Run(t, *update, func(t *testing.T) func(string) string { return (&script{t: t}).block })
}

// script holds what one data file has built up.
type script struct {
	t    *testing.T
	law  Law
	last Sample
	step int64
	heat *heat.Reading
}

func (x *script) block(input string) string {
	var out strings.Builder
	var f fold
	for line := range strings.Lines(input) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case verb == "" || verb[0] == '#':
		case verb == "law":
			if err := x.newLaw(strings.Fields(rest)); err != nil {
				fmt.Fprintf(&out, "error: %v\n", err)
			}
		case verb == "heat":
			x.heat = x.reading(strings.Fields(rest))
		case verb == "sample":
			s, n, explain := x.sample(strings.Fields(rest))
			for i := range n {
				if i > 0 {
					s.Usage += int64(s.RefaultAnon+s.RefaultFile)*page - x.step
					s.Reclaimed = x.step
				}
				d := x.law.Decide(s)
				x.last, x.step = s, d.Step
				f.add(&out, d)
				if explain {
					f.flush(&out)
					fmt.Fprintf(&out, "  %s\n", d.Detail)
				}
			}
		default:
			x.t.Fatalf("unknown line %q", line)
		}
	}
	f.flush(&out)
	return out.String()
}

// fold joins answers with the same reason into one line.
type fold struct {
	what        string
	first, last int64
	times       int
}

func (f *fold) add(out *strings.Builder, d Decision) {
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
	text := bytes(f.first)
	if f.last != f.first {
		text += " … " + bytes(f.last)
	}
	if f.times > 1 {
		text = fmt.Sprintf("%d× %s", f.times, text)
	}
	fmt.Fprintf(out, "%s %s\n", text, f.what)
	*f = fold{}
}

func (x *script) newLaw(args []string) (err error) {
	var p Params
	for _, a := range args[1:] {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "ratio":
			p.Ratio = x.float(v)
		case "max-step":
			p.MaxStep = x.float(v)
		case "mem":
			p.MemPressure = x.float(v)
		case "io":
			p.IOPressure = x.float(v)
		case "refault":
			p.RefaultCost = x.float(v)
		case "hold":
			p.Hold = int(x.float(v))
		case "promotion":
			p.Promotion = x.float(v)
		case "percentile":
			p.Percentile = x.float(v)
		case "warmup":
			p.Warmup = x.duration(v)
		default:
			x.t.Fatalf("unknown parameter %q", a)
		}
	}
	x.last, x.step, x.heat = Sample{Period: time.Second, Age: 24 * time.Hour}, 0, nil
	x.law, err = New(args[0], p)
	return err
}

func (x *script) sample(args []string) (s Sample, times int, explain bool) {
	times = 1
	s = Sample{Period: x.last.Period, Floor: x.last.Floor, Age: x.last.Age, Reclaimed: x.step, PSI: true, Usage: -1, Heat: x.heat}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "usage":
			s.Usage = x.size(v)
		case "floor":
			s.Floor = x.size(v)
		case "reclaimed":
			s.Reclaimed = x.size(v)
		case "period":
			s.Period = x.duration(v)
		case "mem":
			s.MemSome = x.duration(v)
		case "io":
			s.IOSome = x.duration(v)
		case "cost-anon":
			s.CostAnon = x.duration(v)
		case "cost-file":
			s.CostFile = x.duration(v)
		case "anon":
			s.RefaultAnon = uint64(x.float(v))
		case "file":
			s.RefaultFile = uint64(x.float(v))
		case "age":
			s.Age = x.duration(v)
		case "inactive":
			s.InactiveAnon = x.size(v)
		case "no-psi":
			s.PSI = false
		case "write-price":
			s.WritePrice = x.float(v)
		case "swap-full":
			s.SwapFull = true
		case "host-pressure":
			s.HostPressure = true
		case "explain":
			explain = true
		default:
			n, err := strconv.Atoi(strings.TrimPrefix(a, "x"))
			if err != nil {
				x.t.Fatalf("unknown argument %q", a)
			}
			times = n
		}
	}
	if s.Usage < 0 {
		s.Usage = x.last.Usage - x.step + int64(s.RefaultAnon+s.RefaultFile)*page
	}
	return s, times, explain
}

func (x *script) reading(args []string) *heat.Reading {
	if len(args) == 0 {
		return nil
	}
	h := &heat.Reading{Scan: 2 * time.Minute, Source: "test"}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "at":
			h.At = time.Unix(0, 0).Add(x.duration(v))
		case "scan":
			h.Scan = x.duration(v)
		case "ws":
			h.WorkingSet = x.size(v)
		case "cold":
			h.Cold = x.histogram(v)
		case "promo":
			h.Promo = x.histogram(v)
		default:
			x.t.Fatalf("unknown argument %q of heat", a)
		}
	}
	return h
}

func (x *script) histogram(v string) heat.Histogram {
	h := heat.Histogram{}
	for part := range strings.SplitSeq(v, ",") {
		if idle, size, ok := strings.Cut(part, ":"); ok {
			h = append(h, heat.Age{Idle: x.duration(idle), Bytes: x.size(size)})
		}
	}
	return h
}

func (x *script) float(v string) float64 {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil {
		x.t.Fatal(err)
	}
	return f
}

func (x *script) size(v string) int64 {
	n, err := bytesize.Parse(v)
	if err != nil {
		x.t.Fatal(err)
	}
	return int64(n)
}

func (x *script) duration(v string) time.Duration {
	d, err := time.ParseDuration(v)
	if err != nil {
		x.t.Fatal(err)
	}
	return d
}

// diff shows the lines that changed, which is enough for files this small.
