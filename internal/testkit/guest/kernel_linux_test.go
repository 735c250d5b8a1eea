package guest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ulikunitz/xz"
)

// Scripts that stand for apt and dpkg: a package list is there once "update" ran, if $NEEDS_UPDATE is set.
var fakeApt = map[string]string{
	"apt-cache": `[ -z "$NEEDS_UPDATE" ] || [ -e "$NEEDS_UPDATE" ] || { echo "E: No packages found" >&2; exit 100; }
printf 'Package: x\nDepends: initramfs-tools, linux-image-6.1.0-57-amd64 (= 6.1.192-3), kmod\n'`,
	"apt-get": `for a; do last=$a; done
case " $* " in
*" update "*) [ -z "$BROKEN" ] || { echo "Err: mirror"; echo "E: no network" >&2; exit 100; }; : >"$NEEDS_UPDATE" ;;
*" download linux-image-6.1.0-57-amd64 "*) : >linux-image.deb; echo "$last" >>"$LOG" ;;
*) echo "E: unexpected $*" >&2; exit 100 ;;
esac`,
	"dpkg-deb": `mkdir -p "$3/boot" "$3/lib/modules/6.1.0-57-amd64"; : >"$3/boot/vmlinuz-6.1.0-57-amd64"`,
}

func TestFetchKeepsTheKernelThatAptNames(t *testing.T) {
	fakePrograms(t, fakeApt)
	log := filepath.Join(t.TempDir(), "log")
	t.Setenv("LOG", log)
	dir := t.TempDir()
	for range 2 {
		im, err := fetch(t.Context(), dir, Debian61)
		if err != nil {
			t.Fatal(err)
		}
		want := image{
			vmlinuz: filepath.Join(dir, "linux-image-amd64/boot/vmlinuz-6.1.0-57-amd64"),
			modules: filepath.Join(dir, "linux-image-amd64/lib/modules/6.1.0-57-amd64"),
		}
		if im != want {
			t.Errorf("fetch = %+v, want %+v", im, want)
		}
	}
	if b, err := os.ReadFile(log); err != nil || strings.Count(string(b), "\n") != 1 {
		t.Errorf("downloads: %q (%v), want one: the second call finds it in the cache", b, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "fetch-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestFetchUpdatesMissingPackageLists(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root may update apt's package lists")
	}
	fakePrograms(t, fakeApt)
	t.Setenv("LOG", filepath.Join(t.TempDir(), "log"))
	t.Setenv("NEEDS_UPDATE", filepath.Join(t.TempDir(), "updated"))
	if _, err := fetch(t.Context(), t.TempDir(), Debian61); err != nil {
		t.Error(err)
	}
}

func TestFetchSaysWhatAptSaid(t *testing.T) {
	fakePrograms(t, fakeApt)
	t.Setenv("NEEDS_UPDATE", filepath.Join(t.TempDir(), "updated"))
	t.Setenv("BROKEN", "1")
	dir := t.TempDir()
	_, err := fetch(t.Context(), dir, Debian61)
	if err == nil || !strings.Contains(err.Error(), "E: No packages found") {
		t.Errorf("fetch without a network = %v, want apt's own reason", err)
	}
	if left, globErr := filepath.Glob(filepath.Join(dir, "*-*")); globErr != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, globErr)
	}
}

func TestClosurePutsDependenciesFirst(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "modules.builtin"), "kernel/mm/zbud.ko\n", 0o644)
	writeFile(t, filepath.Join(dir, "kernel/fs/ext4.ko"), fakeModule(t, "license=GPL\x00depends=jbd2,mbcache\x00"), 0o644)
	writeFile(t, filepath.Join(dir, "kernel/fs/jbd2.ko"), fakeModule(t, "depends=\x00"), 0o644)
	var packed bytes.Buffer
	w, err := xz.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(fakeModule(t, "depends=zbud\x00name=mbcache\x00"))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "kernel/lib/mbcache.ko.xz"), packed.String(), 0o644)

	mods, err := closure(dir, []string{"ext4", "jbd2", "zbud"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mods {
		got = append(got, m.name)
		if !bytes.HasPrefix(m.code, []byte("\x7fELF")) {
			t.Errorf("module %s is not uncompressed", m.name)
		}
	}
	if diff := cmp.Diff([]string{"jbd2", "mbcache", "ext4"}, got); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	if _, err := closure(dir, []string{"btrfs"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("closure of an unknown module = %v, want one that is fs.ErrNotExist", err)
	}
}
