package deploy

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unitFor writes the unit with a program that exists, since systemd-analyze looks for it.
func unitFor(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze (Debian package systemd)")
	}
	b, err := os.ReadFile("spillway.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "spillway.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(b), "/usr/local/bin/spillway", "/bin/true")), 0o644); err != nil {
		t.Fatal(err)
	}
	return unit
}

func TestUnitIsUnderstood(t *testing.T) {
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", unitFor(t)).CombinedOutput()
	if err != nil || strings.Contains(string(out), "spillway.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// What the daemon must do (swap, cgroups, devices, loopback) costs 3.7 of 10 in systemd's count; a line that
// is lost costs more, and must be noticed.
func TestUnitIsHardened(t *testing.T) {
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", unitFor(t)).CombinedOutput()
	if err != nil {
		t.Skipf("systemd-analyze security --offline (systemd 250): %v\n%s", err, out)
	}
	m := regexp.MustCompile(`Overall exposure level for \S+: (\d+\.\d+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("no exposure level in\n%s", out)
	}
	level, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil || level > 3.7 {
		t.Errorf("exposure level %s, want at most 3.7\n%s", m[1], out)
	}
}

// Settings the daemon's promises rest on.
func TestUnitKeepsThePromises(t *testing.T) {
	b, err := os.ReadFile("spillway.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"Type=notify", "WatchdogSec=60s", "ExecStart=/usr/local/bin/spillway up --config /etc/spillway/spillway.yaml",
		"ExecStopPost=/usr/local/bin/spillway restore --config /etc/spillway/spillway.yaml", "StateDirectory=spillway", "RuntimeDirectory=spillway", "KillMode=mixed",
	} {
		if !slices.Contains(strings.Split(string(b), "\n"), line) {
			t.Errorf("the unit lacks %s", line)
		}
	}
}

// tree lists the files below dir with their modes and contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = info.Mode().String() + "\n" + string(b)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return files
}

func mk(t *testing.T, stage string, args ...string) string {
	t.Helper()
	cmd := exec.Command("make", append([]string{"-C", "..", "DESTDIR=" + stage}, args...)...)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// Installing twice is installing once; uninstalling takes everything away, but a configuration that was changed.
func TestInstallAndUninstall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make")
	}
	stage := t.TempDir()
	mk(t, stage, "install")
	first := tree(t, stage)
	want := []string{
		"etc/spillway/spillway.yaml", "usr/local/bin/spillway", "usr/local/lib/systemd/system/spillway.service",
		"usr/local/share/bash-completion/completions/spillway", "usr/local/share/fish/vendor_completions.d/spillway.fish",
		"usr/local/share/zsh/site-functions/_spillway",
	}
	if got := slices.Sorted(maps.Keys(first)); !slices.Equal(got, want) {
		t.Fatalf("installed %q, want %q", got, want)
	}
	if out, err := exec.Command(filepath.Join(stage, "usr/local/bin/spillway"), "config", "check", filepath.Join(stage, "etc/spillway/spillway.yaml")).CombinedOutput(); err != nil {
		t.Errorf("the installed configuration: %v\n%s", err, out)
	}

	mk(t, stage, "install")
	for name, text := range tree(t, stage) {
		if first[name] != text {
			t.Errorf("%s changed at the second install", name)
		}
	}

	config := filepath.Join(stage, "etc/spillway/spillway.yaml")
	if err := os.WriteFile(config, []byte("offload: {period: 7s}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := mk(t, stage, "install"); !strings.Contains(out, "kept ") {
		t.Errorf("nothing said about the kept configuration:\n%s", out)
	}
	if b, err := os.ReadFile(config); err != nil || string(b) != "offload: {period: 7s}\n" {
		t.Errorf("install overwrote a configuration: %q, %v", b, err)
	}
	for range 2 {
		mk(t, stage, "uninstall")
		if got := slices.Collect(maps.Keys(tree(t, stage))); len(got) != 1 || got[0] != "etc/spillway/spillway.yaml" {
			t.Errorf("after uninstall: %q", got)
		}
	}
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}

	mk(t, stage, "install", "PREFIX=/opt/spillway")
	unit := tree(t, stage)["opt/spillway/lib/systemd/system/spillway.service"]
	if !strings.Contains(unit, "ExecStart=/opt/spillway/bin/spillway up") || strings.Contains(unit, "/usr/local/bin") {
		t.Errorf("the unit starts another program than the installed one:\n%s", unit)
	}
	mk(t, stage, "uninstall", "PREFIX=/opt/spillway")
	if left := tree(t, stage); len(left) != 0 {
		t.Errorf("left behind: %q", slices.Collect(maps.Keys(left)))
	}
}
