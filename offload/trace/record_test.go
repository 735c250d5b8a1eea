package trace

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/spillway-io/spillway/offload/heat"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/replay"
)

func TestRecorder(t *testing.T) {
	const mib = 1 << 20
	r := NewRecorder(2 * time.Minute)
	if r.Source() != Refaults {
		t.Errorf("source %q before any reading", r.Source())
	}
	reading := func(promo heat.Histogram) *heat.Reading {
		return &heat.Reading{
			Span: time.Hour, Source: "idle-bitmap", WorkingSet: 300 * mib, Promo: promo,
			// 130 s falls between the first two ages: it is older than 120 s. 20 h is beyond the last.
			Cold: heat.Histogram{{Idle: 0, Bytes: 300 * mib}, {Idle: 130 * time.Second, Bytes: 40 * mib}, {Idle: 20 * time.Hour, Bytes: 60 * mib}},
		}
	}
	r.Add(0, Seen{Name: "a", Usage: 400 * mib, Heat: reading(heat.Histogram{{Idle: 170 * time.Second, Bytes: mib}})})
	r.Add(1, Seen{Name: "a", Usage: 400 * mib, Refaults: 1, Heat: reading(nil)})
	r.Add(1, Seen{Name: "b", Usage: 50 * mib, Refaults: 2.5})
	// a is away for an interval
	r.Add(3, Seen{Name: "a", Usage: 400 * mib, Heat: reading(heat.Histogram{})})

	first := replay.Interval{WorkingSet: 300 * mib}
	first.Cold[0], first.Cold[policy.Ages-1] = 40*mib, 60*mib
	second, third := first, first
	first.Promo[1] = 2 * mib
	second.Promo[policy.Ages-1] = 120 * 4096
	b := replay.Interval{WorkingSet: 50 * mib}
	b.Promo[policy.Ages-1] = 300 * 4096
	want := []replay.Job{
		{Name: "a", Age: 58 * time.Minute, Intervals: []replay.Interval{first, second}},
		{Name: "b", Start: 2 * time.Minute, Intervals: []replay.Interval{b}},
		{Name: "a", Start: 6 * time.Minute, Age: 58 * time.Minute, Intervals: []replay.Interval{third}},
	}
	got, err := gather(r.Trace())
	if err != nil || !reflect.DeepEqual(got, want) || r.Source() != "idle-bitmap" {
		t.Errorf("%v, source %q\n%+v\nwant\n%+v", err, r.Source(), got, want)
	}
	tr, err := Read(bytes.NewReader(written(t, r.Trace())))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := gather(tr); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("from the file: %v %+v", err, got)
	}
}
