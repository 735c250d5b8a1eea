package watch

import (
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
)

func TestFootprint(t *testing.T) {
	const mb = 1 << 20
	of := func(usage, swap, cached int64) Reading {
		return Reading{Stat: cgroup.Stat{Usage: usage * mb, Swap: swap * mb, SwapCached: cached * mb}}
	}
	first := Sample{Pool: 10 * mb}
	meta := func(swap int64) int64 { return swap * mb / 4096 * pageMeta }
	tests := []struct {
		name string
		s    Sample
		mode cgroup.Mode
		want int64 // of member 0
	}{
		{"nothing swapped", Sample{Pool: 10 * mb, Of: []Reading{of(400, 0, 0)}}, cgroup.V1, 400 * mb},
		{"the pool's growth is shared by what is stored", Sample{Pool: 110 * mb, Of: []Reading{of(200, 150, 0), of(10, 50, 0)}}, cgroup.Hybrid, 275*mb + meta(150)},
		{"what came back holds no pool", Sample{Pool: 110 * mb, Of: []Reading{of(400, 0, 200), of(200, 200, 0)}}, cgroup.Hybrid, 400 * mb},
		{"a pool that shrank saved nothing", Sample{Pool: 5 * mb, Of: []Reading{of(200, 100, 0)}}, cgroup.V1, 200*mb + meta(100)},
		{"v2 charges the pool itself", Sample{Pool: 110 * mb, Of: []Reading{of(200, 150, 0)}}, cgroup.V2, 200*mb + meta(150)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.s.Footprint(0, first, tt.mode); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestBetween(t *testing.T) {
	at := time.Unix(1000, 0)
	rec := &Recorder{}
	for i := range 5 {
		rec.samples = append(rec.samples, Sample{At: at.Add(time.Duration(i) * time.Second), Cgroups: i})
	}
	got := rec.Between(at.Add(time.Second), at.Add(3*time.Second))
	if len(got) != 3 || got[0].Cgroups != 1 || got[2].Cgroups != 3 {
		t.Errorf("between: %v", got)
	}
}
