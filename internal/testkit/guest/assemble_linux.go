package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spillway-io/spillway/internal/testkit/guest/wire"
)

// initPackage is the guest's PID 1.
const initPackage = "github.com/spillway-io/spillway/internal/testkit/guest/init"

// runDir makes the folder for one run and removes those that a killed run left. The caller holds guest.lock.
func runDir(dir string) (string, func(), error) {
	runs := filepath.Join(dir, "run")
	if err := os.RemoveAll(runs); err != nil {
		return "", nil, fmt.Errorf("guest: clean up after an earlier run: %w", err)
	}
	if err := os.Mkdir(runs, 0o700); err != nil {
		return "", nil, fmt.Errorf("guest: make run folder: %w", err)
	}
	return runs, func() { os.RemoveAll(runs) }, nil
}

// assemble compiles what runs in the guest and lays out its files and disks below work.
func assemble(ctx context.Context, c Config, im image, work string, binaries []Binary) (*machine, error) {
	m := &machine{
		accel: tcg, cpus: c.CPUs, memMiB: c.MemMiB, cmdline: c.Cmdline,
		vmlinuz: im.vmlinuz, initramfs: filepath.Join(work, "initramfs.cpio"),
	}
	plan := wire.Plan{Zswap: c.Zswap, MGLRU: c.MGLRU}
	files := append([]File{
		{Guest: "/etc/passwd", Data: []byte("root:x:0:0:root:/root:/bin/sh\n")},
		{Guest: "/etc/group", Data: []byte("root:x:0:\n")},
		{Guest: "/etc/hosts", Data: []byte("127.0.0.1 localhost\n")},
		{Guest: "/root/.guest", Data: []byte("the home of a test guest\n")},
	}, c.Files...)
	if im.busybox != "" {
		files = append(files, File{Guest: wire.BusyboxPath, Host: im.busybox})
	}

	mods, err := closure(im.modules, modulesFor(c))
	if err != nil {
		return nil, err
	}
	for _, mod := range mods {
		p := "/lib/modules/" + mod.name + ".ko"
		files = append(files, File{Guest: p, Data: mod.code})
		plan.Modules = append(plan.Modules, p)
	}
	if err := m.addDisks(ctx, c, &plan, work); err != nil {
		return nil, err
	}
	for i, b := range binaries {
		prog, more, err := compile(ctx, i, b, c.Timeout, work)
		if err != nil {
			return nil, err
		}
		plan.Programs = append(plan.Programs, prog)
		files = append(files, more...)
	}
	initPath := filepath.Join(work, "init")
	if err := goBuild(ctx, "build", initPath, initPackage); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("guest: encode plan: %w", err)
	}
	files = append(files, File{Guest: "/init", Host: initPath}, File{Guest: wire.PlanPath, Data: encoded})
	return m, m.writeInitramfs(files)
}

func (m *machine) writeInitramfs(files []File) error {
	f, err := os.OpenFile(m.initramfs, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("guest: write initramfs: %w", err)
	}
	if err := writeInitramfs(f, files); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("guest: write initramfs: %w", err)
	}
	return nil
}

// modulesFor names only what c uses: each costs boot time under emulation.
func modulesFor(c Config) []string {
	var names []string
	if c.Swap == SwapDisk || len(c.Disks) > 0 {
		names = append(names, "virtio_pci", "virtio_blk")
	}
	for _, d := range c.Disks {
		if d.Mount != "" {
			// ext4 asks the crypto API for crc32c by that name, which is no dependency its file would show.
			names = append(names, "crc32c_generic", "ext4")
			break
		}
	}
	if c.Swap == SwapZram {
		names = append(names, "zram")
	}
	return append(names, c.Modules...)
}

func (m *machine) addDisks(ctx context.Context, c Config, plan *wire.Plan, work string) error {
	disks := c.Disks
	switch c.Swap {
	case NoSwap:
	case SwapDisk:
		disks = append([]Disk{{SizeMiB: c.SwapMiB}}, disks...)
	case SwapZram:
		plan.ZramSwap = int64(c.SwapMiB) << 20
	default:
		return fmt.Errorf("guest: no such swap %q", c.Swap)
	}
	for i, d := range disks {
		serial := "disk" + strconv.Itoa(i)
		path := filepath.Join(work, serial)
		size := int64(d.SizeMiB) << 20
		if err := makeDisk(ctx, path, size, d.Mount != ""); err != nil {
			return err
		}
		m.disks = append(m.disks, disk{path: path, serial: serial})
		plan.Disks = append(plan.Disks, wire.Disk{
			Serial: serial, Size: size, Mount: d.Mount, Swap: i == 0 && c.Swap == SwapDisk,
		})
	}
	return nil
}

// makeDisk makes a sparse disk image, with ext4 on it if asked: files of the initramfs are not evictable, so
// whatever tests page cache or swap files needs a real file system.
func makeDisk(ctx context.Context, path string, size int64, ext4 bool) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("guest: make disk: %w", err)
	}
	err = f.Truncate(size)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("guest: make disk: %w", err)
	}
	if !ext4 {
		return nil
	}
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		mkfs = "/sbin/mkfs.ext4" // not on every user's PATH
	}
	_, err = command(ctx, "", mkfs, "-q", "-F", "-m", "0", "-O", "^has_journal", path)
	return err
}

// goBuild compiles a static program; verb is "build" or "test -c".
func goBuild(ctx context.Context, verb, out, pkg string) error {
	args := append(strings.Fields(verb), "-ldflags=-s -w", "-o", out, pkg)
	c := exec.CommandContext(ctx, "go", args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("guest: compile %s: %w:\n%s", pkg, err, said)
	}
	if _, err := os.Stat(out); err != nil {
		return fmt.Errorf("guest: compile %s: it has no tests: %w", pkg, err)
	}
	return nil
}
