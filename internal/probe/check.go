package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spillway-io/spillway/internal/proc"
)

// Check reports whether the machine whose files lie below root ("/" in production) has f: nil, a *Missing,
// or another error when it cannot tell.
func Check(root string, f Feature) error {
	switch f {
	case Root:
		if os.Geteuid() != 0 {
			return &Missing{Feature: "root", Do: "run as root, for example with sudo"}
		}
		return nil
	case MemoryV1, MemoryV2, MemoryReclaim:
		return checkMemory(root, f)
	case PSI:
		return checkPSI(root)
	case Zswap:
		return checkDir(root, "sys/module/zswap/parameters", &Missing{Feature: "zswap", Since: "3.11",
			Do: "use a kernel built with CONFIG_ZSWAP"})
	case Zram:
		return checkDir(root, "sys/class/zram-control", &Missing{Feature: "zram", Since: "4.2", Do: "load it: modprobe zram"})
	case SwapOn:
		if err := Check(root, Root); err != nil {
			return err
		}
		return checkFile(root, "proc/swaps", &Missing{Feature: "swap", Do: "use a kernel built with CONFIG_SWAP"})
	case QEMU:
		return checkProgram(root, "qemu-system-"+qemuArch(), "qemu-system")
	case Chromium:
		return checkProgram(root, "chromium", "chromium")
	case Redis:
		return checkProgram(root, "redis-server", "redis-server")
	}
	return fmt.Errorf("probe: no such feature %q", string(f))
}

func qemuArch() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return runtime.GOARCH
}

func checkMemory(root string, f Feature) error {
	mounts, err := proc.ReadMounts(root)
	if err != nil {
		return fmt.Errorf("probe: look for the memory controller: %w", err)
	}
	for _, m := range mounts {
		switch {
		case f == MemoryV1 && m.Type == "cgroup" && m.HasOption("memory"):
			return nil
		case f != MemoryV1 && m.Type == "cgroup2":
			dir := filepath.Join(root, m.Dir)
			b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
			if err != nil || !slices.Contains(strings.Fields(string(b)), "memory") {
				continue
			}
			if f == MemoryV2 {
				return nil
			}
			return checkFile(dir, "memory.reclaim", &Missing{Feature: "memory.reclaim", Since: "5.19",
				Do: "use Linux 5.19 or newer"})
		}
	}
	switch f {
	case MemoryV1:
		return &Missing{Feature: "the v1 memory controller", Do: "boot with systemd.unified_cgroup_hierarchy=0 (kernels with CONFIG_MEMCG_V1)"}
	case MemoryV2:
		return &Missing{Feature: "the cgroup v2 memory controller", Since: "4.5", Do: "boot with cgroup_no_v1=memory systemd.unified_cgroup_hierarchy=1"}
	}
	return &Missing{Feature: "memory.reclaim", Since: "5.19", Do: "use cgroup v2 on Linux 5.19 or newer"}
}

// checkPSI reads, because a kernel booted without PSI may still list the file and refuse the read.
func checkPSI(root string) error {
	_, err := os.ReadFile(filepath.Join(root, "proc/pressure/memory"))
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errors.ErrUnsupported) {
		return &Missing{Feature: "PSI", Since: "4.20", Do: "boot the kernel with psi=1"}
	}
	return fmt.Errorf("probe: read pressure: %w", err)
}

func checkDir(root, name string, missing *Missing) error {
	info, err := os.Stat(filepath.Join(root, name))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir():
		return missing
	case err != nil:
		return fmt.Errorf("probe: %w", err)
	}
	return nil
}

func checkFile(root, name string, missing *Missing) error {
	_, err := os.Stat(filepath.Join(root, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing
	case err != nil:
		return fmt.Errorf("probe: %w", err)
	}
	return nil
}

// checkProgram looks along PATH and in the places Debian puts programs for root, below root.
func checkProgram(root, name, pkg string) error {
	dirs := append(filepath.SplitList(os.Getenv("PATH")), "/usr/bin", "/usr/sbin", "/usr/local/bin")
	for _, dir := range dirs {
		info, err := os.Stat(filepath.Join(root, dir, name))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return nil
		}
	}
	return &Missing{Feature: name, Do: "install it: apt-get install " + pkg}
}
