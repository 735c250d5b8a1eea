package offload

import (
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/testkit"
	"github.com/spillway-io/spillway/offload/policy"
)

// stubLaw takes the same from everybody.
type stubLaw struct{ step int64 }

func (stubLaw) Name() string { return "stub" }
func (l stubLaw) Decide(policy.Sample) policy.Decision {
	return policy.Decision{Step: l.step, Reason: policy.Steady, Detail: "stub"}
}

// A law of the caller's decides in place of the configured one, and gets that one's name and parameters.
func TestNewLawReplacesTheConfiguredOne(t *testing.T) {
	m := newMachine(t, testkit.CgroupV2)
	m.Put("/app", busy)
	m.Put("/app/web", busy)
	w := newFakeWorker()
	a := m.agent(w, func(c *Config) { c.Roots = []string{"/app"} })
	if a.deps.NewLaw == nil {
		t.Fatal("no law by default")
	}
	var name string
	var ratio float64
	a.deps.NewLaw = func(n string, p policy.Params) (policy.Law, error) {
		name, ratio = n, p.Ratio
		return stubLaw{3 * mib}, nil
	}
	ticks(a, 3, time.Now())
	if name != policy.Composite || ratio != 0.01 {
		t.Errorf("asked for law %q with ratio %v", name, ratio)
	}
	ds := a.Decisions("/app/web", 10)
	if len(ds) == 0 || ds[0].Law != "stub" || ds[0].Step != 3*mib {
		t.Errorf("decisions %+v", ds)
	}
}
