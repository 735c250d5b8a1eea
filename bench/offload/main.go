// Command offload measures the offload room's goals on this machine with the real binary, and writes
// bench/out/offload.json. It makes its own cgroups, changes the machine only through the daemon it starts,
// and restores everything. Run it through `make bench-offload`.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spillway-io/spillway/bench/workloads"
	"github.com/spillway-io/spillway/internal/testkit/herd"
)

// Goal is one line of the report, in the form every room's bench uses.
type Goal struct {
	What     string             `json:"what"`
	Value    float64            `json:"value"`
	Unit     string             `json:"unit"`
	Target   string             `json:"target"`
	Baseline *Baseline          `json:"baseline,omitempty"`
	Runs     []float64          `json:"runs"`
	Spread   [2]float64         `json:"spread"` // smallest and largest run
	Extra    map[string]float64 `json:"extra,omitempty"`
	Verdict  string             `json:"verdict,omitempty"`
	Pass     bool               `json:"pass"`
}

// Baseline is what the same run measured for the other side.
type Baseline struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Report is the whole file.
type Report struct {
	Room    string          `json:"room"`
	Commit  string          `json:"commit"`
	Machine string          `json:"machine"`
	Goals   map[string]Goal `json:"goals"`
}

type bench struct {
	exe   string // the product's binary
	quick bool
	long  bool
	out   string
	docs  string // where charts go
	law   string // of the workloads
}

// goalRun measures one goal and those that come with it.
type goalRun struct {
	name string
	run  func(context.Context) (map[string]Goal, error)
}

func main() {
	herd.Main()
	workloads.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	exe := flag.String("spillway", "../bin/spillway", "the binary to measure")
	out := flag.String("out", "out/offload.json", "where the report goes; goals already there for this commit are kept")
	quick := flag.Bool("quick", false, "fewer repetitions, at most six minutes")
	long := flag.Bool("long", false, "three pairs of blocks for G2 instead of one: half an hour more")
	only := flag.String("goal", "", "run this goal alone, for example G3; W is all workloads, W.redis one server under every law")
	docs := flag.String("docs", "../docs/bench", "the folder that charts are written to")
	law := flag.String("law", "composite", "the law of the workloads; other names than the default are added to their goals")
	flag.Parse()
	if os.Geteuid() != 0 && *only != "SIM" {
		return fmt.Errorf("needs root: cgroups, swap and zswap are changed (through the daemon) and restored")
	}
	abs, err := filepath.Abs(*exe)
	if err != nil {
		return err
	}
	b := &bench{exe: abs, quick: *quick, long: *long, out: *out, docs: *docs, law: *law}
	if !slices.Contains(lawNames(), *law) {
		return fmt.Errorf("no law is called %q; use one of %q", *law, lawNames())
	}
	rep := b.load()
	goals := append([]goalRun{
		{"G1", b.demo}, {"G2", b.stalls}, {"G3", b.cost}, {"G4", b.kills}, {"G9", b.manyKills}, {"G10", b.crowd}, {"SIM", b.sim},
	}, slices.Concat(b.workGoals(), b.twinGoals())...)
	failed := 0
	for _, g := range goals {
		if !wanted(*only, g.name) {
			continue
		}
		if _, done := rep.Goals[g.name]; done && *only != g.name {
			fmt.Printf("%s: kept from an earlier run of this commit\n", g.name)
			continue
		}
		if b.quick && g.name == "G2" && *only == "" {
			fmt.Println("G2: left out of a quick run, it needs 15 minutes; run it with GOAL=G2")
			continue
		}
		fmt.Printf("%s: running\n", g.name)
		got, err := g.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		for name, goal := range got {
			rep.Goals[name] = goal
		}
		if err := b.save(rep); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(mapKeys(rep.Goals)) {
		g := rep.Goals[name]
		mark := "pass"
		if !g.Pass {
			mark = "MISS"
			failed++
		}
		if g.Verdict != "" {
			mark = g.Verdict
		}
		fmt.Printf("%-4s %-9s %s: %.4g %s (target %s; %.4g to %.4g over %d)\n", name, mark, g.What, g.Value, g.Unit, g.Target, g.Spread[0], g.Spread[1], len(g.Runs))
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d figures missed their target", failed, len(rep.Goals))
	}
	return nil
}

func mapKeys(m map[string]Goal) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// load reads an earlier report of the same commit, so that an interrupted run resumes.
func (b *bench) load() Report {
	fresh := Report{Room: "offload", Commit: commit(), Machine: machine(), Goals: map[string]Goal{}}
	data, err := os.ReadFile(b.out)
	if err != nil {
		return fresh
	}
	var old Report
	if json.Unmarshal(data, &old) != nil || old.Commit != fresh.Commit || old.Goals == nil || strings.HasSuffix(old.Commit, "+") {
		return fresh
	}
	return old
}

func (b *bench) save(r Report) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(b.out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(b.out, append(data, '\n'), 0o644)
}

// commit names the measured tree; a trailing + says that it had uncommitted changes.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown+"
	}
	c := strings.TrimSpace(string(out))
	if dirty, _ := exec.Command("git", "status", "--porcelain").Output(); len(dirty) > 0 {
		c += "+"
	}
	return c
}

func machine() string {
	var u syscall.Utsname
	release := "?"
	if syscall.Uname(&u) == nil {
		var sb strings.Builder
		for _, c := range u.Release {
			if c == 0 {
				break
			}
			sb.WriteByte(byte(c))
		}
		release = sb.String()
	}
	cpu := "?"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				cpu = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	var info syscall.Sysinfo_t
	_ = syscall.Sysinfo(&info)
	return fmt.Sprintf("Linux %s, %s, %d MiB", release, cpu, info.Totalram*uint64(info.Unit)>>20)
}

// goal summarises runs by their median.
func goal(what, unit, target string, runs []float64, pass func(median float64) bool) Goal {
	s := slices.Sorted(slices.Values(runs))
	if len(s) == 0 {
		return Goal{What: what, Unit: unit, Target: target}
	}
	m := s[len(s)/2]
	if len(s)%2 == 0 {
		m = (s[len(s)/2-1] + m) / 2
	}
	return Goal{What: what, Unit: unit, Target: target, Runs: runs, Value: m, Spread: [2]float64{s[0], s[len(s)-1]}, Pass: pass(m)}
}

func atMost(limit float64) func(float64) bool  { return func(v float64) bool { return v <= limit } }
func atLeast(limit float64) func(float64) bool { return func(v float64) bool { return v >= limit } }
