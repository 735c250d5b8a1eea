// Package load is the demo's client side: it fills key-value servers with text-like values and then reads
// from them on a fixed schedule, measuring how long each read took from the moment it was due.
//
// Promise: the generator is open-loop. A server that stalls does not slow the schedule down, and the reads
// that came due during the stall are measured from when they were due (coordinated omission corrected).
// Every target gets the same keys in the same order in the same seconds.
// Ownership: a Reply's bytes belong to the Decoder until its next call; Second values are the caller's.
// Failure: a lost connection or an error reply ends Run with an error that names the target.
// Non-goals: more of Redis' protocol than GET, SET, PING and DBSIZE need.
package load
