// Package datafile runs tests that are written as data: testdata/*.txt, each a list of blocks with input above ---- and
// the expectation below, so that a decision's behaviour can be read, and reviewed, without reading Go.
//
// A block without ---- is a comment and stays as it is. Blank lines separate blocks. Non-goals: what the input means.
package datafile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Run runs every data file of the test's package, each as a subtest with a fresh answer from open. An answer gives the
// expectation for a block's input, with its final newline. update rewrites the files instead of comparing.
func Run(t *testing.T, update bool, open func(*testing.T) func(input string) string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no data files", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got := answer(string(src), open(t))
			if update {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(src) {
				t.Errorf("%s differs (-update rewrites it):\n%s", f, diff(string(src), got))
			}
		})
	}
}

func answer(src string, block func(string) string) string {
	var out strings.Builder
	for i, b := range strings.Split(strings.TrimRight(src, "\n"), "\n\n") {
		if i > 0 {
			out.WriteString("\n")
		}
		input, _, ok := strings.Cut(b+"\n", "\n----\n")
		out.WriteString(strings.TrimRight(input, "\n") + "\n")
		if ok {
			out.WriteString("----\n" + block(input))
		}
	}
	return out.String()
}

// diff lists the lines that differ, place by place.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out strings.Builder
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			out.WriteString("-" + a + "\n+" + b + "\n")
		}
	}
	return out.String()
}
