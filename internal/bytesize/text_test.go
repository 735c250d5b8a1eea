package bytesize

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]Size{
		"0 B": 0, "512 B": 512, "512B": 512, "16MiB": 16 * MiB, "16 MiB": 16 * MiB, " 1.5 GiB ": 3 * GiB / 2,
		"0.1 KiB": 102, "1.999999 TiB": 2*TiB - 1099512, "8388607 TiB": 8388607 * TiB, "007 KiB": 7 * KiB,
	} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
}

func TestParseSaysWhatToWrite(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "16 MiB",
		"16":                    "has no unit; write 16 B, 16 MiB",
		"16 MB":                 "did you mean MiB?",
		"16 mib":                "did you mean MiB?",
		"2G":                    "did you mean GiB?",
		"16 pages":              "use one of B, KiB",
		"-1 GiB":                "negative",
		"GiB":                   "not an amount",
		"1.2.3 GiB":             "not a number",
		".5 GiB":                "not a number",
		"5. GiB":                "not a number",
		"1.1234567 GiB":         "more than 6 digits",
		"8388608 TiB":           "is more than 8388608.0 TiB",
		"8388607.9999999 TiB":   "more than 6 digits",
		"99999999999999999 KiB": "is more than",
		"16\nMiB":               "unknown unit",
		"1 \x1b[31mMiB":         "unknown unit",
	} {
		got, err := Parse(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d, %v; want %q in the error", in, got, err, want)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%q: raw control characters in %v", in, err)
		}
	}
}

func TestString(t *testing.T) {
	for in, want := range map[Size]string{
		0: "0 B", 1: "1 B", -1: "-1 B", 1023: "1023 B", KiB: "1 KiB", 1536: "1.5 KiB", 1537: "1.5 KiB", GiB: "1 GiB",
		3 * GiB / 2: "1.5 GiB", MiB - 1: "1.0 MiB", -3 * MiB: "-3 MiB", 1500 * GiB: "1.5 TiB", TiB * 2000: "2000 TiB",
		math.MinInt64: "-8388608 TiB", math.MaxInt64: "8388608.0 TiB",
	} {
		if got := in.String(); got != want {
			t.Errorf("%d: %q, want %q", int64(in), got, want)
		}
	}
}

func TestTextKeepsEveryByte(t *testing.T) {
	type knob struct {
		Size Size `json:"size" yaml:"size"`
	}
	for _, s := range []Size{0, 1, 1025, 16 * MiB, 1536 * MiB, math.MaxInt64} {
		b, err := json.Marshal(knob{s})
		if err != nil {
			t.Fatal(err)
		}
		var got knob
		if err := json.Unmarshal(b, &got); err != nil || got.Size != s {
			t.Errorf("JSON %s: %d, %v", b, got.Size, err)
		}
		if b, err = yaml.Marshal(knob{s}); err != nil {
			t.Fatal(err)
		}
		got = knob{}
		if err := yaml.Unmarshal(b, &got); err != nil || got.Size != s {
			t.Errorf("YAML %s: %d, %v", b, got.Size, err)
		}
	}
	var got knob
	if err := yaml.Unmarshal([]byte("size: 16"), &got); err == nil || !strings.Contains(err.Error(), "has no unit") {
		t.Errorf("a bare number in YAML: %d, %v", got.Size, err)
	}
	size := 5 * MiB
	if err := size.Set("nonsense"); err == nil || size != 5*MiB {
		t.Errorf("a refused flag left %v, %v", size, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"16 MiB", "1.5GiB", "0 B", "16", "9223372036854775807 B", "8388607.999999 TiB", "-1 B", "1 KB", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if s < 0 {
			t.Errorf("%q is negative: %d", text, s)
		}
		if again, err := Parse(s.Exact()); err != nil || again != s {
			t.Errorf("%q: %d prints as %q, which is %d, %v", text, s, s.Exact(), again, err)
		}
		if again, err := Parse(s.String()); err == nil && (again-s > s/10 || s-again > s/10) {
			t.Errorf("%q: %d prints as %q, which is %d", text, s, s, again)
		}
	})
}
