package main

import (
	"cmp"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/deploy"
	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/offload"
	"github.com/spillway-io/spillway/offload/tier"
)

// every calls f for each command, hidden ones included.
func every(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		every(sub, f)
	}
}

// A help page needs a sentence and an example, and the example must be a command that exists with flags that exist.
func TestEveryCommandHasAnExampleThatParses(t *testing.T) {
	n := 0
	every(new(app).root(), func(c *cobra.Command) {
		if c.Name() == "no-help" {
			return
		}
		n++
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s: no sentence or no example", c.CommandPath())
		}
		for _, line := range strings.Split(c.Example, "\n") {
			for _, part := range regexp.MustCompile(`[|]|&&|<\(`).Split(line, -1) {
				words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(part), ")"))
				if len(words) > 0 && words[0] == "sudo" {
					words = words[1:]
				}
				if len(words) == 0 || words[0] != "spillway" {
					continue
				}
				parseExample(t, c, words[1:])
			}
		}
	})
	if n < 15 {
		t.Errorf("only %d commands were looked at", n)
	}
}

func parseExample(t *testing.T, of *cobra.Command, words []string) {
	for i, w := range words {
		if w == ">" {
			words = words[:i]
			break
		}
	}
	cmd, rest, err := new(app).root().Find(words)
	if err != nil {
		t.Errorf("%s: example %q: %v", of.CommandPath(), words, err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%s: example %q: %v", of.CommandPath(), words, err)
	}
	if cmd.CommandPath() == "spillway" && len(words) > 0 {
		t.Errorf("%s: example %q names no command", of.CommandPath(), words)
	}
}

// The example must load; what it sets must be what an empty file gives, so that nobody who installs it changes
// anything.
func TestExampleIsTheDefault(t *testing.T) {
	var example fileConfig
	if err := cli.DecodeYAML("spillway.yaml", []byte(deploy.Example), &example); err != nil {
		t.Fatal(err)
	}
	var zero fileConfig
	for _, c := range []*fileConfig{&example, &zero} {
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
	}
	if example.Config != zero.Config {
		t.Errorf("daemon: example %+v, default %+v", example.Config, zero.Config)
	}
	got, want := resolved(t, example.Offload), resolved(t, zero.Offload)
	got.Log, want.Log = nil, nil
	want.Tiers.Zswap = cmp.Or(want.Tiers.Zswap, tier.Auto) // "" and auto mean the same
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if g.Field(i).Kind() == reflect.Slice || g.Field(i).Kind() == reflect.Map {
			if g.Field(i).Len()+w.Field(i).Len() != 0 {
				t.Errorf("%s is not empty", g.Type().Field(i).Name)
			}
			continue
		}
		if name := g.Type().Field(i).Name; !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			t.Errorf("%s: example %v, default %v", name, g.Field(i), w.Field(i))
		}
	}
}

func resolved(t *testing.T, c offload.Config) offload.Config {
	t.Helper()
	c, err := c.Resolved()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every knob that the program knows stands in the example, in force or commented out.
func TestExampleNamesEveryKnob(t *testing.T) {
	var walk func(reflect.Type, string)
	walk = func(ty reflect.Type, path string) {
		for ty.Kind() == reflect.Pointer || ty.Kind() == reflect.Slice || ty.Kind() == reflect.Map {
			ty = ty.Elem()
		}
		if ty.Kind() != reflect.Struct {
			return
		}
		for i := range ty.NumField() {
			f := ty.Field(i)
			key, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if key == "-" || !f.IsExported() {
				continue
			}
			if key != "" && !regexp.MustCompile(`(?m)\b`+key+`\b`).MatchString(deploy.Example) {
				t.Errorf("%s%s is not in the example", path, key)
			}
			next := path + key + "."
			if opts == "inline" {
				next = path
			}
			walk(f.Type, next)
		}
	}
	walk(reflect.TypeFor[fileConfig](), "")
}

// The alternatives that the example offers in comments must be accepted when somebody takes the # away.
func TestExampleAlternativesLoad(t *testing.T) {
	text := deploy.Example
	for _, c := range []struct{ off, on string }{
		{"  roots: []\n  # roots: [", "  roots: ["},
		{"  classes: []\n  # classes:\n  #   - match: /kubepods/**/log-agent*\n  #     class: tax\n  #   - match: /batch/**\n  #     class: throughput\n",
			"  classes:\n    - match: /kubepods/**/log-agent*\n      class: tax\n    - match: /batch/**\n      class: throughput\n"},
		{"  slo: []\n  # slo:\n  #   - cgroup: /system.slice/api.service\n  #     source: ", "  slo:\n    - cgroup: /system.slice/api.service\n      source: "},
		{"  params: {}\n  # params:\n  #   throughput:", "  params:\n    throughput:"},
		{"    # compressor:", "    compressor:"}, {"    # max_pool_percent:", "    max_pool_percent:"}, {"    # page_cluster:", "    page_cluster:"},
		{"    # swap_file: ", "    swap_file: "}, {"    #   path:", "      path:"}, {"    #   size: 4 GiB\n    #   priority: 5", "      size: 4 GiB\n      priority: 5"},
	} {
		if strings.Count(text, c.off) != 1 {
			t.Fatalf("the example has %d times %q", strings.Count(text, c.off), c.off)
		}
		text = strings.Replace(text, c.off, c.on, 1)
	}
	file := filepath.Join(t.TempDir(), "spillway.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := loadConfig(file)
	if err == nil {
		err = cfg.check()
	}
	if err != nil {
		t.Fatal(err)
	}
	o := cfg.Offload
	if len(o.Roots) != 2 || len(o.Classes) != 2 || len(o.Params) != 1 || o.Tiers.SwapFile == nil || o.Tiers.SwapFile.Priority == nil || o.Tiers.PageCluster == nil {
		t.Errorf("not everything was taken: %+v", o)
	}
}

// A failure at the command line gives code and sentence without a stack or a usage page.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"version"}, 0}, {nil, 0}, {[]string{"offload"}, 0}, {[]string{"nonsense"}, 2}, {[]string{"status", "--no-such-flag"}, 2},
		{[]string{"offload", "explain"}, 2}, {[]string{"top", "--every", "1ms", "--socket", "/nonexistent"}, 2},
		{[]string{"offload", "decisions", "--limit", "0"}, 2}, {[]string{"status", "--socket", "/nonexistent/sock"}, 1},
	} {
		var out, errOut strings.Builder
		if got := run(c.args, strings.NewReader(""), &out, &errOut); got != c.want {
			t.Errorf("%q: exit code %d, want %d\n%s", c.args, got, c.want, errOut.String())
		}
		if (c.want == 0) != (errOut.Len() == 0) || strings.Contains(errOut.String(), "goroutine") || strings.Contains(errOut.String(), "Usage:") {
			t.Errorf("%q: %q", c.args, errOut.String())
		}
	}
}

func TestTheSameRootTwiceIsOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("offload:\n  roots: [/a, /b]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := upFlags{config: file, roots: []string{"/b", "/c"}, sysroot: "/", listen: "off", socket: "/x/y"}
	cfg, err := f.settings()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(cfg.Offload.Roots, " "); got != "/a /b /c" || cfg.Listen != "off" || cfg.Socket != "/x/y" || cfg.Offload.DryRun {
		t.Errorf("roots %q, %+v", got, cfg.Config)
	}
	f.sysroot = "/somewhere"
	if cfg, err = f.settings(); err != nil || !cfg.Offload.DryRun {
		t.Errorf("a made-up root would be acted on: %+v, %v", cfg.Offload, err)
	}
}
