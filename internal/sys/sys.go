// Package sys is the one door through which the rest of Spillway reaches system calls.
//
// Promise: thin. A function here makes one system call (or reads one file) and wraps its error once; policy
// lives with the caller. Calls that must notice a signal (WriteRaw) never retry after EINTR; all others do.
// Ownership: descriptors and mappings that a function returns belong to the caller.
// Linux only: on other systems the package is empty, and what needs it does not build.
package sys
