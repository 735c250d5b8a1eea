package class

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/testkit/datafile"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// TestData runs testdata/*.txt: above ---- rules ("rule CLASS GLOB") and cgroup paths, one a line, Go-quoted where
// they hold unprintable bytes; below what Of, Kube, Unused and DefaultRoots say about them.
func TestData(t *testing.T) {
	datafile.Run(t, *update, func(t *testing.T) func(string) string {
		return func(input string) string { return answer(t, input) }
	})
}

func answer(t *testing.T, input string) string {
	var rules []Rule
	var paths []string
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "rule "):
			class, glob, _ := strings.Cut(line[len("rule "):], " ")
			rules = append(rules, Rule{Match: glob, Class: Class(class)})
		case line[0] == '"':
			p, err := strconv.Unquote(line)
			if err != nil {
				t.Fatal(line, err)
			}
			paths = append(paths, p)
		default:
			paths = append(paths, line)
		}
	}
	var out strings.Builder
	set, err := Compile(rules)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	for _, p := range paths {
		c, why := set.Of(p)
		fmt.Fprintf(&out, "%s\n  %s: %s\n", strings.Trim(strconv.QuoteToASCII(p), `"`), c, why)
		if k, ok := Kube(p); ok {
			fmt.Fprintf(&out, "  qos=%s pod=%s container=%s", k.QoS, k.PodUID, k.ContainerID)
			if k.IsKubeRoot {
				out.WriteString(" root")
			}
			out.WriteString("\n")
		}
	}
	if u := set.Unused(paths); len(u) > 0 {
		fmt.Fprintf(&out, "unused: %q\n", u)
	}
	fmt.Fprintf(&out, "default roots: %v\n", DefaultRoots(paths))
	return out.String()
}

func TestCompileErrors(t *testing.T) {
	for _, c := range []struct {
		rule Rule
		want string // what the message must tell the reader to do
	}{
		{Rule{"", Tax}, "match is empty; write a cgroup path"},
		{Rule{"system.slice/*", Tax}, `write "/system.slice/*", or "/**/system.slice/*" for any depth`},
		{Rule{"/a/", Tax}, `write "/a" for the cgroup, or "/a/**" for what is in it`},
		{Rule{"/a//b", Tax}, "write a single slash"},
		{Rule{"/a/***", Tax}, "write * within a segment or ** across segments"},
		{Rule{"/a[0-9]", Tax}, "write one rule each"},
		{Rule{"/{a,b}", Tax}, "write one rule each"},
		{Rule{"/a\xff", Tax}, "UTF-8"},
		{Rule{"/" + strings.Repeat("a", maxMatch), Tax}, "has at most 4096"},
		{Rule{"/a", ""}, "add one of tax, latency, throughput, off"},
		{Rule{"/a", "batch"}, "use one of tax, latency, throughput, off"},
	} {
		_, err := Compile([]Rule{{"/ok", Off}, c.rule})
		if err == nil {
			t.Errorf("%+q compiles", c.rule)
			continue
		}
		if msg := err.Error(); !strings.Contains(msg, "rule 2") || !strings.Contains(msg, c.want) {
			t.Errorf("%+q: message %q lacks %q", c.rule, msg, c.want)
		}
		if len(err.Error()) > 400 {
			t.Errorf("%.40q…: message of %d bytes", c.rule.Match, len(err.Error()))
		}
	}
}

// TestGlob pins what each wildcard crosses.
func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob, path string
		want       bool
	}{
		{"/a/*", "/a/b", true}, {"/a/*", "/a/b/c", false}, {"/a/*", "/a", false}, {"/a/*", "/a/\n", true},
		{"/a/**", "/a/b/c", true}, {"/a/**", "/a", false},
		{"/a/**/z", "/a/z", true}, {"/a/**/z", "/a/b/c/z", true}, {"/a/**/z", "/a/bz", false},
		{"**/z", "/z", true}, {"**/z", "/a/z", true}, {"/**/z", "/z", true},
		{"/a?", "/ab", true}, {"/a?", "/a/", false}, {"/a?", "/a", false},
		{"/a.b", "/axb", false}, {"/a.b", "/a.b", true}, {`/a\x2db`, `/a\x2db`, true}, {"/a$(b)+|^", "/a$(b)+|^", true},
		{"/", "/", true}, {"/", "/a", false}, {"/**", "/a", true},
		{"/a/**/z", "/a/z/z/z", true}, {"/a*/b", "/ab/b", true}, {"/a**b", "/a/x/b", true},
		{"/ä?", "/äö", true}, {"/a*", "/a\xff\xfe", true},
	} {
		s, err := Compile([]Rule{{c.glob, Off}})
		if err != nil {
			t.Errorf("%q: %v", c.glob, err)
			continue
		}
		if _, n := s.match(clean(c.path)); (n == len(clean(c.path))) != c.want {
			got := !c.want
			t.Errorf("%q on %q: %t, want %t", c.glob, c.path, got, c.want)
		}
	}
}

// TestNearest: the deepest match wins over the order of the rules, the order decides at equal depth.
func TestNearest(t *testing.T) {
	s, err := Compile([]Rule{{"/", Throughput}, {"/a", Tax}, {"/a/**/c", Off}, {"/a/b/c", Latency}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]Class{
		"/": Throughput, "/x/y": Throughput, "/a": Tax, "/a/b": Tax, "/ab": Throughput,
		"/a/b/c": Off, "/a/b/c/d": Off, "/a/b/c/d/c/e": Off,
	} {
		if got, why := s.Of(path); got != want {
			t.Errorf("%s is %s (%s), want %s", path, got, why, want)
		}
	}
}

// TestHostile: a name made to be slow (exponential matching would take years) or to break a terminal is answered,
// without being repeated.
func TestHostile(t *testing.T) {
	s, err := Compile([]Rule{{"/**/a*a*a*a*a*a*a*b", Tax}, {"/**/**/**/c", Tax}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{strings.Repeat("/a", 2048), "/" + strings.Repeat("a", 4095), "/kubepods/\x1b[2J\n<script>", "", "//", "/../.."} {
		c, why := s.Of(p)
		if c != Latency || strings.ContainsAny(why, "\x1b\n<") {
			t.Errorf("%.20q: %s, %q", p, c, why)
		}
	}
}

func TestNilSet(t *testing.T) {
	var s *Set
	if c, _ := s.Of("/kubepods/besteffort/pod1/2"); c != Throughput {
		t.Errorf("class %s", c)
	}
	if u := s.Unused([]string{"/a"}); u != nil {
		t.Errorf("unused %q", u)
	}
}

func FuzzOf(f *testing.F) {
	f.Add("/kubepods.slice/**", "/kubepods.slice/kubepods-pod1.slice/docker-0123456789ab.scope")
	f.Add("**", "/kubepods/pod/\xff")
	f.Fuzz(func(t *testing.T, glob, path string) {
		s, err := Compile([]Rule{{glob, Tax}})
		if err != nil {
			s = nil
		}
		c, why := s.Of(path)
		switch c {
		case Tax, Latency, Throughput:
		default:
			t.Errorf("class %q", c)
		}
		if why == "" || strings.ContainsAny(why, "\n\x1b") {
			t.Errorf("why %q", why)
		}
		k, ok := Kube(path)
		if !ok && k != (KubePod{}) {
			t.Errorf("not Kubernetes, yet %+v", k)
		}
		if strings.ContainsAny(k.PodUID+k.ContainerID, "\n\x1b/<\"") {
			t.Errorf("unsafe text in %+v", k)
		}
	})
}
