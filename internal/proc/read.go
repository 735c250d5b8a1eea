package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func readFile(root, name string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, fmt.Errorf("proc: %w", err)
	}
	return b, nil
}

// ReadMeminfo reads <root>/proc/meminfo once. Use a Reader for periodic reading.
func ReadMeminfo(root string) (m Meminfo, err error) {
	b, err := readFile(root, "proc/meminfo")
	if err != nil {
		return m, err
	}
	err = ParseMeminfo(b, &m)
	return m, err
}

// ReadVmstat reads <root>/proc/vmstat once. Use a Reader for periodic reading.
func ReadVmstat(root string) (v Vmstat, err error) {
	b, err := readFile(root, "proc/vmstat")
	if err != nil {
		return v, err
	}
	err = ParseVmstat(b, &v)
	return v, err
}

// ReadSwaps reads <root>/proc/swaps: every active swap area, none when swap is off.
func ReadSwaps(root string) ([]SwapArea, error) {
	b, err := readFile(root, "proc/swaps")
	if err != nil {
		return nil, err
	}
	return ParseSwaps(b)
}

// ReadDisks reads <root>/proc/diskstats.
func ReadDisks(root string) ([]Disk, error) {
	b, err := readFile(root, "proc/diskstats")
	if err != nil {
		return nil, err
	}
	return ParseDisks(b)
}

// KernelRelease is the running kernel's release, for example "6.1.0-30-amd64", below root.
func KernelRelease(root string) (string, error) {
	b, err := readFile(root, "proc/sys/kernel/osrelease")
	if err != nil {
		return "", err
	}
	release := strings.TrimSpace(string(b))
	if release == "" {
		return "", fmt.Errorf("proc: kernel release is empty: %w", ErrFormat)
	}
	return release, nil
}

// Hostname is the name the kernel goes by in this UTS namespace, below root.
func Hostname(root string) (string, error) {
	b, err := readFile(root, "proc/sys/kernel/hostname")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}
