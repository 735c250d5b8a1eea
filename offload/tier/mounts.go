package tier

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mount is one line of mountinfo, as far as it says what lies under a file.
type mount struct {
	point  string // where it is mounted
	device string // "MAJ:MIN", the st_dev of the files on it
	fstype string
	source string // what was mounted, "/dev/sda2"; anything for filesystems without a device
}

// mountOf returns the mount that holds path (absolute, clean, free of symbolic links). mountinfo instead of
// stat: it names the filesystem too, knows the device behind btrfs's anonymous numbers, and works below a root
// that is a folder.
func mountOf(root, path string) (mount, error) {
	name := filepath.Join(root, "proc/self/mountinfo")
	text, err := os.ReadFile(name)
	if err != nil {
		return mount{}, fmt.Errorf("tier: find mount of %q: %w", path, err)
	}
	var best mount
	for line := range strings.Lines(string(text)) {
		m, ok := parseMount(line)
		// A later mount at the same place covers the earlier one.
		if ok && within(path, m.point) && len(m.point) >= len(best.point) {
			best = m
		}
	}
	if best.point == "" {
		return mount{}, fmt.Errorf("tier: find mount of %q: no mount in %s covers it", path, name)
	}
	return best, nil
}

// parseMount reads "36 35 98:0 /in/fs /mnt rw,noatime shared:1 - ext4 /dev/sda2 rw": six fields, optional ones, "-",
// three more. Any other shape is not ok.
func parseMount(line string) (m mount, ok bool) {
	left, right, ok := strings.Cut(line, " - ")
	if !ok {
		return m, false
	}
	l, r := strings.Fields(left), strings.Fields(right)
	if len(l) < 6 || len(r) < 2 {
		return m, false
	}
	return mount{point: unescape(l[4]), device: l[2], fstype: r[0], source: unescape(r[1])}, true
}

// unescape undoes the kernel's \ooo for blanks, newlines and backslashes in paths.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(c byte) bool { return c >= '0' && c <= '7' }

// deviceOf names the block device that a swap area writes to, as /proc/diskstats spells it; "" when unknown.
func deviceOf(root, path string, file bool) string {
	if !file {
		return baseDevice(root, path)
	}
	m, err := mountOf(root, path)
	if err != nil {
		return ""
	}
	if !strings.HasPrefix(m.device, "0:") {
		text, err := os.ReadFile(filepath.Join(root, "sys/dev/block", m.device, "uevent"))
		if err == nil {
			for line := range strings.Lines(string(text)) {
				if name, ok := strings.CutPrefix(line, "DEVNAME="); ok {
					return strings.TrimSpace(name)
				}
			}
		}
	}
	if strings.HasPrefix(m.source, "/dev/") {
		return baseDevice(root, m.source)
	}
	return ""
}

// baseDevice follows links such as /dev/mapper/vg-swap → ../dm-1.
func baseDevice(root, path string) string {
	real, err := filepath.EvalSymlinks(filepath.Join(root, path))
	if err != nil {
		real = path
	}
	return filepath.Base(real)
}
