package mix

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/testkit/datafile"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// TestData runs testdata/*.txt. A file is a list of blocks, input above ---- and expectation below; # begins a comment.
//
//	mixer [file-only]      a fresh Mixer
//	set KEY=VALUE… FLAG…   of the next samples; stays until set again (-FLAG clears one)
//	run N [explain]        N steps; of what one takes, the share `anon-back` or `file-back` comes back a period later
//	pool / grow [xN] age= out= stored= pool= [own] [mixed]
//	                       a Pool and its periods
//	joint / heap / ticks   see script.joint
//	lives / died PARENT AGE… / short PARENT AGE
//	                       a Lives
//	put [pool] [disk] [poor] [idle=]                        the rule of placement
//	placing / ground / minutes / mover                      see script.placing
//
// Choices in a row with one reason are folded: how many, and the weights from the first to the last.
func TestData(t *testing.T) {
	datafile.Run(t, *update, func(t *testing.T) func(string) string { return (&script{t: t}).block })
}

type script struct {
	t     *testing.T
	mixer *Mixer
	s     Sample
	world world
	pool  *Pool
	lives *Lives
	herd  *herdOf
	held  *poolOf
}

// world is a cgroup that answers steps.
type world struct {
	step               int64
	anonBack, fileBack float64
	stubborn           bool // gives file cache whatever the weight, unless it is asked for anonymous memory alone and has no file cache
}

// take splits a step as a kernel might and returns what comes back of it.
func (w world) take(s *Sample, swappiness int) {
	share := float64(swappiness) / MaxWeight
	if swappiness == KernelsChoice {
		share = float64(kernelWeight) / MaxWeight
	}
	if w.stubborn {
		share = 0
	}
	s.TookAnon = int64(share * float64(w.step))
	s.TookFile = w.step - s.TookAnon
	s.RefaultAnon = uint64(w.anonBack * float64(s.TookAnon) / page)
	s.RefaultFile = uint64(w.fileBack * float64(s.TookFile) / page)
}

func (x *script) block(input string) string {
	var out strings.Builder
	for line := range strings.Lines(input) {
		x.line(&out, strings.Fields(line))
	}
	return out.String()
}

func (x *script) line(out *strings.Builder, f []string) {
	if len(f) == 0 || f[0][0] == '#' {
		return
	}
	verb, args := f[0], f[1:]
	switch verb {
	case "mixer":
		x.mixer = New(Params{FileOnly: len(args) > 0})
		x.s, x.world = Sample{Anon: 100 << 20, File: 100 << 20, Steering: Weights}, world{step: 1 << 20}
	case "set":
		for _, a := range args {
			x.set(a)
		}
	case "run":
		n, _ := strconv.Atoi(args[0])
		x.steps(out, n, len(args) > 1)
	case "pool":
		x.pool = &Pool{}
	case "grow":
		x.grow(out, args)
	case "joint", "heap", "ticks":
		x.joint(out, verb, args)
	case "lives":
		x.lives = &Lives{}
	case "died":
		for _, a := range args[1:] {
			x.lives.Died(args[0], x.duration(a))
		}
	case "short":
		fmt.Fprintf(out, "%s at %s: %v\n", args[0], args[1], x.lives.Short(args[0], x.duration(args[1])))
	case "put":
		x.put(out, args)
	case "placing", "ground", "minutes", "mover":
		x.placing(out, verb, args)
	default:
		x.t.Fatalf("unknown line %q", f)
	}
}

func (x *script) set(a string) {
	key, val, has := strings.Cut(a, "=")
	on := !strings.HasPrefix(key, "-")
	flags := map[string]*bool{"no-swap": &x.s.NoSwap, "swap-full": &x.s.SwapFull, "short": &x.s.ShortLived,
		"incompressible": &x.s.Incompressible, "off-pool": &x.s.OffPool, "stubborn": &x.world.stubborn}
	if p := flags[strings.TrimPrefix(key, "-")]; p != nil {
		*p = on
		return
	}
	if steer, ok := map[string]Steering{"deaf": Deaf, "coarse": Coarse, "weights": Weights}[key]; ok {
		x.s.Steering = steer
		return
	}
	if !has {
		x.t.Fatalf("unknown flag %q", a)
	}
	switch key {
	case "anon":
		x.s.Anon = x.size(val)
	case "file":
		x.s.File = x.size(val)
	case "shmem":
		x.s.Shmem = x.size(val)
	case "step":
		x.world.step = x.size(val)
	case "anon-back":
		x.world.anonBack = x.float(val)
	case "file-back":
		x.world.fileBack = x.float(val)
	case "share":
		x.s.PoolShare = x.float(val)
	case "cost-anon":
		x.s.CostAnon = x.duration(val)
	case "cost-file":
		x.s.CostFile = x.duration(val)
	default:
		x.t.Fatalf("unknown key %q", key)
	}
}

func (x *script) steps(out *strings.Builder, n int, explain bool) {
	var first, last Choice
	count := 0
	flush := func() {
		if count > 0 {
			fmt.Fprintf(out, "%3d × %-17s %s", count, first.Reason, weightText(first))
			if last.Swappiness != first.Swappiness {
				fmt.Fprintf(out, " … %s", weightText(last))
			}
			out.WriteString("\n")
			if explain {
				fmt.Fprintf(out, "      %s\n", last.Detail)
			}
		}
		count = 0
	}
	for range n {
		c := x.mixer.Choose(x.s)
		x.world.take(&x.s, c.Swappiness)
		if count > 0 && c.Reason != first.Reason {
			flush()
		}
		if count == 0 {
			first = c
		}
		last = c
		count++
	}
	flush()
}

func weightText(c Choice) string {
	if c.Swappiness == KernelsChoice {
		return "kernel"
	}
	return strconv.Itoa(c.Swappiness)
}

func (x *script) grow(out *strings.Builder, args []string) {
	var g Growth
	var age time.Duration
	n := 1
	for _, a := range args {
		key, val, _ := strings.Cut(a, "=")
		switch key {
		case "age":
			age = x.duration(val)
		case "out":
			g.Out = x.size(val)
		case "stored":
			g.Stored = x.size(val)
		case "pool":
			g.Pool = x.size(val)
		case "own":
			g.Own = true
		case "mixed":
			g.Mixed = true
		default:
			if _, err := fmt.Sscanf(key, "x%d", &n); err != nil {
				x.t.Fatalf("unknown key %q", key)
			}
		}
	}
	for range n {
		x.pool.Note(g, age)
	}
	poor, why := x.pool.Incompressible()
	share, ok := x.pool.Share()
	text := "unknown"
	if ok {
		text = fmt.Sprintf("%.2f", share)
	}
	fmt.Fprintf(out, "share %s, incompressible %v %s\n", text, poor, why)
}

func (x *script) put(out *strings.Builder, args []string) {
	var h Home
	for _, a := range args {
		switch key, val, _ := strings.Cut(a, "="); key {
		case "pool":
			h.Pool = true
		case "disk":
			h.Disk = true
		case "poor":
			h.Poor = true
		case "idle":
			h.Idle = x.duration(val)
		default:
			x.t.Fatalf("unknown key %q", key)
		}
	}
	place, why := Put(h)
	fmt.Fprintf(out, "%s: %s\n", place, why)
}

func (x *script) size(s string) int64 {
	n, err := bytesize.Parse(s)
	if err != nil {
		x.t.Fatal(err)
	}
	return int64(n)
}

func (x *script) float(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		x.t.Fatal(err)
	}
	return v
}

func (x *script) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		x.t.Fatal(err)
	}
	return d
}
