package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
)

func TestSameValue(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"10", "10\n", true},
		{"Y", "1", true},
		{"N", "0", true},
		{"Y", "0", false},
		{"lzo [lz4] zstd", "lz4", true},
		{"lzo [lz4] zstd", "lzo", false},
		{"64M", "67108864", true},
		{"1g", "1073741824", true},
		{"-1", "9223372036854771712", true},
		{"max", "-1", true},
		{"max", "0", false},
		{"67108865", "67108864", true}, // the kernel rounds to pages
		{"67108865", "67108866", false},
		{"60", "61", false},
		{"", "\n", true},
		{"", "0", false},
		{"9999999999999999999", "1", false},
	} {
		if got := same(tc.a, tc.b); got != tc.want {
			t.Errorf("same(%q, %q) = %v", tc.a, tc.b, got)
		}
		if same(tc.a, tc.b) != same(tc.b, tc.a) {
			t.Errorf("same(%q, %q) depends on the order", tc.a, tc.b)
		}
	}
}

func TestErrorsSurviveThePipe(t *testing.T) {
	missing := &probe.Missing{Feature: "memory.reclaim", Since: "5.19", Do: "upgrade"}
	for _, err := range []error{
		fmt.Errorf("step: %w", cgroup.ErrGone),
		errkind.Hint(errkind.New(errkind.Exhausted, "journal: %w", sys.ENOSPC), "free %d%% of the disk", 5),
		fmt.Errorf("step: %w", missing),
		fmt.Errorf("step: %w", context.DeadlineExceeded),
		errkind.New(errkind.Unavailable, "step: %w", ErrInFlight),
		errors.New("bytes \xff\x1b[2J\n"),
	} {
		b, encErr := json.Marshal(toWire(err))
		if encErr != nil {
			t.Fatal(encErr)
		}
		var w wireError
		if err := json.Unmarshal(b, &w); err != nil {
			t.Fatal(err)
		}
		got := w.err()
		if got.Error() != err.Error() || errkind.Of(got) != errkind.Of(err) || errkind.HintOf(got) != errkind.HintOf(err) {
			t.Errorf("%q (%v, hint %q) became %q (%v, hint %q)", err, errkind.Of(err), errkind.HintOf(err), got, errkind.Of(got), errkind.HintOf(got))
		}
		for _, s := range sentinels {
			if errors.Is(err, s.err) != errors.Is(got, s.err) {
				t.Errorf("%q: is %q: %v became %v", err, s.name, errors.Is(err, s.err), errors.Is(got, s.err))
			}
		}
	}
	if (*wireError)(nil).err() != nil || toWire(nil) != nil {
		t.Error("no error became one")
	}
}

func TestLinesAreBounded(t *testing.T) {
	l := newLines(io.MultiReader(strings.NewReader("a\n\nb\n"), bytes.NewReader(bytes.Repeat([]byte("x"), 2*maxLine))))
	for _, want := range []string{"a", "", "b"} {
		if b, err := l.next(); err != nil || string(b) != want {
			t.Fatalf("line %q, %v; want %q", b, err, want)
		}
	}
	if b, err := l.next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("line of %d bytes, %v; want a refusal", len(b), err)
	}
	if _, err := newLines(strings.NewReader("cut off")).next(); !errors.Is(err, io.EOF) {
		t.Errorf("fragment: %v, want the end", err)
	}
}

func TestStepRequestByHand(t *testing.T) {
	for _, path := range []string{"/kubepods/a", "/a\"b\\c", "/\xff\n", "/é<&>", ""} {
		want := request{ID: 7, Op: opStep, Millis: 1500, Lazy: true, Cgroup: journal.Text(path), Inode: 1 << 63, Bytes: -5, Floor: 1 << 40}
		b, err := appendStep(nil, &want)
		if err != nil || bytes.Count(b, []byte("\n")) != 1 || b[len(b)-1] != '\n' {
			t.Fatalf("%q, %v", b, err)
		}
		var got request
		if err := json.Unmarshal(b, &got); err != nil || got != want {
			t.Errorf("%s became %+v, %v", b, got, err)
		}
	}
	if _, err := appendStep(nil, &request{Cgroup: journal.Text(strings.Repeat("x", maxLine))}); errkind.Of(err) != errkind.Invalid {
		t.Errorf("endless path: %v", err)
	}
}

func TestDyingProcessIsTold(t *testing.T) {
	if dying(1<<30) || dying(os.Getpid()) {
		t.Error("no such process, or this one, is dying")
	}
	cmd, _ := role(t, "", "idle")
	if dying(cmd.Process.Pid) {
		t.Error("an idle process is dying")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Nobody waits for it, so it stays a zombie: pending signal first, then state Z.
	if !dying(cmd.Process.Pid) {
		t.Error("a killed process is not dying")
	}
}

func TestLockHolder(t *testing.T) {
	for text, want := range map[string]string{
		"12 serving\n": "12 serving", "7 undoing\n": "7 undoing", "": "0 ", "x serving": "0 ", "9": "9 ",
	} {
		path := filepath.Join(t.TempDir(), "lock")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		pid, state := holder(f)
		f.Close()
		if got := fmt.Sprintf("%d %s", pid, state); got != want {
			t.Errorf("lock %q: holder %q, want %q", text, got, want)
		}
	}
}

func TestAPipeInPlaceOfTheLock(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, lockName), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(t.Context(), dir); !errors.Is(err, sys.ErrNotRegular) {
		t.Error(err)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"id":1,"op":"step","cg":"/a","bytes":1,"floor":-1}`))
	f.Add([]byte(`{"id":2,"op":"do","change":{"knob":{"Path":"/sys/../etc/passwd","Value":"x"}}}`))
	f.Add([]byte(`{"id":3,"op":"do","change":{"tempdir":{"Path":"/"},"zram":{}}}`))
	f.Add([]byte(`{"id":4,"op":"step","cg":{"hex":"ff"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var r request
		if json.Unmarshal(line, &r) != nil || r.Change == nil {
			return
		}
		kind, path, err := r.Change.kind()
		if err != nil {
			return
		}
		if kind != "zram" && (path == "/" || !strings.HasPrefix(path, "/") || strings.Contains(path, "/../") || strings.HasSuffix(path, "/")) {
			t.Fatalf("%s %q passed the check", kind, path)
		}
	})
}
