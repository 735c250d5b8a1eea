package workloads

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spillway-io/spillway/bench/workloads/client"
	"github.com/spillway-io/spillway/offload/demo/load"
)

// writeTree is the body of partTree: DIR N. It writes the static tree and waits until it is on disk: the kernel
// takes dirty pages from nobody.
func writeTree(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want DIR N, got %q", args)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 || n > 100_000 {
		return fmt.Errorf("want 1 to 100,000 files, got %q", args[1])
	}
	text := load.NewText(fillSeed)
	buf := make([]byte, 0, client.FileSize)
	for i := range n {
		path := filepath.Join(args[0], client.FilePath(i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		buf = text.Append(buf[:0], client.FileSize)
		if err := os.WriteFile(path, buf, 0o644); err != nil {
			return err
		}
	}
	return eachFile(args[0], func(f *os.File) error { return f.Sync() })
}

// eachFile opens every regular file below dir and hands it to do.
func eachFile(dir string, do func(*os.File) error) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return do(f)
	})
}
