package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/errkind"
)

func TestRestoreTellsOfWhatItCannotRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "journal"), []byte("garbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	c := (&app{in: strings.NewReader(""), out: &out, err: &errs}).root()
	c.SetArgs([]string{"restore", "--state-dir", dir})
	if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "journal.damaged") {
		t.Errorf("error %v, want one that names journal.damaged", err)
	}
	if strings.Contains(out.String(), "nothing to restore") || !strings.Contains(errs.String(), "damaged lines") {
		t.Errorf("said %q and logged %q", &out, &errs)
	}
}

func TestRestoreWithoutADirectoryIsAUsageError(t *testing.T) {
	c := (&app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}).root()
	c.SetArgs([]string{"restore", "--state-dir", ""})
	if err := c.ExecuteContext(t.Context()); errkind.Of(err) != errkind.Invalid || !strings.Contains(errkind.HintOf(err), "--help") {
		t.Errorf("got %v (hint %q), want a usage error", err, errkind.HintOf(err))
	}
}
