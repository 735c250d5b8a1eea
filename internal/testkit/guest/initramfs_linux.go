package guest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/u-root/u-root/pkg/cpio"
)

// File is a file or folder that a guest gets.
type File struct {
	Guest string // absolute path in the guest
	Host  string // path here; a folder comes with everything below it, links not followed
	Data  []byte // the content, instead of Host
	Mode  uint32 // permission bits of Data, 0 for 0644; with Host those of the file
}

// writeInitramfs writes an archive for the kernel to unpack as its root, parents before children, uncompressed:
// under emulation unpacking costs more than loading.
func writeInitramfs(w io.Writer, files []File) error {
	a := archive{w: cpio.Newc.Writer(w), made: map[string]bool{"": true, ".": true}}
	// The kernel opens /dev/console for init before anything is mounted.
	if err := a.put(cpio.CharDev("dev/console", 0o600, 5, 1)); err != nil {
		return err
	}
	for _, f := range files {
		if err := a.add(f); err != nil {
			return fmt.Errorf("guest: pack %s: %w", f.Guest, err)
		}
	}
	if err := cpio.WriteTrailer(a.w); err != nil {
		return fmt.Errorf("guest: pack: %w", err)
	}
	return nil
}

type archive struct {
	w    cpio.RecordWriter
	made map[string]bool
}

func (a *archive) put(r cpio.Record) error {
	if err := a.parents(r.Name); err != nil {
		return err
	}
	return a.w.WriteRecord(r)
}

// parents writes the directories above name that are not there yet; the kernel makes none by itself.
func (a *archive) parents(name string) error {
	dir := path.Dir(name)
	if a.made[dir] {
		return nil
	}
	if err := a.parents(dir); err != nil {
		return err
	}
	a.made[dir] = true
	return a.w.WriteRecord(cpio.Directory(dir, 0o755))
}

func (a *archive) add(f File) error {
	name := strings.TrimPrefix(path.Clean(f.Guest), "/")
	if f.Host == "" {
		mode := f.Mode
		if mode == 0 {
			mode = 0o644
		}
		return a.put(cpio.StaticFile(name, string(f.Data), uint64(mode)))
	}
	return filepath.WalkDir(f.Host, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(f.Host, p)
		if err != nil {
			return err
		}
		return a.addEntry(path.Join(name, filepath.ToSlash(rel)), p, d)
	})
}

func (a *archive) addEntry(name, host string, d os.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	perm := uint64(info.Mode().Perm())
	switch {
	case d.IsDir():
		if a.made[name] {
			return nil
		}
		a.made[name] = true
		return a.put(cpio.Directory(name, perm))
	case d.Type()&os.ModeSymlink != 0:
		target, err := os.Readlink(host)
		if err != nil {
			return err
		}
		return a.put(cpio.Symlink(name, target))
	case d.Type().IsRegular():
		b, err := os.ReadFile(host)
		if err != nil {
			return err
		}
		r := cpio.StaticFile(name, "", perm)
		r.ReaderAt, r.FileSize = bytes.NewReader(b), uint64(len(b))
		return a.put(r)
	}
	return fmt.Errorf("%s is neither file, folder nor link", host)
}
