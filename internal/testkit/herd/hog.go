package herd

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// hogMark in the environment turns a program that calls Main into a hog.
const hogMark = "SPILLWAY_HERD_HOG"

// Main turns this process into a hog if a Herd started it, and does not return then.
func Main() {
	if os.Getenv(hogMark) == "" {
		return
	}
	if err := hog(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hog:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hog takes MIB HOT DIR...: it joins the cgroups, fills MIB of memory with text-like bytes and, ten times a
// second, reads some pages of the HOT percent that stay warm, until its parent is gone.
func hog(args []string) error {
	if len(args) > 0 && args[0] == "crowd" {
		return crowd(args[1:])
	}
	if len(args) < 2 {
		return fmt.Errorf("want MIB HOT DIR..., got %q", args)
	}
	mib, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	hot, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := join(args[2:]...); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	mem := make([]byte, mib<<20)
	words := []string{"GET /api/v1/items ", "status=200 ", "user=", "latency_ms=", "trace=", "\n"}
	for i := 0; i < len(mem); {
		i += copy(mem[i:], words[rng.IntN(len(words))])
		i += copy(mem[i:], strconv.Itoa(rng.IntN(1e6)))
	}
	gone := parentGone()
	fmt.Println("ready")
	pages := len(mem) / 4096 * hot / 100
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	sum := byte(0)
	for {
		select {
		case <-gone:
			if sum == 1 { // keeps the reads from being optimised away
				return io.EOF
			}
			return nil
		case <-tick.C:
			for range min(pages, 64) {
				sum += mem[rng.IntN(pages)*4096]
			}
		}
	}
}

func join(dirs ...string) error {
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// parentGone is closed when the parent's end of our standard input is.
func parentGone() <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return gone
}

// crowd takes MIB N DIR...: it walks through the cgroups job-0 to job-N-1 of each DIR and leaves MIB of memory in each,
// which stays charged there. Once a second it reads one page of each, so that not everything is cold.
func crowd(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("want crowd MIB N DIR..., got %q", args)
	}
	mib, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	text := make([]byte, 0, 1<<20)
	for i := 0; len(text) < 1<<20-64; i++ {
		text = fmt.Appendf(text, "GET /api/v1/items status=200 user=%d\n", i*7919)
	}
	mem := make([][]byte, n)
	for i := range mem {
		for _, dir := range args[2:] {
			if err := join(filepath.Join(dir, "job-"+strconv.Itoa(i))); err != nil {
				return err
			}
		}
		mem[i] = make([]byte, mib<<20)
		for at := 0; at < len(mem[i]); at += len(text) {
			copy(mem[i][at:], text)
		}
	}
	gone := parentGone()
	fmt.Println("ready")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	sum := byte(0)
	for {
		select {
		case <-gone:
			if sum == 1 {
				return io.EOF
			}
			return nil
		case <-tick.C:
			for i := range mem {
				sum += mem[i][0]
			}
		}
	}
}
