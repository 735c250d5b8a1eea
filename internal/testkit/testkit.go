// Package testkit holds what tests of several packages share: the lock on this host's exclusive state, and
// folders that look like a machine's cgroups.
//
// Promise: a helper that cannot do its job fails the test that asked; what it made is gone when that test
// ends. Only tests import it.
package testkit
