package demo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/cli"
	"github.com/spillway-io/spillway/offload"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/policy"
)

// What the demo writes is what the daemon reads.
func TestWrittenConfig(t *testing.T) {
	const floor = 169_082_947 // no whole number of any unit but bytes
	r := &rig{root: "/spillway-demo"}
	for i, name := range []string{"a", "b"} {
		r.twins[i] = &twin{member: &member{path: "/spillway-demo/" + name}}
	}
	r.sidecar, r.batch = &member{path: "/spillway-demo/sidecar"}, &member{path: "/spillway-demo/batch"}
	n := &node{rig: r, config: filepath.Join(t.TempDir(), "spillway.yaml"), listen: "127.0.0.1:9720"}
	for _, s := range []setting{{law: policy.Composite}, {law: policy.TMO, floor: floor, classes: map[string]class.Class{"/spillway-demo/a": class.Latency}}} {
		if err := n.writeConfig(s); err != nil {
			t.Fatal(err)
		}
		var c struct {
			Listen  string         `yaml:"listen"`
			Offload offload.Config `yaml:"offload"`
		}
		if err := cli.LoadYAML(n.config, &c); err != nil {
			b, _ := os.ReadFile(n.config)
			t.Fatalf("%v\n%s", err, b)
		}
		if c.Offload.Law != s.law || c.Offload.Floor != bytesize.Size(s.floor) || len(c.Offload.Roots) != 1 {
			t.Errorf("read law %v, floor %d, roots %v; wrote %+v", c.Offload.Law, c.Offload.Floor, c.Offload.Roots, s)
		}
	}
}
