package guest

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ulikunitz/xz"
)

// module is one kernel module, uncompressed.
type module struct {
	name string
	code []byte
}

// closure returns the named modules and all they need, each after what it depends on. Built-in ones are left
// out. An unpacked package has no modules.dep (depmod writes it at installation), so the dependencies come from
// the modules themselves.
func closure(dir string, names []string) ([]module, error) {
	if len(names) == 0 {
		return nil, nil
	}
	c := collector{files: map[string]string{}, seen: map[string]bool{}}
	if err := c.index(dir); err != nil {
		return nil, err
	}
	for _, n := range names {
		if err := c.add(n); err != nil {
			return nil, err
		}
	}
	return c.order, nil
}

type collector struct {
	files map[string]string // module name to path, "" for a built-in one
	seen  map[string]bool
	order []module
}

// moduleName turns a path into the name the kernel uses: no suffix, underscores only.
func moduleName(path string) string {
	base, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(base, "-", "_")
}

func (c *collector) index(dir string) error {
	builtin, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return fmt.Errorf("guest: list built-in modules: %w", err)
	}
	for line := range strings.Lines(string(builtin)) {
		c.files[moduleName(strings.TrimSpace(line))] = ""
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && (strings.HasSuffix(path, ".ko") || strings.HasSuffix(path, ".ko.xz")) {
			c.files[moduleName(path)] = path
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("guest: list modules: %w", err)
	}
	return nil
}

func (c *collector) add(name string) error {
	name = moduleName(name)
	if c.seen[name] {
		return nil
	}
	c.seen[name] = true
	path, ok := c.files[name]
	if !ok {
		return fmt.Errorf("guest: find module %s: %w", name, fs.ErrNotExist)
	}
	if path == "" {
		return nil
	}
	code, err := readModule(path)
	if err != nil {
		return fmt.Errorf("guest: read module %s: %w", name, err)
	}
	deps, err := dependsOn(code)
	if err != nil {
		return fmt.Errorf("guest: read module %s: %w", name, err)
	}
	for _, d := range deps {
		if err := c.add(d); err != nil {
			return err
		}
	}
	c.order = append(c.order, module{name, code})
	return nil
}

func readModule(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !strings.HasSuffix(path, ".xz") {
		return io.ReadAll(f)
	}
	r, err := xz.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// dependsOn reads the hard dependencies out of a module's .modinfo section: strings that end in NUL.
func dependsOn(code []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, errors.New("no .modinfo section")
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for field := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}
