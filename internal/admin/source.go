package admin

import "context"

// Reader is everything one may ask a daemon without changing anything; the dashboard gets only this half.
//
// Every method is called concurrently and must answer from memory, without touching the kernel. The values
// returned belong to the caller: the daemon hands out copies or things it never changes again. Every float is
// finite, because JSON has no NaN and one of them would cost the whole answer.
type Reader interface {
	Status() Status
	// Cgroups returns one row for each known cgroup, in any order, each path once.
	Cgroups() []Cgroup
	// Decisions returns the newest decisions, newest first, of one cgroup or of all when cgroup is "".
	// The limit is in [1, MaxDecisions].
	Decisions(cgroup string, limit int) []Decision
	// History returns samples, oldest first. A daemon whose loop is alive adds one each period or more
	// often: the dashboard calls its figures stale when the newest one is older than three periods.
	History() []Point
	// Explain returns an error of kind NotFound when the daemon does not know the cgroup.
	Explain(cgroup string) (Explanation, error)
}

// Source is what the admin server serves; the daemon implements it, tests fake it.
type Source interface {
	Reader
	// Reload reads the config file again and applies it; an invalid file changes nothing and is returned as an error.
	Reload(ctx context.Context) error
}
