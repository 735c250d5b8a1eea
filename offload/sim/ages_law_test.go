package sim

import (
	"testing"
	"time"

	"github.com/spillway-io/spillway/offload/policy"
)

// TestAgesPay: with the same exact ages, composite has at most half of gswap's faults while it saves as much, and a new
// job saves from its first minutes on; without ages it is slower than with. As published: a decision every 6 s, a scan
// every 2 minutes.
func TestAgesPay(t *testing.T) {
	t.Parallel()
	const span = 4 * time.Hour
	type outcome struct{ saving, faults, first, half float64 }
	for _, m := range []Reclaim{Classic, MGLRU} {
		sum := map[string]outcome{}
		for _, name := range []string{"zipf", "incompressible", "file-tree", "redirty"} {
			w, _ := WorkloadNamed(name, span)
			for law, scan := range map[string]time.Duration{policy.Composite: 2 * time.Minute, policy.GSwap: 2 * time.Minute, "blind": 0} {
				run := law
				if law == "blind" {
					run = policy.Composite
				}
				r, err := Run(Config{
					Cgroups: []Cgroup{{Workload: w, Floor: 16 * mib}}, Law: Named(run, policy.Params{}), Reclaim: m,
					Period: 6 * time.Second, Span: span, Scan: scan, Scale: 32, Seed: 1,
				})
				if err != nil {
					t.Fatal(err)
				}
				o, f := sum[law], r.Cgroups[0].Steady
				o.saving += f.Share / 4
				o.faults += float64(f.Refaults) / f.Span.Minutes() / 4
				for _, p := range r.Cgroups[0].Trace {
					switch share := float64(p.Saved) / float64(p.Alive); {
					case p.At <= 10*time.Minute:
						o.first += share / 100 / 4
					case p.At == 30*time.Minute:
						o.half += share / 4
					}
				}
				sum[law] = o
			}
		}
		c, g, b := sum[policy.Composite], sum[policy.GSwap], sum["blind"]
		t.Logf("%s: composite %+v, gswap %+v, composite without ages %+v", m, c, g, b)
		if c.saving < 0.99*g.saving || c.faults > 0.5*g.faults {
			t.Errorf("%s: composite saves %.3f with %.1f faults a minute, gswap %.3f with %.1f", m, c.saving, c.faults, g.saving, g.faults)
		}
		if c.first <= g.first || c.half < 0.9*g.half || c.first < b.first || c.half < 2*b.half {
			t.Errorf("%s: cold start %+v, gswap %+v, without ages %+v", m, c, g, b)
		}
	}
}
