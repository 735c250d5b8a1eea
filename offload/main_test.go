package offload

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/worker"
	"github.com/spillway-io/spillway/offload/tier"
)

// TestMain lets the test binary be the programs that the code under test starts, and the one it is tried on.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		run := map[string]func([]string) error{
			"canary": func([]string) error { return tier.CanaryMain(context.Background(), os.Stdin, os.Stdout) },
			"worker": workerMain,
			"holder": holderMain,
		}[os.Args[1]]
		if run != nil {
			if err := run(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

func workerMain(args []string) error {
	if len(args) != 2 || args[0] != "--state-dir" {
		return fmt.Errorf("worker: arguments %q", args)
	}
	return worker.Main(context.Background(), os.Stdin, os.Stdout, worker.MainConfig{StateDir: args[1]})
}

// holderMain takes random|text MIB DIR: it joins the cgroup, fills so much memory, says "ready", and holds it until its
// input ends.
func holderMain(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("holder: arguments %q", args)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(args[2], "cgroup.procs"), []byte("0"), 0); err != nil {
		return err
	}
	mem, err := sys.MmapAnon(n << 20)
	if err != nil {
		return err
	}
	if err := sys.NoHugePages(mem); err != nil {
		return err
	}
	if args[0] == "random" {
		if _, err := rand.Read(mem); err != nil {
			return err
		}
	}
	for i := 0; args[0] == "text" && i < len(mem); {
		i += copy(mem[i:], fmt.Sprintf("GET /api/v1/items status=200 user=%d\n", i*7919))
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
