package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"
)

// Outcome is how a test ended.
type Outcome string

const (
	Passed  Outcome = "pass"
	Failed  Outcome = "fail"
	Skipped Outcome = "skip"
	Unended Outcome = "" // started and never ended: a crash, or the guest died
)

// Test is one test of a test package that ran in a guest.
type Test struct {
	Name    string // as Go prints it, Parent/Child
	Outcome Outcome
	Output  string // what it logged, without the lines of the test framework
	Took    time.Duration
}

// parseTests reads what a test binary printed with -test.v=test2json, in the order the tests started. The
// conversion is the Go distribution's own.
func parseTests(ctx context.Context, output []byte) ([]Test, error) {
	c := exec.CommandContext(ctx, "go", "tool", "test2json")
	c.Stdin = bytes.NewReader(output)
	var errs bytes.Buffer
	c.Stderr = &errs
	events, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("guest: run test2json: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	return collect(bytes.NewReader(events))
}

func collect(events io.Reader) ([]Test, error) {
	var tests []Test
	at := map[string]int{}
	for d := json.NewDecoder(events); ; {
		var e struct {
			Action, Test, Output string
			Elapsed              float64
		}
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return tests, nil
		} else if err != nil {
			return nil, fmt.Errorf("guest: read test2json: %w", err)
		}
		if e.Test == "" {
			continue
		}
		i, known := at[e.Test]
		if !known {
			i = len(tests)
			at[e.Test] = i
			tests = append(tests, Test{Name: e.Test})
		}
		switch t := &tests[i]; e.Action {
		case "output":
			if s := strings.TrimLeft(e.Output, " "); !strings.HasPrefix(s, "=== ") && !strings.HasPrefix(s, "--- ") {
				t.Output += e.Output
			}
		case "pass", "fail", "skip":
			t.Outcome, t.Took = Outcome(e.Action), time.Duration(e.Elapsed*float64(time.Second))
		}
	}
}

// node is a test with its subtests.
type node struct {
	Test
	local    string // name below its parent
	children []*node
}

// tree hangs every test below the longest name that is a test itself: names of subtests may hold slashes.
func tree(tests []Test) []*node {
	var top []*node
	all := map[string]*node{}
	for _, t := range tests {
		n := &node{Test: t, local: t.Name}
		all[t.Name] = n
		siblings := &top
		for up := path.Dir(t.Name); up != "."; up = path.Dir(up) {
			if p, ok := all[up]; ok {
				n.local, siblings = strings.TrimPrefix(t.Name, up+"/"), &p.children
				break
			}
		}
		*siblings = append(*siblings, n)
	}
	return top
}

// replay makes each test of r a subtest of t.
func replay(t *testing.T, r Result) {
	t.Helper()
	t.Run(r.Binary.Name(), func(t *testing.T) {
		ok := true
		for _, n := range tree(r.Tests) {
			ok = n.replay(t) && ok
		}
		if r.ExitCode != 0 && ok {
			t.Errorf("exit code %d in the guest, though no test failed: %s\n%s", r.ExitCode, r.Message, ending(r.Output))
		}
		if len(r.Tests) == 0 {
			t.Errorf("no test ran in the guest:\n%s", ending(r.Output))
		}
	})
}

func (n *node) replay(t *testing.T) bool {
	return t.Run(n.local, func(t *testing.T) {
		for _, c := range n.children {
			c.replay(t)
		}
		said := strings.TrimSpace(n.Output)
		switch n.Outcome {
		case Passed:
			if said != "" {
				t.Log("in the guest: " + said)
			}
		case Skipped:
			t.Skip("in the guest: " + said)
		case Failed:
			t.Errorf("failed in the guest after %v: %s", n.Took, said)
		default:
			t.Errorf("did not end in the guest: %s", said)
		}
	})
}

// ending is the last of what a program said.
func ending(output []byte) []byte {
	const most = 4 << 10
	if len(output) > most {
		output = output[len(output)-most:]
	}
	return output
}
