// Package e2e drives the real program from outside, as a person or a script would: every script in testdata
// is one story with its own folder, and says what is typed, what comes back, and with which exit code.
//
// What a real machine cannot be brought into (no swap, PSI off, a full swap) comes from a made-up root folder
// through the hidden flag --sysroot. Everything else uses this machine's kernel, and is skipped, with the
// reason, where the kernel or the user lacks it.
package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spillway-io/spillway/internal/probe"
)

var update = flag.Bool("update", false, "rewrite what cmp compares with")

// binDir holds the program under test.
var binDir string

func TestMain(m *testing.M) {
	if size := os.Getenv(hogSize); size != "" {
		os.Exit(hog(size))
	}
	os.Exit(build(m))
}

func build(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "spillway-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// nobody must be able to run it, and to reach the scripts' folders.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binDir = dir
	cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "spillway"), "github.com/spillway-io/spillway/cmd/spillway")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata",
		RequireUniqueNames: true,
		UpdateScripts:      *update,
		Condition:          condition,
		Setup:              setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"rc":       cmdRC,
			"up":       cmdUp,
			"down":     cmdDown,
			"reload":   cmdReload,
			"eventual": cmdEventual,
			"sysroot":  cmdSysroot,
			"cgroup":   cmdCgroup,
			"occupy":   cmdOccupy,
			"memcg":    cmdMemcg,
			"vanish":   cmdVanish,
			"watch":    cmdWatch,
		},
	})
}

func setup(env *testscript.Env) error {
	env.Setenv("PATH", binDir+string(os.PathListSeparator)+env.Getenv("PATH"))
	env.Setenv("TZ", "UTC")
	// Scripts run in folders of 0700 below 0700; nobody's story needs a way in.
	for dir := env.WorkDir; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	s := &story{work: env.WorkDir}
	env.Values[storyKey] = s
	env.Defer(s.end)
	return nil
}

// condition makes the machine's features usable as [root], [memory-v1] and so on.
func condition(name string) (bool, error) {
	feature := probe.Feature(strings.ReplaceAll(name, "-", " "))
	if name == "psi" {
		feature = probe.PSI
	}
	err := probe.Check("/", feature)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return false, fmt.Errorf("condition [%s]: %w", name, err)
	}
	return err == nil, nil
}
