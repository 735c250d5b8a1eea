package offload

import (
	"fmt"
	"strings"
)

// showPlacing says what is done.
func (a *Agent) showPlacing(on bool, why string, v2 bool) {
	p := &a.placing
	var can, cannot string
	switch {
	case on && p.shrinker != "":
		can = "move what is long cold from the pool to the disk: zswap's shrinker is on for as long as this daemon runs"
	case on:
		can = "let the kernel move what is long cold from the pool to the disk: somebody switched zswap's shrinker on"
	case p.refused:
		cannot = "move what is long cold from the pool to the disk: the shrinker could not be switched on"
	case p.shrinker != "":
		cannot = "move what is long cold from the pool to the disk: somebody switched zswap's shrinker off again"
	default:
		cannot = "move what is long cold from the pool to the disk: " + why
	}
	switch {
	case !v2:
		cannot = strings.TrimPrefix(cannot+"; place the pool's pages cgroup by cgroup: cgroup v1 has neither "+fileWriteback+" nor "+fileZswapMax+
			", only the shrinker of the whole pool (tiers.write_back: on)", "; ")
	case on || p.kept > 0:
		can = strings.TrimPrefix(can+fmt.Sprintf("; of %d cgroups the pages stay in the pool, of %d its oldest may be pushed out", p.kept, p.limited), "; ")
	}
	a.sayPlacing(can, cannot)
}

func (a *Agent) sayPlacing(can, cannot string) {
	a.mu.Lock()
	a.placing.can, a.placing.cannot = can, cannot
	a.mu.Unlock()
}

// placed completes the sentence about t's last step by where its pages lie.
func (t *target) placed() string {
	return strings.TrimPrefix(strings.TrimSuffix(t.blend.say+"; "+t.home.say, "; "), "; ")
}

// placingLocked adds what is done about where pages lie, and which areas are in the wrong order.
//
// +checklocks:a.mu
func (a *Agent) placingLocked(will, wont []string) (can, cannot []string) {
	if s := a.placing.can; s != "" {
		will = append(will, s)
	}
	if s := a.placing.cannot; s != "" {
		wont = append(wont, s)
	}
	if s := a.tiers.Misordered(); s != "" {
		wont = append(wont, s)
	}
	return will, wont
}
