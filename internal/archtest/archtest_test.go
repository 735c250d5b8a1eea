package archtest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/broken.golden")

// TestHouse runs every rule on this module.
func TestHouse(t *testing.T) {
	m, err := Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Packages) < 5 {
		t.Fatalf("loaded %d packages of %s: the rules saw nothing", len(m.Packages), m.Path)
	}
	for _, r := range Rules() {
		t.Run(r.Name, func(t *testing.T) {
			for _, f := range r.Check(m) {
				t.Error(f)
			}
		})
	}
}

// TestBench holds the benchmarks, which are a module of their own, to the rules that do not depend on the map of
// floors.
func TestBench(t *testing.T) {
	m, err := Load("../../bench")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Packages) < 2 {
		t.Fatalf("loaded %d packages of %s: the rules saw nothing", len(m.Packages), m.Path)
	}
	for _, f := range CommentWidth(m) {
		t.Error(f)
	}
}

// TestBroken runs every rule on a module that breaks each of them, and nothing else: a rule that finds nothing there
// would pass on everything.
func TestBroken(t *testing.T) {
	m, err := Load("testdata/broken")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, r := range Rules() {
		found := r.Check(m)
		if len(found) == 0 {
			t.Errorf("rule %s finds nothing in the broken module", r.Name)
		}
		for _, f := range found {
			fmt.Fprintf(&got, "%s %s\n", r.Name, f)
		}
	}
	const golden = "testdata/broken.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("findings differ from %s (-update rewrites it); got:\n%s", golden, got.String())
	}
}

// TestClean: the same kinds of package, written by the rules, give no finding.
func TestClean(t *testing.T) {
	m, err := Load("testdata/clean")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Packages) == 0 {
		t.Fatal("the clean module is empty")
	}
	for _, r := range Rules() {
		for _, f := range r.Check(m) {
			t.Errorf("rule %s on the clean module: %s", r.Name, f)
		}
	}
}
