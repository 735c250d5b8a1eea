package offload

import (
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/cgroup"
)

func TestSavingIsNetAndSustained(t *testing.T) {
	var s saving
	at := time.Unix(1_000_000, 0)
	st := cgroup.Stat{Usage: 160 * mib, Swap: 240 * mib, SwapCached: 10 * mib}
	const pool = 100 << 20
	// 240 out, 10 of it still here as swap cache, 100 in the pool, 61,440 pages of metadata.
	want := int64(130<<20) - 240*256*pageMeta
	s.update(at, st, cgroup.V2, 0, pool)
	if s.net != want {
		t.Errorf("net %d, want %d", s.net, want)
	}
	if got := s.sustained(at); got != 0 {
		t.Errorf("a saving of one instant reported as %d", got)
	}
	for i := 1; i <= 60; i++ {
		s.update(at.Add(time.Duration(i)*time.Second), st, cgroup.V2, 0, pool)
	}
	at = at.Add(time.Minute)
	if got := s.sustained(at); got != want {
		t.Errorf("after a minute %d, want %d", got, want)
	}
	// Everything comes back for a moment: the saving is gone for a minute.
	s.update(at.Add(time.Second), cgroup.Stat{Usage: 400 * mib}, cgroup.V2, 0, 0)
	s.update(at.Add(2*time.Second), st, cgroup.V2, 0, pool)
	if got := s.sustained(at.Add(2 * time.Second)); got != 0 {
		t.Errorf("%d reported although it was gone a second ago", got)
	}
}

// v1 takes a page off swap when it is charged to memory again: its swap cache is not to be subtracted once more.
func TestSavingOnV1(t *testing.T) {
	var s saving
	s.update(time.Unix(1_000_000, 0), cgroup.Stat{Swap: 240 * mib, SwapCached: 170 * mib}, cgroup.Hybrid, 0, 100*mib)
	if want := 140*mib - 240*256*pageMeta; s.net != want {
		t.Errorf("net %d, want %d", s.net, want)
	}
}

func TestSavingOfFilesIsWhatStaysOut(t *testing.T) {
	var s saving
	at := time.Unix(1_000_000, 0)
	s.tookFile(50 * mib)
	s.update(at, cgroup.Stat{File: 50 * mib}, cgroup.V2, 100*mib, 0)
	if s.net != 50*mib {
		t.Errorf("net %d after dropping 50 MiB", s.net)
	}
	s.refaultedFile(20 * mib)
	s.update(at, cgroup.Stat{File: 70 * mib}, cgroup.V2, 100*mib, 0)
	if s.net != 30*mib {
		t.Errorf("net %d after 20 MiB came back", s.net)
	}
	s.update(at, cgroup.Stat{File: 95 * mib}, cgroup.V2, 100*mib, 0)
	if s.net != 5*mib {
		t.Errorf("net %d although the cache has grown to within 5 MiB of its peak", s.net)
	}
	s.refaultedFile(500 * mib)
	s.update(at, cgroup.Stat{File: 50 * mib}, cgroup.V2, 100*mib, 0)
	if s.net != 0 {
		t.Errorf("net %d after more came back than was taken", s.net)
	}
}
