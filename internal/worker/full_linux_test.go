package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/journal"
	"github.com/spillway-io/spillway/internal/sys"
	"github.com/spillway-io/spillway/internal/testkit"
)

// lookAt makes up the rest of a machine around a tree.
func lookAt(t *testing.T, tree *testkit.CgroupTree) *machine {
	t.Helper()
	bootID(t, tree.Root)
	m, err := look(tree.Root, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSwapOffNamesCgroupsAtTheirLimits(t *testing.T) {
	cause := errkind.Hint(errkind.New(errkind.Exhausted, "swap: off: %w", sys.ENOMEM), "free memory and run: spillway restore")
	for _, mode := range []testkit.CgroupMode{testkit.CgroupV1, testkit.CgroupHybrid, testkit.CgroupV2} {
		t.Run(string(mode), func(t *testing.T) {
			tree := testkit.NewCgroupTree(t, mode)
			tree.Put("/free", testkit.MemGroup{Usage: 100 * mib, Anon: 100 * mib, Swap: 500 * mib})
			tree.Put("/roomy", testkit.MemGroup{Usage: 10 * mib, Anon: 10 * mib, Swap: 10 * mib, Limit: 64 * mib})
			tree.Put("/full", testkit.MemGroup{Usage: 64 * mib, Anon: 64 * mib, Limit: 64 * mib}) // nothing in swap
			m := lookAt(t, tree)
			if err := m.noRoom(cause); errkind.HintOf(err) != errkind.HintOf(cause) || errkind.Of(err) != errkind.Exhausted || !errors.Is(err, sys.ENOMEM) {
				t.Errorf("nobody is at a limit: %v (hint %q)", err, errkind.HintOf(err))
			}

			tree.Put("/pods", testkit.MemGroup{Usage: 60 * mib, Anon: 60 * mib, Swap: 30 * mib, Limit: 64 * mib})
			tree.Put("/pods/a", testkit.MemGroup{Usage: 60 * mib, Anon: 60 * mib, Swap: 30 * mib, Limit: 64 * mib}) // v1: the parent's
			tree.Put("/pods/b\n\x1b[2J", testkit.MemGroup{Usage: 8 * mib, Anon: 8 * mib, Swap: mib, Limit: 8 * mib})
			for i := range 3 {
				tree.Put(fmt.Sprintf("/more%d", i), testkit.MemGroup{Usage: 4 * mib, Anon: 4 * mib, Swap: int64(i+2) * mib, Limit: 4 * mib})
			}
			err := m.noRoom(cause)
			text := err.Error()
			if errkind.Of(err) != errkind.Exhausted || !errors.Is(err, sys.ENOMEM) || !strings.Contains(errkind.HintOf(err), "raise those limits") {
				t.Errorf("%v: kind %v, hint %q", err, errkind.Of(err), errkind.HintOf(err))
			}
			wants := []string{`"/pods" (60 MiB here and 30 MiB in swap, limit 64 MiB)`, `"/more2"`, `"/more1"`, "and 2 more"}
			if mode == testkit.CgroupV2 { // where each has a limit of its own
				wants = []string{`"/pods" (`, `"/pods/a" (`, `"/more2"`, "and 3 more"}
			}
			for _, want := range wants {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in %q", want, text)
				}
			}
			if strings.Contains(text, "/roomy") || strings.Contains(text, `"/full"`) || strings.Contains(text, "/free") || strings.ContainsAny(text, "\n\x1b") {
				t.Errorf("%q", text)
			}
		})
	}
}

// The daemon holds nine descriptors for each cgroup of v2; the worker, which only acts, must do with three of each, and
// with so many cgroups at most.
func TestHeldCgroupsCostFewDescriptors(t *testing.T) {
	for _, mode := range []testkit.CgroupMode{testkit.CgroupV1, testkit.CgroupV2} {
		t.Run(string(mode), func(t *testing.T) {
			tree := testkit.NewCgroupTree(t, mode)
			const n = 100
			for i := range n {
				tree.Put(fmt.Sprintf("/app/%d", i), testkit.MemGroup{Usage: 8 * mib, Anon: 8 * mib})
			}
			bootID(t, tree.Root)
			s, _, err := open(t.Context(), MainConfig{StateDir: stateDir(t), Root: tree.Root})
			if err != nil {
				t.Fatal(err)
			}
			defer s.closeAll()
			before := descriptors(t)
			for i := range n {
				h, err := s.claim(&request{Cgroup: journal.Text(fmt.Sprintf("/app/%d", i))})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := h.g.Usage(); err != nil {
					t.Error(err)
				}
				s.release(h.g.Path(), h, false)
				s.work.Done()
			}
			if each := float64(descriptors(t)-before) / n; each != 3 {
				t.Errorf("%v descriptors for each cgroup, want 3", each)
			}
		})
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(es)
}
