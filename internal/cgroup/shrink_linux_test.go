package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Writing the intent's record takes time, in which somebody else may set a limit.
func TestShrinkLeavesALimitSetMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v1")
	if err := os.CopyFS(dir, os.DirFS("testdata/v1-6.18")); err != nil {
		t.Fatal(err)
	}
	limit := filepath.Join(dir, limitFile)
	if err := os.WriteFile(limit, []byte("9223372036854771712\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := openFolder(t, dir).Shrink(1<<20, 0, func(_, _ int64) error {
		return os.WriteFile(limit, []byte("123456789\n"), 0o600)
	})
	if !errors.Is(err, ErrForeign) || r.Restored {
		t.Errorf("result %+v, %v; want ErrForeign", r, err)
	}
	if b, err := os.ReadFile(limit); err != nil || strings.TrimSpace(string(b)) != "123456789" {
		t.Errorf("limit %q, %v; want the foreign one", b, err)
	}
}
