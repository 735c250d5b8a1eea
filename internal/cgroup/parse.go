package cgroup

import (
	"fmt"
	"math"
	"os"

	"github.com/spillway-io/spillway/internal/proc"
)

// counterMax is PAGE_COUNTER_MAX in bytes: what a v1 limit reads when there is none.
var counterMax = math.MaxInt64 / int64(os.Getpagesize()) * int64(os.Getpagesize())

// parseStatV1 reads memory.stat of a v1 cgroup. Only the total_ lines count descendants in; the others are
// skipped by their first letter.
func parseStatV1(b []byte, s *Stat) error {
	found := false
	for len(b) > 0 {
		var line []byte
		line, b = proc.Line(b)
		if len(line) == 0 || line[0] != 't' && line[0] != 'h' {
			continue
		}
		key, rest := proc.Field(line)
		size, count := fieldV1(s, key)
		if err := store(line, rest, size, count); err != nil {
			return err
		}
		found = found || size == &s.Anon
		s.Refaults = s.Refaults || count == &s.RefaultFile
	}
	if !found {
		return fmt.Errorf("no total_rss in it: %w", proc.ErrFormat)
	}
	if s.Limit >= counterMax {
		s.Limit = Unlimited
	}
	return nil
}

func fieldV1(s *Stat, key []byte) (size *int64, count *uint64) {
	switch string(key) {
	case "hierarchical_memory_limit":
		return &s.Limit, nil
	case "total_rss":
		return &s.Anon, nil
	case "total_cache":
		return &s.File, nil
	case "total_shmem":
		return &s.Shmem, nil
	case "total_mapped_file":
		return &s.Mapped, nil
	case "total_dirty":
		return &s.Dirty, nil
	case "total_unevictable":
		return &s.Unevictable, nil
	case "total_inactive_anon":
		return &s.InactiveAnon, nil
	case "total_inactive_file":
		return &s.InactiveFile, nil
	case "total_swap":
		return &s.Swap, nil
	case "total_swapcached":
		return &s.SwapCached, nil
	case "total_workingset_refault_anon":
		return nil, &s.RefaultAnon
	case "total_workingset_refault_file":
		return nil, &s.RefaultFile
	case "total_pgmajfault":
		return nil, &s.MajorFaults
	}
	return nil, nil
}

// parseStatV2 reads memory.stat of a cgroup2 cgroup.
func parseStatV2(b []byte, s *Stat) error {
	found := false
	for len(b) > 0 {
		var line []byte
		line, b = proc.Line(b)
		key, rest := proc.Field(line)
		size, count := fieldV2(s, key)
		if err := store(line, rest, size, count); err != nil {
			return err
		}
		found = found || size == &s.Anon
		s.Refaults = s.Refaults || count == &s.RefaultFile
	}
	if !found {
		return fmt.Errorf("no anon in it: %w", proc.ErrFormat)
	}
	return nil
}

func fieldV2(s *Stat, key []byte) (size *int64, count *uint64) {
	switch string(key) {
	case "anon":
		return &s.Anon, nil
	case "file":
		return &s.File, nil
	case "shmem":
		return &s.Shmem, nil
	case "file_mapped":
		return &s.Mapped, nil
	case "file_dirty":
		return &s.Dirty, nil
	case "unevictable":
		return &s.Unevictable, nil
	case "inactive_anon":
		return &s.InactiveAnon, nil
	case "inactive_file":
		return &s.InactiveFile, nil
	case "swapcached":
		return &s.SwapCached, nil
	case "zswap":
		return &s.Zswap, nil
	case "zswapped":
		return &s.Zswapped, nil
	case "workingset_refault_anon":
		return nil, &s.RefaultAnon
	case "workingset_refault_file", "workingset_refault":
		return nil, &s.RefaultFile
	case "pgmajfault":
		return nil, &s.MajorFaults
	case "pswpout":
		return nil, &s.SwapOut
	case "pswpin":
		return nil, &s.SwapIn
	case "zswpout":
		return nil, &s.ZswapOut
	case "zswpin":
		return nil, &s.ZswapIn
	}
	return nil, nil
}

// parseEvents reads memory.events (v2) or memory.oom_control (v1): what refused charges and killed.
func parseEvents(b []byte, s *Stat) error {
	for len(b) > 0 {
		var line []byte
		line, b = proc.Line(b)
		key, rest := proc.Field(line)
		var count *uint64
		switch string(key) {
		case "max":
			count = &s.FailCnt
		case "oom_kill":
			count = &s.OOMKills
		}
		if err := store(line, rest, nil, count); err != nil {
			return err
		}
	}
	return nil
}

// store writes the number in rest to whichever of size and count is not nil.
func store(line, rest []byte, size *int64, count *uint64) error {
	if size == nil && count == nil {
		return nil
	}
	value, _ := proc.Field(rest)
	n, ok := proc.Uint(value)
	if !ok || size != nil && n > math.MaxInt64 {
		return fmt.Errorf("line %q: %w", string(line), proc.ErrFormat) // a copy: line itself would send the caller's buffer to the heap
	}
	if size != nil {
		*size = int64(n)
	} else {
		*count = n
	}
	return nil
}
