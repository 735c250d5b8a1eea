package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/u-root/u-root/pkg/kmodule"
	"github.com/u-root/u-root/pkg/libinit"
	"github.com/u-root/u-root/pkg/mount"

	"github.com/spillway-io/spillway/internal/swap"
	"github.com/spillway-io/spillway/internal/testkit/guest/wire"
)

const cgroups = "/sys/fs/cgroup"

func mountAll() error {
	for _, m := range []struct{ dev, path, kind, data string }{
		{"proc", "/proc", "proc", ""},
		{"sys", "/sys", "sysfs", ""},
		{"dev", "/dev", "devtmpfs", ""},
		{"shm", "/dev/shm", "tmpfs", ""},
		{"run", "/run", "tmpfs", "mode=755"},
		{"tmp", "/tmp", "tmpfs", "mode=1777"},
		{"tmp", "/var/tmp", "tmpfs", "mode=1777"},
		{"cgroup2", cgroups, "cgroup2", "nsdelegate,memory_recursiveprot"},
		{"tracefs", "/sys/kernel/tracing", "tracefs", ""},
	} {
		if err := os.MkdirAll(m.path, 0o755); err != nil {
			return err
		}
		if _, err := mount.Mount(m.dev, m.path, m.kind, m.data, 0); err != nil {
			return err
		}
	}
	return nil
}

// machine is what prepare made that can change between programs.
type machine struct {
	swaps []string // devices
	zswap bool     // is on whenever swap is
	on    bool
}

// offloads switches the plan's swap and zswap on or off.
func (m *machine) offloads(on bool) error {
	if on == m.on {
		return nil
	}
	// Before swap is on: a page swapped out earlier would miss zswap.
	if err := setFlag("/sys/module/zswap/parameters/enabled", on && m.zswap); err != nil {
		return err
	}
	for _, dev := range m.swaps {
		err := error(nil)
		if on {
			err = swap.On(dev, -1)
		} else {
			err = swap.Off(dev)
		}
		if err != nil {
			return fmt.Errorf("init: %w", err)
		}
	}
	m.on = on
	return nil
}

// prepare makes the machine what the plan says; swap is formatted, it and zswap are not yet on.
func (m *machine) prepare(plan wire.Plan) error {
	for _, m := range plan.Modules {
		if err := loadModule(m); err != nil {
			return err
		}
	}
	if err := delegate(); err != nil {
		return err
	}
	libinit.NetInit() // loopback up
	if err := addPrograms(); err != nil {
		return err
	}
	if err := setFlag("/sys/module/zswap/parameters/enabled", false); err != nil {
		return err
	}
	if err := setFlag("/sys/kernel/mm/lru_gen/enabled", plan.MGLRU); err != nil {
		return err
	}
	for _, d := range plan.Disks {
		if err := m.useDisk(d); err != nil {
			return err
		}
	}
	if plan.ZramSwap > 0 {
		return m.zramSwap(plan.ZramSwap)
	}
	return nil
}

// addPrograms lays out busybox under its many names.
func addPrograms() error {
	if exists(wire.BusyboxPath) {
		said, err := exec.Command(wire.BusyboxPath, "--install", "-s", filepath.Dir(wire.BusyboxPath)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("init: install busybox: %w: %s", err, said)
		}
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("init: load module: %w", err)
	}
	defer f.Close()
	if err := kmodule.FileInit(f, "", 0); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("init: load module %s: %w", path, err)
	}
	return nil
}

// delegate moves us out of the root cgroup, as systemd would, and hands every controller to its children.
func delegate() error {
	scope := filepath.Join(cgroups, "init.scope")
	if err := os.Mkdir(scope, 0o755); err != nil {
		return fmt.Errorf("init: make cgroup: %w", err)
	}
	for _, pid := range []string{"1", strconv.Itoa(os.Getpid())} {
		if err := os.WriteFile(filepath.Join(scope, "cgroup.procs"), []byte(pid), 0); err != nil {
			return fmt.Errorf("init: join cgroup: %w", err)
		}
	}
	for _, c := range strings.Fields(firstLine(filepath.Join(cgroups, "cgroup.controllers"))) {
		if err := os.WriteFile(filepath.Join(cgroups, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("init: enable controller %s: %w", c, err)
		}
	}
	return nil
}

// setFlag fails when the kernel lacks a feature that is to be on; one that is to be off may be missing.
func setFlag(path string, on bool) error {
	v := "N"
	if on {
		v = "Y"
	}
	err := os.WriteFile(path, []byte(v), 0)
	if errors.Is(err, fs.ErrNotExist) && !on {
		return nil
	}
	if err != nil {
		return fmt.Errorf("init: set %s to %s: %w", path, v, err)
	}
	return nil
}

func (m *machine) useDisk(d wire.Disk) error {
	dev, err := findDisk("/sys/block", d.Serial)
	if err != nil {
		return err
	}
	switch {
	case d.Swap:
		if err := swap.Format(dev, d.Size); err != nil {
			return fmt.Errorf("init: %w", err)
		}
		m.swaps = append(m.swaps, dev)
	case d.Mount != "":
		if err := os.MkdirAll(d.Mount, 0o755); err != nil {
			return fmt.Errorf("init: mount disk: %w", err)
		}
		if _, err := mount.Mount(dev, d.Mount, "ext4", "", 0); err != nil {
			return fmt.Errorf("init: %w", err)
		}
		return os.Chmod(d.Mount, 0o1777)
	}
	return nil
}

func findDisk(dir, serial string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "vd*", "serial"))
	if err != nil {
		return "", fmt.Errorf("init: find disk %s: %w", serial, err)
	}
	for _, f := range found {
		if firstLine(f) == serial {
			return "/dev/" + filepath.Base(filepath.Dir(f)), nil
		}
	}
	return "", fmt.Errorf("init: find disk %s among %d virtio disks: %w", serial, len(found), fs.ErrNotExist)
}

func (m *machine) zramSwap(size int64) error {
	dev, ok, err := swap.ZramUnused("/")
	if err == nil && !ok {
		dev, err = swap.ZramAdd("/")
	}
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	if err := swap.ZramSetup("/", dev, size, ""); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	path := swap.ZramDevice("/", dev)
	if err := swap.Format(path, size); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	m.swaps = append(m.swaps, path)
	return nil
}

func readPlan(path string) (wire.Plan, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return wire.Plan{}, fmt.Errorf("init: read plan: %w", err)
	}
	var p wire.Plan
	if err := json.Unmarshal(b, &p); err != nil {
		return wire.Plan{}, fmt.Errorf("init: read plan: %w", err)
	}
	return p, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// firstLine is empty when path cannot be read: what it is for is then missing from the report.
func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

func uptime() time.Duration {
	up, _, _ := strings.Cut(firstLine("/proc/uptime"), " ")
	d, err := time.ParseDuration(up + "s")
	if err != nil {
		return 0
	}
	return d
}
