package policy

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Leaving out the periods that a law rests in changes no decision: one law sees every period, the other only those it
// does not rest in, of a cgroup that stays calm while it rests.
func TestRestChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Params{Ratio: 0.01, Hold: rapid.IntRange(1, 12).Draw(t, "hold")}
		every, some := build(t, p), build(t, p)
		usage, took, skipped := int64(400<<20), int64(0), 0
		for i := range 400 {
			s := Sample{Period: time.Second, Usage: usage, PSI: true, Reclaimed: took}
			n, most := some.(Rester).Rest()
			resting := n > skipped && (most == 0 || usage <= most)
			if !resting && usage < 300<<20 && rapid.IntRange(0, 9).Draw(t, "stall") == 0 {
				s.RefaultAnon = 2000
				usage += int64(s.RefaultAnon) * page
				s.Usage = usage
			}
			want := every.Decide(s)
			if resting {
				if want.Step != 0 {
					t.Fatalf("period %d: %d bytes are taken in a period of rest", i, want.Step)
				}
				skipped, took = skipped+1, 0
				continue
			}
			some.(Rester).Skip(skipped)
			skipped = 0
			if got := some.Decide(s); got.Step != want.Step || got.Reason != want.Reason {
				t.Fatalf("period %d: %d %s with rests, %d %s without\n%+v\n%+v", i, got.Step, got.Reason, want.Step, want.Reason, some, every)
			}
			took = want.Step
			usage -= took
		}
	})
}

func build(t *rapid.T, p Params) Law {
	l, err := New(Composite, p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
