package rig

import (
	"fmt"

	"github.com/spillway-io/spillway/offload/demo/watch"
)

// What the recorder of an experiment sees: see package watch. Members are numbered as in Config.Members.
type (
	Sample   = watch.Sample
	Reading  = watch.Reading
	Recorder = watch.Recorder
)

// Watch begins to look at all members. The first sample is taken before it returns. Close ends it.
func (r *Rig) Watch() (*Recorder, error) {
	var members []watch.Member
	for _, m := range r.members {
		members = append(members, watch.Member{Name: m.Name, Path: m.Path, Pressure: m.Dirs[len(m.Dirs)-1]})
	}
	rec, err := watch.Start(r.h, members)
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	r.rec = rec
	return rec, nil
}
