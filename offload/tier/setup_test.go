package tier

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/errkind"
)

func ptr[T any](v T) *T { return &v }

func TestValidate(t *testing.T) {
	file := func(f SwapFile) Setup {
		if f.Size == 0 {
			f.Size = bytesize.GiB
		}
		if f.Path == "" {
			f.Path = "/swap"
		}
		return Setup{SwapFile: &f}
	}
	for _, tc := range []struct {
		what  string
		setup Setup
		want  []string // parts of the error's text; none: valid
	}{
		{"zero", Setup{}, nil},
		{"all", Setup{Zswap: On, Compressor: "zstd", MaxPoolPercent: 30, PageCluster: ptr(0),
			SwapFile: &SwapFile{Path: "/var/swap", Size: bytesize.GiB, Priority: ptr(0)}}, nil},
		{"zram", Setup{Zswap: Off, Zram: &Zram{Size: bytesize.GiB, Algorithm: "lzo-rle", Priority: ptr(32767)}}, nil},
		{"boolean", Setup{Zswap: "true"}, []string{`tiers.zswap: "true"`, "write on"}},
		{"boolean", Setup{Zswap: "no"}, []string{"write off"}},
		{"word", Setup{Zswap: "maybe"}, []string{"write auto, on or off"}},
		{"compressor", Setup{Compressor: "lzo\n"}, []string{`compressor: "lzo\n"`, "lz4"}},
		{"compressor length", Setup{Compressor: strings.Repeat("z", 65)}, []string{"compressor"}},
		{"percent", Setup{MaxPoolPercent: 101}, []string{"max_pool_percent: 101", "1 to 100"}},
		{"percent", Setup{MaxPoolPercent: -1}, []string{"max_pool_percent: -1"}},
		{"off and yet set", Setup{Zswap: Off, Compressor: "lzo"}, []string{"useless", "zswap: on"}},
		{"relative", file(SwapFile{Path: "swap"}), []string{`"swap" is relative`, "/var/lib/spillway/swap"}},
		{"no path", Setup{SwapFile: &SwapFile{Size: bytesize.GiB}}, []string{"swap_file.path: missing"}},
		{"dots", file(SwapFile{Path: "/a/../swap"}), []string{"write /swap"}},
		{"slash", file(SwapFile{Path: "/a/"}), []string{"write /a"}},
		{"newline", file(SwapFile{Path: "/a\nb"}), []string{`"/a\nb"`, "control character"}},
		{"dev", file(SwapFile{Path: "/dev/shm/swap"}), []string{"not on a disk"}},
		{"device-like name", file(SwapFile{Path: "/device"}), nil},
		{"no size", Setup{SwapFile: &SwapFile{Path: "/swap"}}, []string{"swap_file.size: missing", "unit"}},
		{"wrong unit", file(SwapFile{Size: 2 * bytesize.KiB}), []string{"2 KiB is less than 1 MiB", "check the unit"}},
		{"negative size", file(SwapFile{Size: -bytesize.GiB}), []string{"swap_file.size"}},
		{"priority", file(SwapFile{Priority: ptr(-1)}), []string{"priority: -1", "leave it out"}},
		{"priority", file(SwapFile{Priority: ptr(32768)}), []string{"priority: 32768"}},
		{"zram size", Setup{Zram: &Zram{}}, []string{"zram.size: missing"}},
		{"zram algorithm", Setup{Zram: &Zram{Size: bytesize.GiB, Algorithm: "LZ4"}}, []string{"zram.algorithm"}},
		{"twice compressed", Setup{Zswap: On, Zram: &Zram{Size: bytesize.GiB}}, []string{"compressed twice"}},
		{"cluster", Setup{PageCluster: ptr(8)}, []string{"page_cluster: 8", "logarithm"}},
		{"write back", Setup{WriteBack: On}, nil},
		{"write back word", Setup{WriteBack: "yes"}, []string{"write_back", "write on"}},
		{"write back of nothing", Setup{Zswap: Off, WriteBack: On}, []string{"write_back: on", "leaves none"}},
		{"disk before zram", Setup{Zram: &Zram{Size: bytesize.GiB}, SwapFile: &SwapFile{Path: "/swap", Size: bytesize.GiB, Priority: ptr(100)}},
			[]string{"swap_file.priority: 100 is not below zram's 100"}},
		{"disk after zram", Setup{Zram: &Zram{Size: bytesize.GiB}, SwapFile: &SwapFile{Path: "/swap", Size: bytesize.GiB, Priority: ptr(99)}}, nil},
		{"two at once", Setup{Zswap: "x", PageCluster: ptr(-1)}, []string{"tiers.zswap", "tiers.page_cluster"}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			err := tc.setup.Validate()
			if (err == nil) != (len(tc.want) == 0) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if err != nil && errkind.Of(err) != errkind.Invalid {
				t.Errorf("kind %v", errkind.Of(err))
			}
		})
	}
}

func TestSetupFromYAML(t *testing.T) {
	var s Setup
	text := "zswap: on\ncompressor: zstd\nmax_pool_percent: 30\npage_cluster: 0\n" +
		"swap_file: {path: /swap, size: 2 GiB, priority: 5}\n"
	if err := yaml.UnmarshalWithOptions([]byte(text), &s, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if s.Zswap != On || s.SwapFile == nil || s.SwapFile.Size != 2*bytesize.GiB || *s.SwapFile.Priority != 5 || *s.PageCluster != 0 {
		t.Errorf("got %+v, swap file %+v", s, s.SwapFile)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"swap_file: {path: /swap, size: 2GB}":  "GiB",
		"swap_file: {path: /swap, size: 2048}": "unit",
		"zswop: on":                            "zswop",
	} {
		err := yaml.UnmarshalWithOptions([]byte(text), &Setup{}, yaml.Strict())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v does not say %q", text, err, want)
		}
	}
}
