package datafile

import (
	"strings"
	"testing"
)

func TestAnswer(t *testing.T) {
	src := "# a comment\n# stays\n\nadd 1 2\n----\nwrong\n\nadd 2 2\n# in a block\n----\nADD 2 2\n# IN A BLOCK\n"
	want := "# a comment\n# stays\n\nadd 1 2\n----\nADD 1 2\n\nadd 2 2\n# in a block\n----\nADD 2 2\n# IN A BLOCK\n"
	got := answer(src, func(in string) string { return strings.ToUpper(in) + "\n" })
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if again := answer(got, func(in string) string { return strings.ToUpper(in) + "\n" }); again != got {
		t.Errorf("a rewritten file changes again: %q", again)
	}
	if d := diff(src, got); d != "-wrong\n+ADD 1 2\n" {
		t.Errorf("diff %q", d)
	}
}
