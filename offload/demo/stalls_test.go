package demo

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/internal/psi"
	"github.com/spillway-io/spillway/offload/demo/watch"
	"github.com/spillway-io/spillway/offload/policy"
)

func stallExample() *StallResult {
	res := &StallResult{Machine: "Linux", Goals: map[string]Goal{}, Laws: map[string]*StallStats{
		policy.Composite: {Stalls: make([]Stall, stallCount), Named: stallCount, Zero: stallCount, PSI: summary{20, 0.01, 0, 0.02}, Calm: 200, Alarms: 4},
		policy.TMO:       {Stalls: make([]Stall, stallCount), Zero: 3, Taken: 61e6, PSI: summary{20, 0.01, 0, 0.02}, Calm: 90},
	}}
	for n, law := range []string{policy.Composite, policy.TMO, policy.TMO, policy.Composite} {
		for i, server := range []string{"redis-a", "redis-b"} {
			st := Steady{Block: n + 1, Law: law, Server: server, Usage: 170e6, Saving: 0.35, FaultsPerMinute: 1000}
			if law == policy.Composite {
				st.Saving, st.FaultsPerMinute = 0.33, 300+50*float64(i)
				res.Steady = append(res.Steady, st)
				continue
			}
			held := st
			held.Held, held.Saving, held.FaultsPerMinute = true, 0.334, 500
			res.Steady = append(res.Steady, st, held)
		}
	}
	return res
}

func TestStallGoals(t *testing.T) {
	tests := []struct {
		name    string
		change  func(*StallResult)
		goal    string
		verdict string
	}{
		{"named", func(*StallResult) {}, "stalls_named", passed},
		{"one not named", func(r *StallResult) { r.Laws[policy.Composite].Named-- }, "stalls_named", missed},
		{"few alarms", func(*StallResult) {}, "false_alarms", passed},
		{"many alarms", func(r *StallResult) { r.Laws[policy.Composite].Alarms = 11 }, "false_alarms", missed},
		{"no calm period", func(r *StallResult) { r.Laws[policy.Composite].Calm, r.Laws[policy.Composite].Alarms = 0, 0 }, "false_alarms", missed},
		{"fewer faults", func(*StallResult) {}, "steady_faults", passed},
		{"as many faults", func(r *StallResult) {
			for i := range r.Steady {
				r.Steady[i].FaultsPerMinute = 2000
			}
		}, "steady_faults", missed},
		{"tmo never had a fault", func(r *StallResult) { held(r, func(s *Steady) { s.FaultsPerMinute = 0 }) }, "steady_faults", "no equal saving"},
		{"tmo saved more", func(r *StallResult) { held(r, func(s *Steady) { s.Saving = 0.336 }) }, "steady_faults", "no equal saving"},
		{"tmo saved less", func(r *StallResult) { held(r, func(s *Steady) { s.Saving = 0.324 }) }, "steady_faults", "no equal saving"},
		{"one of tmo's servers did", func(r *StallResult) { r.Steady[3].Saving = 0.336 }, "steady_faults", "no equal saving"},
		{"tmo was never held", func(r *StallResult) { r.Steady = slices.DeleteFunc(r.Steady, func(s Steady) bool { return s.Held }) }, "steady_faults", "no equal saving"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := stallExample()
			tt.change(res)
			res.judge()
			if g := res.Goals[tt.goal]; g.Verdict != tt.verdict || g.Pass != (tt.verdict == passed) {
				t.Errorf("verdict %q (pass %v) on %v, want %q", g.Verdict, g.Pass, g.Value, tt.verdict)
			}
		})
	}
	res := stallExample()
	res.judge()
	if v := float64(res.Goals["steady_faults"].Value); math.Abs(v-0.65) > 1e-9 {
		t.Errorf("ratio %v, want 0.65: C over T, held, whichever came first", v)
	}
	if v := float64(res.AtRest.Median); math.Abs(v-0.325) > 1e-9 {
		t.Errorf("ratio at rest %v, want 0.325", v)
	}
	var b bytes.Buffer
	printStalls(&b, res)
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.HasPrefix(line, "GOAL") && !strings.Contains(line, "tmo, ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// held changes the rows in which tmo is held.
func held(r *StallResult, change func(*Steady)) {
	for i := range r.Steady {
		if r.Steady[i].Held {
			change(&r.Steady[i])
		}
	}
}

// at is a moment, in seconds.
func at(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }

// rigWith has one server and the daemon's decisions about it, one a second from second 0.
func rigWith(reasons ...policy.Reason) *rig {
	decisions := map[decisionKey]admin.Decision{}
	r := &rig{node: &node{decisions: decisions}}
	r.twins[0] = &twin{member: &member{path: "/a"}}
	for i, reason := range reasons {
		d := admin.Decision{Cgroup: "/a", Time: at(float64(i)), Reason: string(reason)}
		if reason == policy.Steady {
			d.Step = 4096
		}
		decisions[decisionKey{"/a", d.Time.UnixNano()}] = d
	}
	return r
}

func TestAnswer(t *testing.T) {
	const s, c, h = policy.Steady, policy.RefaultCost, policy.Holding
	for name, tt := range map[string]struct {
		reasons     []policy.Reason
		named, zero bool
		taken       int64
	}{
		"at once":                {[]policy.Reason{s, s, c, h, h, h}, true, true, 0},
		"in the second period":   {[]policy.Reason{s, s, s, c, h, h}, true, true, 4096},
		"too late":               {[]policy.Reason{s, s, s, s, c, h}, false, false, 2 * 4096},
		"zero for another cause": {[]policy.Reason{s, s, h, h, h, h}, false, true, 0},
		"before the stall":       {[]policy.Reason{s, c, s, s, s, s}, false, false, 2 * 4096},
		"never":                  {[]policy.Reason{s, s, s, s, s, s}, false, false, 2 * 4096},
	} {
		t.Run(name, func(t *testing.T) {
			var st Stall
			rigWith(tt.reasons...).answer(&st, "/a", span{at(1.5), at(1.6)})
			if st.Named != tt.named || st.Zero != tt.zero || st.Taken != tt.taken {
				t.Errorf("named %v, zero %v, taken %d, want %v, %v, %d", st.Named, st.Zero, st.Taken, tt.named, tt.zero, tt.taken)
			}
		})
	}
}

func TestCountCalm(t *testing.T) {
	var reasons []policy.Reason
	for i := range 40 {
		reason := policy.Steady
		switch i {
		case 3, 30: // false alarms
			reason = policy.RefaultCost
		case 11: // the stall
			reason = policy.RefaultCost
		case 12, 13, 31:
			reason = policy.Holding
		}
		reasons = append(reasons, reason)
	}
	var st StallStats
	rigWith(reasons...).countCalm(&st, watched{span: span{at(0), at(100)}, stalls: []span{{at(10.5), at(10.6)}}})
	// Seconds 0 to 10 and 23 to 39 are calm: the stall explains what happens within 12 periods of its end.
	if st.Calm != 28 || st.Alarms != 2 {
		t.Errorf("%d calm periods with %d alarms, want 28 with 2", st.Calm, st.Alarms)
	}
}

func TestPSIShare(t *testing.T) {
	on := func(us uint64) watch.Reading { return watch.Reading{HasPSI: true, Stall: psi.Totals{Some: us}} }
	if got := psiShare(on(1000), on(3000), 20*time.Millisecond); got != 0.1 {
		t.Errorf("2 ms of 20 ms are %v", got)
	}
	for name, got := range map[string]number{
		"no PSI":     psiShare(watch.Reading{}, watch.Reading{}, time.Second),
		"cost of 0":  psiShare(on(0), on(1), 0),
		"lost later": psiShare(on(0), watch.Reading{}, time.Second),
	} {
		if !math.IsNaN(float64(got)) {
			t.Errorf("%s: %v, want unknown", name, got)
		}
	}
}
