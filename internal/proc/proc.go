// Package proc reads the host's own numbers from /proc: memory, swap, page events, block devices, and
// which cgroups a process sits in. Every function takes the root below which "proc" is found, "/" in production.
package proc

import "time"

// Meminfo holds the lines of /proc/meminfo that Spillway needs, in bytes.
type Meminfo struct {
	Total, Free, Available                              int64
	SwapTotal, SwapFree                                 int64
	SwapCached                                          int64 // back in memory, and still with a slot in swap
	Zswap                                               int64 // bytes of the compressed pool; 0 when the kernel has no zswap
	Zswapped                                            int64 // bytes before compression held in the pool
	AnonPages, Cached, SReclaimable, SUnreclaim, Percpu int64
}

// Vmstat holds the events of /proc/vmstat that Spillway needs. Pages unless the name says otherwise.
type Vmstat struct {
	PswpIn, PswpOut, ZswpIn, ZswpOut, ZswpWb uint64
	MajorFaults                              uint64 // faults
	RefaultAnon, RefaultFile                 uint64
	Steal, Scan                              uint64 // reclaimed and looked at, inside cgroups, too (before Linux 5.8: outside only)
}

// SwapArea is one line of /proc/swaps.
type SwapArea struct {
	Path     string
	File     bool // a swap file rather than a partition
	Size     int64
	Used     int64
	Priority int
}

// Disk is one block device's counters from /proc/diskstats.
type Disk struct {
	Name           string
	SectorsRead    uint64 // 512-byte sectors
	SectorsWritten uint64
	IOTime         time.Duration
}
