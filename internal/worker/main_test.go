package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/sys"
)

const mib = 1 << 20

// The test binary is also the worker (`EXE worker --state-dir DIR`, as in production), the daemon that is killed (`EXE
// daemon`, `EXE kdamond`), and the workload that must survive (`EXE reread FILE`, `EXE once FILE`, `EXE anon BYTES`,
// `EXE idle`).
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case "worker":
		err = Main(context.Background(), os.Stdin, os.Stdout, MainConfig{
			StateDir: os.Args[3], Root: os.Getenv("SPILLWAY_TEST_ROOT"),
			Journal: journal.Config{Write: faultyWrite(os.Getenv("SPILLWAY_TEST_WRITES"))},
		})
	case "daemon":
		err = doomedDaemon()
	case "kdamond":
		err = kdamondDaemon()
	case "reread":
		err = reread(os.Args[2])
	case "once":
		err = once(os.Args[2])
	case "anon":
		err = anon(os.Args[2])
	case "idle":
		fmt.Println("ready")
		_, err = io.Copy(io.Discard, os.Stdin)
	default:
		err = fmt.Errorf("unknown role %q", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// faultyWrite lets n journal writes pass, after which the disk is full. "" never fails.
func faultyWrite(n string) func(*os.File, []byte) (int, error) {
	if n == "" {
		return nil
	}
	var left atomic.Int64
	if v, err := strconv.ParseInt(n, 10, 64); err == nil {
		left.Store(v)
	}
	return func(f *os.File, b []byte) (int, error) {
		if left.Add(-1) < 0 {
			k, _ := f.Write(b[:len(b)/2])
			return k, &os.PathError{Op: "write", Path: f.Name(), Err: sys.ENOSPC}
		}
		return f.Write(b)
	}
}

// reread keeps the pages of a file coming back into the page cache of its cgroup.
func reread(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	go func() { // the test's end of the pipe closed
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	buf := make([]byte, mib)
	for first := true; ; first = false {
		for off := int64(0); ; off += mib {
			if _, err := f.ReadAt(buf, off); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
		}
		if first {
			fmt.Println("ready")
		}
		<-time.After(5 * time.Millisecond)
	}
}

// once brings a file into the page cache of its cgroup and leaves it there.
func once(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(io.Discard, f); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func anon(size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	b, err := sys.MmapAnon(n)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += 8 { // compressible, no two pages equal
		b[i], b[i+1], b[i+2] = byte(i>>12), byte(i>>20), byte(i>>3)
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// bed is a cgroup of this test on the real host with a workload in it.
type bed struct {
	h     cgroup.Hierarchy
	path  string // below the memory mount
	dir   string
	inode uint64
}

func newBed(t testing.TB, name string) *bed {
	t.Helper()
	probe.Need(t, probe.Root)
	probe.Need(t, probe.MemoryV1)
	h, err := cgroup.Discover("/")
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{h: h, path: fmt.Sprintf("/spillway-test-worker-%d-%s", os.Getpid(), name)}
	b.dir = filepath.Join(h.Memory, b.path)
	if err := os.Mkdir(b.dir, 0o755); errors.Is(err, os.ErrPermission) || errors.Is(err, sys.EROFS) {
		t.Skipf("needs a writable cgroup file system: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := emptyAndRemove(context.Background(), b.dir, true); err != nil {
			t.Error(err)
		}
	})
	if b.inode, _, err = inodeAt(b.dir); err != nil {
		t.Fatal(err)
	}
	return b
}

// role starts this binary in another role, inside the cgroup at dir when dir is not empty, and waits for its first
// line. It is killed when the test ends.
func role(t testing.TB, dir string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	if dir != "" { // the shell moves itself before it becomes the role, so that every page is charged there
		cmd = exec.Command("/bin/sh", append([]string{"-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, dir, exe}, args...)...)
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("role %v: %v", args, err)
	}
	return cmd, strings.TrimSpace(line)
}

// dataFile makes a file on a disk whose pages the workload reads.
func dataFile(t testing.TB, size int) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "spillway-test-worker-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "data")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), sys.DropFileCache(f)); err != nil {
		t.Fatal(err)
	}
	return path
}

func stateDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func startWorker(t testing.TB, dir string) *Client {
	t.Helper()
	probe.Need(t, probe.Root)
	c, err := Start(t.Context(), Config{Exe: testExe(t), StateDir: dir, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		c.Close(ctx)
	})
	return c
}

func testExe(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

func mustDo(t testing.TB, c *Client, ch Change) Done {
	t.Helper()
	d, err := c.Do(t.Context(), ch)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustClose(t testing.TB, c *Client) {
	t.Helper()
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func value(t testing.TB, path string) string {
	t.Helper()
	v, _, err := readKnob(path)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func setValue(t testing.TB, path, v string) {
	t.Helper()
	if err := writeKnob(path, v); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// journalEmpty fails the test when a change is still on record.
func journalEmpty(t testing.TB, dir string) {
	t.Helper()
	entries, report, err := journal.Read(dir)
	if err != nil || !report.Clean() || len(entries) != 0 {
		t.Errorf("journal: %+v, %+v, %v; want it empty", entries, report, err)
	}
}
