package swap_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
	"github.com/spillway-io/spillway/internal/proc"
	"github.com/spillway-io/spillway/internal/swap"
	"github.com/spillway-io/spillway/internal/testkit"
)

// diskDir is a directory on a disk: /tmp may be a tmpfs.
func diskDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "spillway-test-swap-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func mustMake(t *testing.T, path string, size int64) {
	t.Helper()
	err := swap.MakeFile(path, size)
	if errkind.Of(err) == errkind.Unsupported {
		t.Skipf("needs a disk filesystem at /var/tmp: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func area(t *testing.T, path string) (proc.SwapArea, bool) {
	t.Helper()
	areas, err := proc.ReadSwaps("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range areas {
		if a.Path == path {
			return a, true
		}
	}
	return proc.SwapArea{}, false
}

func TestMakeFileWritesAHeaderAndAllBlocks(t *testing.T) {
	page := int64(os.Getpagesize())
	path := filepath.Join(diskDir(t), "swap file")
	mustMake(t, path, 1<<20+123)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != 1<<20 {
		t.Fatalf("%d bytes, want the size rounded down to pages", len(b))
	}
	if got := string(b[page-10 : page]); got != "SWAPSPACE2" {
		t.Errorf("signature %q", got)
	}
	if v, last, bad := binary.NativeEndian.Uint32(b[1024:]), binary.NativeEndian.Uint32(b[1028:]), binary.NativeEndian.Uint32(b[1032:]); v != 1 || int64(last) != 1<<20/page-1 || bad != 0 {
		t.Errorf("version %d, last page %d, bad pages %d", v, last, bad)
	}
	if bytes.Equal(b[1036:1052], make([]byte, 16)) {
		t.Error("no uuid")
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// A pipe must be refused, not waited for.
func TestFormatRefusesWhatIsNoBlockDevice(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("precious"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, file} {
		if err := swap.Format(path, 1<<20); err == nil {
			t.Errorf("%s: formatted", path)
		}
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Errorf("the file now holds %d bytes", len(b))
	}
}

func TestMakeFileRefusesAndLeavesNothing(t *testing.T) {
	dir := diskDir(t)
	existing := filepath.Join(dir, "existing")
	if err := os.WriteFile(existing, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, path string
		size       int64
		kind       errkind.Kind
	}{
		{"existing file", existing, 1 << 20, errkind.Invalid},
		{"dangling link", filepath.Join(dir, "dangling"), 1 << 20, errkind.Invalid},
		{"relative path", "swapfile", 1 << 20, errkind.Invalid},
		{"too small", filepath.Join(dir, "small"), 4096, errkind.Invalid},
		{"larger than the disk", filepath.Join(dir, "large"), 1 << 43, errkind.Exhausted},
		{"larger than a header can say", filepath.Join(dir, "huge"), 1 << 62, errkind.Invalid},
		{"tmpfs", "/dev/shm/spillway-test-swap", 1 << 20, errkind.Unsupported},
		{"proc", "/proc/spillway-test-swap", 1 << 20, errkind.Unsupported},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := swap.MakeFile(tc.path, tc.size)
			if err == nil || errkind.Of(err) != tc.kind {
				t.Errorf("got %v (%v), want kind %v", err, errkind.Of(err), tc.kind)
			}
		})
	}
	if b, _ := os.ReadFile(existing); string(b) != "precious" {
		t.Errorf("existing file now holds %d bytes", len(b))
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 2 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

func TestSwapFileOnAndOff(t *testing.T) {
	probe.Need(t, probe.SwapOn)
	testkit.HostLock(t)
	path := filepath.Join(diskDir(t), "swap")
	mustMake(t, path, 8<<20)
	if err := swap.Off(path); errkind.Of(err) != errkind.NotFound {
		t.Errorf("off before on: %v, want not found", err)
	}
	if err := swap.On(path, 7); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { swap.Off(path) })
	a, ok := area(t, path)
	if !ok || a.Priority != 7 || !a.File || a.Size != 8<<20-int64(os.Getpagesize()) {
		t.Errorf("area %+v, %v", a, ok)
	}
	if err := swap.On(path, 7); errkind.Of(err) != errkind.Unavailable {
		t.Errorf("on twice: %v, want unavailable", err)
	}
	if err := swap.Off(path); err != nil {
		t.Fatal(err)
	}
	if _, ok := area(t, path); ok {
		t.Error("still on")
	}
}

func TestOnExplainsWhatIsNoSwap(t *testing.T) {
	probe.Need(t, probe.SwapOn)
	path := filepath.Join(diskDir(t), "zeros")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := swap.On(path, -1); errkind.Of(err) != errkind.Unsupported || errkind.HintOf(err) == "" {
		t.Errorf("on without header: %v", err)
	}
	if err := swap.On(path+"-none", -1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("on without file: %v", err)
	}
	if err := swap.On(path, 1<<15); errkind.Of(err) != errkind.Invalid {
		t.Errorf("priority out of range: %v", err)
	}
	if err := swap.Format(path, 1<<20); errkind.Of(err) != errkind.Invalid {
		t.Errorf("format of a file: %v, want invalid", err)
	}
}

func TestZramAsSwap(t *testing.T) {
	probe.Need(t, probe.Zram)
	testkit.HostLock(t)
	dev, err := swap.ZramAdd("/")
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("needs zram-control: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := swap.ZramRemove("/", dev); err != nil {
			t.Error(err)
		}
	})
	if err := swap.ZramSetup("/", dev, 16<<20, "no-such-algorithm"); errkind.Of(err) != errkind.Invalid {
		t.Errorf("unknown algorithm: %v", err)
	}
	algorithms, err := os.ReadFile(fmt.Sprintf("/sys/block/zram%d/comp_algorithm", dev))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(algorithms), " ") // kernels differ in which they have
	if err := swap.ZramSetup("/", dev, 16<<20, strings.Trim(first, "[]\n")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := swap.ZramReset("/", dev); err != nil {
			t.Error(err)
		}
	})
	if err := swap.ZramSetup("/", dev, 16<<20, ""); errkind.Of(err) != errkind.Unavailable {
		t.Errorf("set up twice: %v, want unavailable", err)
	}
	path := swap.ZramDevice("/", dev)
	if err := swap.Format(path, 16<<20); err != nil {
		t.Fatal(err)
	}
	if err := swap.On(path, 5); err != nil {
		t.Fatal(err)
	}
	if _, ok := area(t, path); !ok {
		t.Error("not among the swap areas")
	}
	orig, compr, used, err := swap.ZramStat("/", dev)
	if err != nil || orig < int64(os.Getpagesize()) || compr <= 0 || used < compr {
		t.Errorf("stat %d, %d, %d, %v; want at least the header's page", orig, compr, used, err)
	}
	if err := swap.Off(path); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestZramUnusedTakesOnlyDisksizeZero(t *testing.T) {
	root := t.TempDir()
	write(t, root, "sys/block/zram0/disksize", "4096\n")
	write(t, root, "sys/block/zramX/disksize", "0\n")
	write(t, root, "sys/block/vda/size", "1\n")
	if dev, ok, err := swap.ZramUnused(root); ok || err != nil {
		t.Errorf("found %d, %v", dev, err)
	}
	write(t, root, "sys/block/zram3/disksize", "0\n")
	if dev, ok, err := swap.ZramUnused(root); dev != 3 || !ok || err != nil {
		t.Errorf("found %d, %v, %v; want zram3", dev, ok, err)
	}
	if _, err := swap.ZramAdd(root); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("add without control: %v", err)
	}
	write(t, root, "sys/block/zram3/comp_algorithm", "lzo-rle [lz4] zstd\n")
	if err := swap.ZramSetup(root, 3, 1<<20, "lz"); errkind.Of(err) != errkind.Invalid {
		t.Errorf("part of a name: %v, want invalid", err)
	}
	if err := swap.ZramSetup(root, 3, 1<<20, "lz4"); err != nil {
		t.Error(err)
	}
	if size, err := swap.ZramSize(root, 3); size != 1<<20 || err != nil {
		t.Errorf("size %d, %v", size, err)
	}
	write(t, root, "sys/block/zram3/mm_stat", "12\n")
	if _, _, _, err := swap.ZramStat(root, 3); err == nil {
		t.Error("short mm_stat accepted")
	}
}

func TestReadZswap(t *testing.T) {
	root := t.TempDir()
	if _, err := swap.ReadZswap(root); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without zswap: %v", err)
	}
	dir := "sys/module/zswap/parameters/"
	write(t, root, dir+"enabled", "Y\n")
	write(t, root, dir+"compressor", "zstd\n")
	write(t, root, dir+"zpool", "zsmalloc\n")
	write(t, root, dir+"max_pool_percent", "20\n")
	z, err := swap.ReadZswap(root)
	want := swap.Zswap{Dir: filepath.Join(root, dir), Enabled: true, Compressor: "zstd", Zpool: "zsmalloc", MaxPoolPercent: 20}
	if err != nil || z != want {
		t.Errorf("got %+v, %v; want %+v", z, err, want)
	}
	write(t, root, dir+"accept_threshold_percent", "90\n")
	write(t, root, dir+"shrinker_enabled", "N\n")
	if z, err = swap.ReadZswap(root); err != nil || z.AcceptThreshold != 90 || !z.HasAcceptThreshold || z.Shrinker || !z.HasShrinker {
		t.Errorf("got %+v, %v", z, err)
	}
	write(t, root, dir+"enabled", "maybe\n")
	if _, err = swap.ReadZswap(root); err == nil || !strings.Contains(err.Error(), "maybe") {
		t.Errorf("nonsense accepted: %v", err)
	}
}

func TestZswapOfThisKernel(t *testing.T) {
	probe.Need(t, probe.Zswap)
	z, err := swap.ReadZswap("/")
	if err != nil || z.Compressor == "" || z.MaxPoolPercent < 1 || z.MaxPoolPercent > 100 {
		t.Errorf("got %+v, %v", z, err)
	}
}
