// Package psi reads pressure stall information as totals, which are exact, and never as averages, which lag.
//
// Promise: File.Read costs one system call and no allocation. Trigger.Wait sleeps in the kernel.
// Ownership: who opens, closes; Close must not run at the same time as another method of the same value.
// Failure: ErrOff, ErrCgroupOff and ErrGone are three different cures, so they are three errors.
package psi

import "errors"

var (
	// ErrOff is returned when the pressure file exists but the kernel refuses to serve it, or it is missing
	// although the kernel is new enough (4.20). Boot with psi=1.
	ErrOff = errors.New("PSI is off: boot the kernel with psi=1")
	// ErrCgroupOff is returned when pressure is switched off for this one cgroup. Write 1 to its cgroup.pressure.
	ErrCgroupOff = errors.New("PSI is switched off for this cgroup: write 1 to its cgroup.pressure")
	// ErrGone is returned when the cgroup of the pressure file was removed.
	ErrGone = errors.New("cgroup of the pressure file vanished")
)

// Totals are cumulative stall times in microseconds: Some when at least one task waited, Full when all did.
type Totals struct{ Some, Full uint64 }
