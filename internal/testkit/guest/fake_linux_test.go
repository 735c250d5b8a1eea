package guest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// fakePrograms puts shell scripts of the given names first on PATH.
func fakePrograms(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, body := range scripts {
		writeFile(t, filepath.Join(dir, name), "#!/bin/sh\n"+body+"\n", 0o755)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func writeFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// fakeModule is the least ELF file with a .modinfo section.
func fakeModule(t *testing.T, modinfo string) string {
	t.Helper()
	const header, names = 64, "\x00.modinfo\x00.shstrtab\x00"
	var b bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	h := elf.Header64{
		Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1,
		Shoff: uint64(header + len(modinfo) + len(names)), Ehsize: header, Shentsize: 64, Shnum: 3, Shstrndx: 2,
	}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	put(h)
	b.WriteString(modinfo + names)
	put(elf.Section64{})
	put(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: header, Size: uint64(len(modinfo))})
	put(elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(header + len(modinfo)), Size: uint64(len(names))})
	return b.String()
}
