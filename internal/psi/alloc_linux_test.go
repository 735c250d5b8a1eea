//go:build !race

// The race detector's own bookkeeping allocates, so these tests run without it.

package psi_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/spillway-io/spillway/internal/psi"
)

func TestReadAllocatesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.pressure")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := psi.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var got psi.Totals
	if n := testing.AllocsPerRun(100, func() { got, err = f.Read() }); n != 0 || err != nil || got.Some != 123456789 {
		t.Errorf("%v allocations, %+v, %v", n, got, err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Errorf("close twice: %v", err)
	}
	if _, err := f.Read(); err == nil {
		t.Error("read a closed file")
	}
}
