package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/testkit/guest/wire"
)

// compile lays out binary number i: its program, and for a test package the testdata it would find in its folder.
func compile(ctx context.Context, i int, b Binary, limit time.Duration, work string) (wire.Program, []File, error) {
	dir := "/guest/" + strconv.Itoa(i)
	if b.Path != "" {
		p := path.Join(dir, filepath.Base(b.Path))
		return wire.Program{Path: p, Args: b.Args, Dir: dir, Env: b.Env, Bare: b.Bare}, []File{{Guest: p, Host: b.Path}}, nil
	}
	src, err := command(ctx, "", "go", "list", "-f", "{{.Dir}}", b.GoTestPackage)
	if err != nil {
		return wire.Program{}, nil, err
	}
	src = strings.TrimSpace(src)
	host := filepath.Join(work, strconv.Itoa(i)+".test")
	if err := goBuild(ctx, "test -c", host, b.GoTestPackage); err != nil {
		return wire.Program{}, nil, err
	}
	p := path.Join(dir, filepath.Base(src)+".test")
	files := []File{{Guest: p, Host: host}}
	data := filepath.Join(src, "testdata")
	switch _, err := os.Stat(data); {
	case err == nil:
		files = append(files, File{Guest: path.Join(dir, "testdata"), Host: data})
	case !errors.Is(err, fs.ErrNotExist):
		return wire.Program{}, nil, fmt.Errorf("guest: find testdata: %w", err)
	}
	args := append([]string{
		"-test.v=test2json", "-test.paniconexit0",
		// Sooner than the guest's own limit: Go then says where each goroutine hangs.
		"-test.timeout=" + (limit * 4 / 5).String(),
	}, b.Args...)
	return wire.Program{Path: p, Args: args, Dir: dir, Env: b.Env, Bare: b.Bare}, files, nil
}
