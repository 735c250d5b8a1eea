package mix

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-io/spillway/internal/bytesize"
)

// herdOf is a machine whose pool is charged to nobody.
type herdOf struct {
	joint  Joint
	groups []*heap

	noise float64
	rng   *rand.Rand
}

type heap struct {
	name       string
	share      float64 // its true one
	step       int64   // a tick
	back       float64 // part of a step that comes back in the next tick
	pool       Pool
	took, owed int64
	waited     int
	caught     int64 // bytes taken when the verdict fell; 0: none
	last       int64
}

// joint runs the lines `joint [noise=F]`, `heap NAME share= step= [back=]` and `ticks N`.
func (x *script) joint(out *strings.Builder, verb string, args []string) {
	h := x.herd
	switch verb {
	case "joint":
		x.herd = &herdOf{rng: rand.New(rand.NewPCG(1, 2))}
		for _, a := range args {
			_, val, _ := strings.Cut(a, "=")
			x.herd.noise = x.float(val)
		}
	case "heap":
		g := &heap{name: args[0]}
		for _, old := range h.groups {
			if old.name == args[0] {
				g = old
			}
		}
		for _, a := range args[1:] {
			switch key, val, _ := strings.Cut(a, "="); key {
			case "share":
				g.share = x.float(val)
			case "step":
				g.step = x.size(val)
			case "back":
				g.back = x.float(val)
			default:
				x.t.Fatalf("unknown key %q", key)
			}
		}
		if g.took == 0 {
			h.groups = append(h.groups, g)
		}
	case "ticks":
		n := 0
		if _, err := fmt.Sscan(args[0], &n); err != nil {
			x.t.Fatal(err)
		}
		h.run(n)
		for _, g := range h.groups {
			verdict := "fine"
			if g.caught > 0 {
				verdict = "incompressible after " + bytesize.Size(g.caught/mib*mib).String()
			}
			fmt.Fprintf(out, "%s: %s; took %v, waited %d of %d ticks\n", g.name, verdict, bytesize.Size(g.took/mib*mib), g.waited, n)
		}
	}
}

const mib = 1 << 20

func (h *herdOf) run(ticks int) {
	for i := range ticks {
		age := time.Duration(i) * time.Second
		t := Tick{}
		for _, g := range h.groups {
			net := g.owed - int64(g.back*float64(g.last))
			g.last, g.owed = g.owed, 0
			h.joint.Add(&g.pool, net, age)
			grown := float64(net) * g.share * (1 + h.noise*(2*h.rng.Float64()-1))
			t.Stored, t.Pool = t.Stored+net, t.Pool+int64(grown)
			if poor, _ := g.pool.Incompressible(); poor {
				if g.caught == 0 {
					g.caught = g.took
				}
				continue
			}
			if h.joint.Waits(&g.pool) {
				g.waited++
				continue
			}
			g.owed = g.step
			g.took += g.step
		}
		h.joint.Close(t)
	}
}

// Whatever flows are reported, shares stay in range and at most one cgroup or all others wait.
func TestJointStaysInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var j Joint
		pools := make([]Pool, rapid.IntRange(1, 5).Draw(t, "cgroups"))
		for i := range rapid.IntRange(1, 200).Draw(t, "ticks") {
			for k := range pools {
				j.Add(&pools[k], rapid.Int64().Draw(t, "net"), time.Duration(i)*time.Second)
			}
			j.Close(Tick{Stored: rapid.Int64().Draw(t, "stored"), Pool: rapid.Int64().Draw(t, "pool"), Disk: rapid.Int64().Draw(t, "disk"), Mixed: rapid.Bool().Draw(t, "mixed")})
			if rapid.IntRange(0, 20).Draw(t, "gone") == 0 {
				j.Forget(&pools[0])
			}
			for k := range pools {
				if s := pools[k].joint.share; math.IsNaN(s) || s < 0 || s > 1 {
					t.Fatalf("share %v", s)
				}
			}
			if len(j.moved) > len(pools) || len(j.moved) != len(j.ages) {
				t.Fatalf("%d flows of %d cgroups", len(j.moved), len(pools))
			}
		}
	})
}
