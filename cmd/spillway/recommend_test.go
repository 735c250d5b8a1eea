package main

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/cli"
)

// TestRecommendYAMLSurvivesNames: what a program reads back is what the daemon said, and a terminal sees nothing else.
func TestRecommendYAMLSurvivesNames(t *testing.T) {
	names := []string{"/pods/a", "/", "/esc\x1b[2J\a", "/bidi\u202egnp", "/a b\t\"q'${x}`", "/x: y # z", "/n\nl", "/- &a *b !c %d", "/name.0", "/café", "/back\\slash"}
	var rs []admin.Recommendation
	for _, n := range names {
		rs = append(rs, admin.Recommendation{Cgroup: n, Why: "few: # of them", Resources: admin.Resources{Requests: admin.Requests{Memory: "190Mi"}}})
	}
	var b strings.Builder
	if err := writeRecommendYAML(&b, rs); err != nil {
		t.Fatal(err)
	}
	var back []struct {
		Cgroup    string          `yaml:"cgroup"`
		Why       string          `yaml:"why"`
		Resources admin.Resources `yaml:"resources"`
	}
	if err := yaml.Unmarshal([]byte(b.String()), &back); err != nil {
		t.Fatal(err, b.String())
	}
	for i, n := range names {
		if i >= len(back) || back[i].Cgroup != n || back[i].Why != "few: # of them" || back[i].Resources.Requests.Memory != "190Mi" {
			t.Fatalf("%q comes back as %+v", n, back)
		}
	}
	for l := range strings.Lines(b.String()) {
		if l = strings.TrimSuffix(l, "\n"); cli.Escape(l) != l {
			t.Errorf("a terminal sees %q", l)
		}
	}
	if rs[2].Cgroup != names[2] {
		t.Error("the caller's rows were changed")
	}
}
