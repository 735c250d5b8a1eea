package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"/kubepods/pod1":        "/kubepods/pod1",
		`system-getty\x2d1`:     `system-getty\x2d1`,
		"a\nb\tc\r\x1b[31m\x7f": `a\nb\tc\r\x1b[31m\x7f`,
		"\xff\xc0":              `\xff\xc0`,
		"x\u202ey\u200b":        `x\u202ey\u200b`,
		"über 漢":                "über 漢",
		"\u009b31m":             `\u009b31m`,
		"'\"":                   `'"`,
		"\u00a0'":               `\u00a0'`,
	} {
		if got := Escape(in); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("\x1b]0;x\a\xff漢\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := Escape(s)
		if strings.ContainsFunc(got, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x202e }) {
			t.Errorf("Escape(%q) = %q", s, got)
		}
		for _, w := range []int{0, 1, 7, 8, 30} {
			for _, fit := range []string{Fit(got, w), FitLeft(got, w), FitEnd(got, w)} {
				if n := ansi.StringWidth(fit); n != w {
					t.Errorf("%q fits in %d cells, want %d: %q", got, n, w, fit)
				}
			}
		}
	})
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		got, want string
	}{
		{Fit("/a/b", 6), "/a/b  "},
		{Fit("/kubepods/burstable/pod1/redis", 16), "/kube…pod1/redis"},
		{Fit("abcdefgh", 5), "abcd…"},
		{FitLeft("1 MiB", 8), "   1 MiB"},
		{FitEnd("one two three", 8), "one two…"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	tab := NewTable("NAME", ">SIZE", "WHY")
	tab.Row("/a", "1 MiB", "short")
	tab.Row("/b\x1b[31m", "1000 MiB", "")
	tab.Row("/漢", "x")
	var b strings.Builder
	if err := tab.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := "NAME            SIZE  WHY\n/a             1 MiB  short\n/b\\x1b[31m  1000 MiB\n/漢                x\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	if err := tab.Write(failing{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a failed write gives %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestOutput(t *testing.T) {
	var o Output
	if o.String() != "table" || o.JSON() {
		t.Errorf("zero value is %v", o)
	}
	if err := o.Set("xml"); errkind.Of(err) != errkind.Invalid {
		t.Errorf("xml: %v", err)
	}
	if err := o.Set("json"); err != nil || !o.JSON() {
		t.Errorf("json: %v", err)
	}
	var b strings.Builder
	if err := o.Print(&b, map[string]string{"a": "<&"}, nil); err != nil || b.String() != "{\n  \"a\": \"<&\"\n}\n" {
		t.Errorf("%v, %q", err, b.String())
	}
}

func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errkind.Hint(errors.New("x"), "do this"), "do this"},
		{&probe.Missing{Feature: "PSI", Do: "boot with psi=1"}, "boot with psi=1"},
		{&fs.PathError{Op: "open", Path: "/x", Err: os.ErrPermission}, "run it as root"},
		{errors.New("x"), ""},
	} {
		if got := Advice(c.err); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("Advice(%v) = %q, want %q", c.err, got, c.want)
		}
	}
	var b strings.Builder
	PrintError(&b, nil)
	PrintError(&b, errors.New("two\nlines \x1b[31m"))
	if b.String() != "spillway: two\nlines \\x1b[31m\n" {
		t.Errorf("%q", b.String())
	}
}
