// Package class says how carefully a cgroup must be treated: which class it belongs to, and why.
//
// Promise: the answer comes from the path alone, is the same every time, and errs on the careful side.
// The order is: the administrator's rules, on the cgroup itself and then on its nearest ancestor; else
// the pod's Kubernetes QoS; else Latency.
// Ownership: a Set is immutable after Compile and safe for concurrent use.
// Failure: Compile refuses what it does not understand; Of never fails. Paths are hostile text: they are
// matched in linear time and never quoted in an answer.
// Non-goals: no file is read, no process is looked at, and no container is guessed to be a sidecar by its
// name; a sidecar is Tax only when a rule says so.
package class

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Class is how carefully memory is taken from a cgroup.
type Class string

const (
	Tax        Class = "tax"        // infrastructure and sidecars: taken from first and most
	Latency    Class = "latency"    // somebody waits for it: taken from slowly, given back at once
	Throughput Class = "throughput" // batch work: some slowing is acceptable
	Off        Class = "off"        // never touched
)

// Classes lists every class in the order in which documents and messages name them.
func Classes() []Class { return []Class{Tax, Latency, Throughput, Off} }

// Rule gives a class to the cgroups whose path matches a glob. `*` and `?` stay within one path segment,
// `**` crosses slashes, `/**/` also stands for a single slash; every other character, the backslash of
// systemd's escapes included, stands for itself.
type Rule struct {
	Match string `yaml:"match"`
	Class Class  `yaml:"class"`
}

// Set is a compiled list of rules. The nil Set has no rules and is valid.
type Set struct {
	rules []compiled
}

type compiled struct {
	Rule
	re *regexp.Regexp // matches the longest prefix that is the cgroup itself or a parent of it
}

// maxMatch bounds a glob; the kernel refuses a path beyond 4 KiB anyway.
const maxMatch = 4096

// Compile checks the rules and prepares them. The error names the first wrong rule, counted from 1, and says
// what to write instead.
func Compile(rules []Rule) (*Set, error) {
	s := &Set{rules: make([]compiled, 0, len(rules))}
	for i, r := range rules {
		re, err := r.compile()
		if err != nil {
			return nil, fmt.Errorf("class: rule %d (match %s): %w", i+1, quote(r.Match), err)
		}
		s.rules = append(s.rules, compiled{r, re})
	}
	return s, nil
}

func (r Rule) compile() (*regexp.Regexp, error) {
	switch r.Class {
	case Tax, Latency, Throughput, Off:
	case "":
		return nil, fmt.Errorf("class is missing; add one of %s", names())
	default:
		return nil, fmt.Errorf("unknown class %s; use one of %s", quote(string(r.Class)), names())
	}
	m := r.Match
	switch {
	case m == "":
		return nil, fmt.Errorf("match is empty; write a cgroup path such as %q", "/system.slice/*.service")
	case len(m) > maxMatch:
		return nil, fmt.Errorf("match is %d bytes long; a cgroup path has at most %d", len(m), maxMatch)
	case !strings.HasPrefix(m, "/") && !strings.HasPrefix(m, "**"):
		return nil, fmt.Errorf("match must start with a slash, like the paths in `spillway status`; write %s, or %s for any depth",
			quote("/"+m), quote("/**/"+m))
	case m != "/" && strings.HasSuffix(m, "/"):
		return nil, fmt.Errorf("match ends with a slash and would match nothing; write %s for the cgroup, or %s for what is in it",
			quote(strings.TrimRight(m, "/")), quote(strings.TrimRight(m, "/")+"/**"))
	case strings.Contains(m, "//"):
		return nil, fmt.Errorf("match has an empty segment and would match nothing; write a single slash")
	case strings.Contains(m, "***"):
		return nil, fmt.Errorf("three stars mean nothing; write * within a segment or ** across segments")
	case strings.ContainsAny(m, "[]{}"):
		return nil, fmt.Errorf("sets such as [ab] and {a,b} are not supported; write one rule each, or ? for one character")
	}
	re, err := regexp.Compile(expression(m))
	if err != nil {
		return nil, fmt.Errorf("not a usable pattern, is it UTF-8? %w", err)
	}
	re.Longest()
	return re, nil
}

// reach returns the length of the deepest cgroup on the way to path that the glob matches, -1 for none. One pass over
// the path, whatever the pattern and however deep the path.
func (r compiled) reach(path string) int {
	if r.Match == "/" {
		return len("/")
	}
	at := r.re.FindStringIndex(path)
	if at == nil {
		return -1
	}
	if at[1] < len(path) {
		return at[1] - 1 // without the slash after the parent
	}
	return at[1]
}

// expression translates a glob into one that matches up to a segment's end. regexp works in time linear in the
// path, whatever the pattern.
func expression(glob string) string {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for rest := glob; rest != ""; {
		switch {
		case strings.HasPrefix(rest, "/**/"):
			b.WriteString(`/(?:.*/)?`)
			rest = rest[4:]
		case strings.HasPrefix(rest, "**"):
			b.WriteString(`.*`)
			rest = rest[2:]
		case rest[0] == '*':
			b.WriteString(`[^/]*`)
			rest = rest[1:]
		case rest[0] == '?':
			b.WriteString(`[^/]`)
			rest = rest[1:]
		default:
			n := strings.IndexAny(rest[1:], "*?/") + 1
			if n == 0 {
				n = len(rest)
			}
			b.WriteString(regexp.QuoteMeta(rest[:n]))
			rest = rest[n:]
		}
	}
	b.WriteString(`(?:/|\z)`)
	return b.String()
}

// Of returns the class of the cgroup at path (a slash path below the memory controller's mount) and the
// reason in one short phrase, which quotes the rule but never the path.
func (s *Set) Of(path string) (c Class, why string) {
	path = clean(path)
	if i, n := s.match(path); i >= 0 {
		r := s.rules[i]
		if n == len(path) {
			return r.Class, fmt.Sprintf("rule %d %s", i+1, quote(r.Match))
		}
		return r.Class, fmt.Sprintf("rule %d %s, matched by a parent", i+1, quote(r.Match))
	}
	if k, ok := Kube(path); ok && k.QoS != "" {
		return k.QoS.Class(), "Kubernetes QoS " + string(k.QoS)
	}
	return Latency, "no rule, the careful default"
}

// match returns the rule that decides and how much of the path it matched: the deepest match wins, then the first rule.
func (s *Set) match(path string) (rule, reach int) {
	rule, reach = -1, -1
	if s == nil {
		return rule, reach
	}
	for i, r := range s.rules {
		if n := r.reach(path); n > reach {
			rule, reach = i, n
		}
	}
	return rule, reach
}

// Unused returns the globs that match none of the paths and none of their parents, in the order of the rules, for
// a warning: a rule that matches nothing is usually a typing mistake.
func (s *Set) Unused(paths []string) []string {
	if s == nil {
		return nil
	}
	var out []string
next:
	for _, r := range s.rules {
		for _, p := range paths {
			if r.reach(clean(p)) >= 0 {
				continue next
			}
		}
		out = append(out, r.Match)
	}
	return out
}

// clean gives "a/b/", "" and "/a/b" one spelling. Dots are left alone: the kernel has no cgroup named ".." and
// a path that claims one must not climb.
func clean(path string) string { return "/" + strings.Trim(path, "/") }

func names() string {
	var list []string
	for _, c := range Classes() {
		list = append(list, string(c))
	}
	return strings.Join(list, ", ")
}

// quote makes text from a file safe and short enough for a message.
func quote(s string) string {
	const most = 120
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
