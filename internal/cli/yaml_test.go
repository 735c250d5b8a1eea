package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/errkind"
)

type inner struct {
	Roots  []string      `yaml:"roots"`
	Period time.Duration `yaml:"period"`
	Floor  bytesize.Size `yaml:"floor"`
	Ratio  float64       `yaml:"ratio"`
	Hold   int           `yaml:"hold"`
	DryRun bool          `yaml:"dry_run"`
	Params map[string]struct {
		Hold int `yaml:"hold"`
	} `yaml:"params"`
	Rules []struct {
		Match string `yaml:"match"`
	} `yaml:"rules"`
	Prio *int `yaml:"priority"`
	Log  any  `yaml:"-"`
}

type base struct {
	Listen string `yaml:"listen"`
}

type sample struct {
	Base    base  `yaml:",inline"`
	Offload inner `yaml:"offload"`
}

func TestDecodeYAML(t *testing.T) {
	var got sample
	err := DecodeYAML("f.yaml", []byte(`# comment
listen: 127.0.0.1:1
offload:
  roots: [/a, /b]
  period: 1m30s
  floor: 16MiB
  ratio: 0.001
  dry_run: true
  params:
    tax: {hold: 3}
  rules:
    - match: /x/**
  priority: 7
`), &got)
	if err != nil {
		t.Fatal(err)
	}
	o := got.Offload
	if got.Base.Listen != "127.0.0.1:1" || len(o.Roots) != 2 || o.Period != 90*time.Second || o.Floor != 16*bytesize.MiB ||
		o.Ratio != 0.001 || !o.DryRun || o.Params["tax"].Hold != 3 || o.Rules[0].Match != "/x/**" || *o.Prio != 7 {
		t.Errorf("decoded %+v", got)
	}
}

func TestEmptyFileChangesNothing(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n", "---\n", "offload:\n", "\ufeffoffload:\n", "offload: {hold: null, priority: 0}\n"} {
		got := sample{Offload: inner{Hold: 3}}
		if err := DecodeYAML("f", []byte(text), &got); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Every mistake names file, line, column, the mistake and what to write, and is a usage error.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ text, where, what, do string }{
		{"offload:\n  perod: 6s\n", "f.yaml:2:3:", `unknown key "perod"`, `did you mean "period"?`},
		{"nonsense_key: 1\n", "f.yaml:1:1:", `unknown key "nonsense_key"`, "possible here: listen, offload"},
		{"offload:\n  period: 6\n", "f.yaml:2:11:", "a duration is needed here, found a bare number", "6s"},
		{"offload:\n  period: 6 parsecs\n", "f.yaml:2:11:", `"6 parsecs" is not a duration`, "6s"},
		{"offload:\n  floor: 16\n", "f.yaml:2:10:", "no unit", ""},
		{"offload:\n  floor: 16MB\n", "f.yaml:2:10:", "did you mean MiB?", ""},
		{"offload:\n  floor: [1]\n", "f.yaml:2:10:", "one value is needed here, found a list", ""},
		{"offload:\n  roots: /a\n", "f.yaml:2:10:", "a list is needed here, found text", `["/kubepods.slice"]`},
		{"offload:\n  ratio: much\n", "f.yaml:2:10:", "a number is needed here", ""},
		{"offload:\n  hold: 1.5\n", "f.yaml:2:9:", "a whole number is needed here", ""},
		{"offload:\n  dry_run: maybe\n", "f.yaml:2:12:", "true or false is needed here", ""},
		{"offload:\n  hold: 99999999999999999999\n", "f.yaml:2:9:", "", ""},
		{"listen: 8080\n", "f.yaml:1:9:", "text is needed here, found a bare number", "put it in quotes"},
		{"offload:\n  ratio: .nan\n", "f.yaml:2:10:", "a number is needed here, found infinity or no number", "0.15"},
		{"offload: 3\n", "f.yaml:1:10:", "keys with values are needed here, found a bare number", ""},
		{"offload:\n  params:\n    tax:\n      hodl: 1\n", "f.yaml:4:7:", `unknown key "hodl"`, `did you mean "hold"?`},
		{"offload:\n  rules:\n    - macth: x\n", "f.yaml:3:7:", `unknown key "macth"`, `did you mean "match"?`},
		{"offload:\n  log: x\n", "f.yaml:2:3:", `unknown key "log"`, ""},
		{"listen: a\nlisten: b\n", "f.yaml:2:1:", "already defined", ""},
		{"listen: [\n", "f.yaml:1:", "", ""},
		{"listen: a\n---\nlisten: b\n", "f.yaml:3:", "a second document", ""},
		{"a: &x 1\nlisten: *x\n", "f.yaml:1:1:", `unknown key "a"`, ""},
		{"listen: &x a\n", "f.yaml:1:9:", "anchors and aliases are not allowed", "write the value out"},
		{"offload:\n  <<: {hold: 1}\n", "f.yaml:2:3:", "merge keys are not allowed", ""},
		{"offload:\n  ratio: 1e-3\n", "f.yaml:2:10:", "a number is needed here, found text", "without quotes, unit or exponent"},
		{"offload:\n  ratio: 0\n", "f.yaml:2:10:", "zero is not possible here", "leave the key out for its default"},
		{"offload:\n  ratio: -0.0\n", "f.yaml:2:10:", "zero is not possible here", ""},
		{"offload:\n  hold: 0\n", "f.yaml:2:9:", "zero is not possible here", ""},
		{"offload:\n  floor: 0 MiB\n", "f.yaml:2:10:", "zero is not possible here", ""},
		{"offload:\n  period: 0s\n", "f.yaml:2:11:", "zero is not possible here", ""},
		{"offload: {params: {tax: {hold: 0}}}\n", "f.yaml:1:32:", "zero is not possible here", ""},
		{"listen: " + strings.Repeat("[", maxConfig/2), "f.yaml:1:73:", "nested deeper", ""},
		{strings.Repeat("- ", maxConfig/4), "f.yaml:1:129:", "nested deeper", ""},
		{"- 1\n", "f.yaml:1:1:", "keys with values are needed here, found a list", ""},
	} {
		var got sample
		err := DecodeYAML("f.yaml", []byte(c.text), &got)
		if err == nil {
			t.Errorf("%q: accepted", c.text)
			continue
		}
		if msg := err.Error(); !strings.Contains(msg, c.where) || !strings.Contains(msg, c.what) || strings.Contains(msg, "\n") {
			t.Errorf("%q: %q lacks %q or %q, or is longer than a line", c.text, msg, c.where, c.what)
		}
		if do := errkind.HintOf(err); do == "" || !strings.Contains(do, c.do) {
			t.Errorf("%q: hint %q lacks %q", c.text, do, c.do)
		}
		if errkind.ExitCode(err) != 2 {
			t.Errorf("%q: exit code %d, want 2", c.text, errkind.ExitCode(err))
		}
		var fe *FileError
		if !errors.As(err, &fe) || !strings.Contains(fe.Excerpt(), "^") {
			t.Errorf("%q: no caret: %v", c.text, err)
		}
	}
}

func TestCaretStandsUnderTheMistake(t *testing.T) {
	var b strings.Builder
	PrintError(&b, DecodeYAML("f.yaml", []byte("# é漢\noffload:\n  \"pe\\x1brod\": 6s\n"), new(sample)))
	PrintError(&b, DecodeYAML("f.yaml", []byte("listen: \"漢漢\x1b[31m\"\noffload: {roots: [/漢], perod: 1}\n"), new(sample)))
	want := `spillway: config: f.yaml:3:3: unknown key "pe\x1brod"
     2 | offload:
>    3 |   "pe\x1brod": 6s
       |   ^
  do: did you mean "period"?
spillway: config: f.yaml:2:24: unknown key "perod"
     1 | listen: "漢漢\x1b[31m"
>    2 | offload: {roots: [/漢], perod: 1}
       |                         ^
  do: did you mean "period"?
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestLoadYAMLRefusesForeignFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte("listen: a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var got sample
	if err := LoadYAML(file, &got); err != nil || got.Base.Listen != "a" {
		t.Fatalf("good file: %v, %+v", err, got)
	}
	for _, mode := range []os.FileMode{0o664, 0o646, 0o666} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		err := LoadYAML(file, &got)
		if errkind.Of(err) != errkind.Denied || !strings.Contains(errkind.HintOf(err), "chmod go-w "+file) {
			t.Errorf("mode %o: %v, hint %q", mode, err, errkind.HintOf(err))
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{"a directory": dir, "a pipe that nobody writes to": pipe} {
		if err := LoadYAML(path, &got); errkind.Of(err) != errkind.Invalid || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", what, err)
		}
	}
	err := LoadYAML(filepath.Join(dir, "none"), &got)
	if errkind.Of(err) != errkind.NotFound || !strings.Contains(errkind.HintOf(err), "config example") {
		t.Errorf("missing file: %v, hint %q", err, errkind.HintOf(err))
	}
	big := filepath.Join(dir, "big.yaml")
	if err := os.WriteFile(big, []byte(strings.Repeat("#", maxConfig+1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := LoadYAML(big, &got); errkind.Of(err) != errkind.Invalid {
		t.Errorf("big file: %v", err)
	}
}

func TestJudgeOwner(t *testing.T) {
	for _, c := range []struct {
		uid    uint32
		mode   os.FileMode
		asking uint32
		ok     bool
	}{
		{0, 0o644, 0, true}, {0, 0o600, 1000, true}, {1000, 0o644, 1000, true},
		{1000, 0o644, 0, false}, {1001, 0o644, 1000, false}, {0, 0o664, 0, false}, {0, 0o646, 0, false},
	} {
		err := judgeOwner("/etc/x.yaml", c.uid, c.mode, c.asking)
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil && errkind.HintOf(err) == "" {
			t.Errorf("%+v: no command that repairs it", c)
		}
	}
}

func FuzzDecodeYAML(f *testing.F) {
	for _, s := range []string{"offload:\n  perod: 6s\n", "a: [", "listen: &a b\noffload: *a", "offload:\n  floor: 16MB", "? {a: b}\n: c",
		"offload: {params: {tax: {hold: 1}}}", "offload: !!binary x", "- - -\n", "\"\\x1b\": 1", "offload:\n  <<: 1", "\xff\xfe", "a: |\n  x\n", "a: b: c"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got sample
		err := DecodeYAML("f.yaml", data, &got)
		if err == nil {
			return
		}
		if errkind.Of(err) != errkind.Invalid {
			t.Errorf("kind %v: %v", errkind.Of(err), err)
		}
		var b strings.Builder
		PrintError(&b, err)
		for _, r := range b.String() {
			if r != '\n' && (r < 0x20 || r == 0x7f) {
				t.Errorf("control character %q reaches the terminal: %q", r, b.String())
			}
		}
	})
}

func ExamplePrintError() {
	PrintError(os.Stdout, errkind.Hint(errkind.Wrap(errkind.Unavailable, fmt.Errorf("daemon: lock /x: pid 7 runs here")), "stop it first"))
	// Output:
	// spillway: daemon: lock /x: pid 7 runs here
	//   do: stop it first
}
