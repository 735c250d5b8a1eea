//go:build linux

// Package inside proves that a guest is what its Config asked for: a pure cgroup v2 tree in which cold memory goes
// to zswap. It runs in guests only; the folder testdata keeps it out of ./... on the host.
package inside

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/sys"
)

const (
	root  = "/sys/fs/cgroup"
	bytes = 32 << 20
	page  = 4096
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("INSIDE_HOLD"); dir != "" {
		hold(dir)
	}
	os.Exit(m.Run())
}

// hold joins the cgroup dir, fills memory with pages that compress to about a third, and keeps them until its
// standard input closes.
func hold(dir string) {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
		fmt.Println("join:", err)
		os.Exit(1)
	}
	b, err := sys.MmapAnon(bytes)
	if err == nil {
		// zswap turns away huge pages, which a kernel may swap out whole when the swap device does not rotate.
		err = sys.NoHugePages(b)
	}
	if err != nil {
		fmt.Println("map:", err)
		os.Exit(1)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(b); i += page {
		for k := range page / 4 {
			b[i+k] = byte(r.Uint32())
		}
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadByte()
	os.Exit(0)
}

func TestKernel(t *testing.T) {
	release := read(t, "/proc/sys/kernel/osrelease")
	if want := os.Getenv("INSIDE_KERNEL"); !strings.HasPrefix(release, want) {
		t.Errorf("kernel %q, want %s…", release, want)
	}
	t.Log("release", release)
}

func TestMemoryControllerIsOnCgroup2(t *testing.T) {
	if c := strings.Fields(read(t, root+"/cgroup.controllers")); !contains(c, "memory") {
		t.Errorf("controllers %q lack memory", c)
	}
	if c := strings.Fields(read(t, root+"/cgroup.subtree_control")); !contains(c, "memory") {
		t.Errorf("memory is not handed to child cgroups: %q", c)
	}
}

func TestPressureIsReadable(t *testing.T) {
	dir := mkcgroup(t)
	for _, f := range []string{"/proc/pressure/memory", "/proc/pressure/io", filepath.Join(dir, "memory.pressure")} {
		if s := read(t, f); !strings.HasPrefix(s, "some avg10=") {
			t.Errorf("%s reads %q", f, s)
		}
	}
}

func TestMultiGenerationalLRU(t *testing.T) {
	on := read(t, "/sys/kernel/mm/lru_gen/enabled") != "0x0000"
	if want := os.Getenv("INSIDE_MGLRU") == "1"; on != want {
		t.Errorf("on = %v, want %v", on, want)
	}
}

func TestReclaimMovesColdMemoryToZswap(t *testing.T) {
	dir := mkcgroup(t)
	startHolder(t, dir)
	if used := number(t, dir, "memory.current"); used < bytes {
		t.Fatalf("the holder uses %d bytes, want at least %d", used, int64(bytes))
	}
	if z := number(t, dir, "memory.zswap.current"); z != 0 {
		t.Fatalf("%d bytes in zswap before any reclaim", z)
	}
	if err := reclaim(dir, strconv.Itoa(bytes/2)); err != nil {
		t.Fatal(err)
	}
	z := number(t, dir, "memory.zswap.current")
	if z < bytes/16 {
		t.Errorf("%d bytes in zswap after reclaiming %d; %d in memory, %d in swap", z, bytes/2, number(t, dir, "memory.current"), number(t, dir, "memory.swap.current"))
	}
	t.Logf("%d bytes of compressed pages in zswap", z)
}

func TestReclaimTakesSwappiness(t *testing.T) {
	if os.Getenv("INSIDE_SWAPPINESS") != "1" {
		t.Skip("memory.reclaim takes swappiness= since Linux 6.11, this is " + read(t, "/proc/sys/kernel/osrelease"))
	}
	dir := mkcgroup(t)
	startHolder(t, dir)
	if err := reclaim(dir, strconv.Itoa(bytes/4)+" swappiness=200"); err != nil {
		t.Fatal(err)
	}
	if swapped := number(t, dir, "memory.swap.current"); swapped < bytes/8 {
		t.Errorf("%d bytes swapped out at swappiness 200", swapped)
	}
}

func TestScratchIsARealFileSystem(t *testing.T) {
	for line := range strings.Lines(read(t, "/proc/mounts") + "\n") {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "/tmp" && f[2] == "ext4" {
			return
		}
	}
	t.Error("/tmp is not on ext4")
}

// reclaim reports an error only for a write that could not begin: having taken less than asked is EAGAIN.
func reclaim(dir, what string) error {
	err := os.WriteFile(filepath.Join(dir, "memory.reclaim"), []byte(what), 0)
	if err != nil && strings.Contains(err.Error(), "resource temporarily unavailable") {
		return nil
	}
	return err
}

func startHolder(t *testing.T, dir string) {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "INSIDE_HOLD="+dir)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the holder says %q (%v)", line, err)
	}
}

func mkcgroup(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(root, "spillway-test-"+strings.ToLower(t.Name()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func number(t *testing.T, dir, file string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(read(t, filepath.Join(dir, file)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}
