package guest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/u-root/u-root/pkg/cpio"
)

func TestParseTestsOfARealRun(t *testing.T) {
	out, err := os.ReadFile(filepath.Join("testdata", "run.txt"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := parseTests(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tt := range tests {
		got = append(got, tt.Name+" "+string(tt.Outcome)+" "+strings.TrimSpace(tt.Output))
	}
	want := []string{
		"TestPass pass",
		"TestSkip skip x_test.go:9: needs PSI",
		"TestTable fail",
		"TestTable/a/b pass",
		"TestTable/bad fail x_test.go:14: got 1, want 2",
		"TestCrash fail",
	}
	for i := range got {
		got[i] = strings.TrimSpace(got[i])
		if strings.HasPrefix(got[i], "TestCrash") {
			got[i] = "TestCrash fail" // its output is a stack trace
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tests (-want +got):\n%s", diff)
	}

	top := tree(tests)
	if len(top) != 4 || len(top[2].children) != 2 {
		t.Fatalf("%d tests at the top, want 4, the third with 2 subtests", len(top))
	}
	if got := top[2].children[0].local; got != "a/b" {
		t.Errorf("subtest %q, want a/b: no test is called TestTable/a", got)
	}
}

func TestInitramfsHasParentsFirstAndEveryFile(t *testing.T) {
	src := t.TempDir()
	writeFile(t, filepath.Join(src, "sub", "x.golden"), "golden", 0o644)
	if err := os.Symlink("x.golden", filepath.Join(src, "sub", "link")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err := writeInitramfs(&b, []File{
		{Guest: "/init", Data: []byte("elf"), Mode: 0o755},
		{Guest: "/guest/0/testdata", Host: src},
	})
	if err != nil {
		t.Fatal(err)
	}
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(b.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{".": true}
	content := map[string]string{}
	for _, r := range records {
		if dir := filepath.Dir(r.Name); !seen[dir] {
			t.Errorf("%s comes before its folder", r.Name)
		}
		if seen[r.Name] {
			t.Errorf("%s comes twice", r.Name)
		}
		seen[r.Name] = true
		body, err := io.ReadAll(io.NewSectionReader(r, 0, int64(r.FileSize)))
		if err != nil {
			t.Fatal(err)
		}
		content[r.Name] = string(body)
	}
	for name, want := range map[string]string{
		"init": "elf", "guest/0/testdata/sub/x.golden": "golden", "guest/0/testdata/sub/link": "x.golden",
	} {
		if content[name] != want {
			t.Errorf("%s holds %q, want %q", name, content[name], want)
		}
	}
	if !seen["dev/console"] {
		t.Error("no dev/console: init would start without a standard output")
	}
}
