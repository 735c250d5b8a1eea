package endurance

import (
	"fmt"
	"time"
)

const (
	tenMinutes = 600 // seconds, the grain of the history
	daySlots   = 24*3600/tenMinutes + 1
	hourSlots  = 3600/tenMinutes + 1
	year       = 365.25 * 24 * 3600 // seconds
)

// wear is the history of one drive: a day in steps of ten minutes.
type wear struct {
	first int64 // unix time of the first observation ever
	from  int64 // unix time since which there is no gap
	last  int64 // unix time of the newest observation
	total int64 // bytes seen written, ever
	slots [daySlots]int64
}

func (w *wear) add(now time.Time, n int64) {
	at := now.Unix()
	if w.first == 0 {
		w.first, w.from, w.last = at, at, at
	}
	w.total = min(w.total+n, most)
	switch {
	case at < w.last-tenMinutes: // the clock was set back
		w.slots = [daySlots]int64{}
		w.from, n = at, 0
	case at > w.last+tenMinutes: // nobody watched: when in the gap n was written is not known
		w.from, n = at, 0
	}
	at = max(at, w.from)
	w.clear(w.last/tenMinutes, at/tenMinutes)
	w.last = at
	s := &w.slots[at/tenMinutes%int64(daySlots)]
	*s += min(n, most-*s)
}

// clear empties the slots after before, up to now.
func (w *wear) clear(before, now int64) {
	for k := max(before+1, now-int64(daySlots)+1); k <= now; k++ {
		w.slots[k%int64(daySlots)] = 0
	}
}

// rate is bytes a second over the newest n slots, and over how long that was; no longer than watched without a gap.
func (w *wear) rate(n int64) (perSecond float64, over time.Duration) {
	now := w.last / tenMinutes
	var sum int64
	for k := max(now-n+1, w.from/tenMinutes); k <= now; k++ {
		sum += w.slots[k%int64(daySlots)]
	}
	seconds := w.last - max((now-n+1)*tenMinutes, w.from)
	if seconds <= 0 {
		return 0, 0
	}
	return float64(sum) / float64(seconds), time.Duration(seconds) * time.Second
}

// Wear is how one drive behind swap wears.
type Wear struct {
	Device  string
	Total   int64     // bytes seen written to it, by anybody, since Since
	Since   time.Time // of the first observation
	Ten     float64   // bytes a second over the last ten to twenty minutes, or as long as it is watched
	Hour    float64   // bytes a second over the last hour, or as long as it is watched
	Day     float64   // bytes a second over the last day, or as long as it is watched
	Over    time.Duration
	Years   float64 // that the rating lasts at the day's rate from now; 0 when Why says why that is unknown
	Why     string  // why there is no forecast, "" when there is one
	Forever bool    // nothing is written: no number of years says it
}

// enough is how long a drive must be watched before its future is told from its past.
const enough = 10 * time.Minute

func (w *wear) report(name string, tbw int64, now time.Time) Wear {
	r := Wear{Device: name, Total: w.total, Since: time.Unix(w.first, 0).In(now.Location())}
	r.Ten, _ = w.rate(2) // the slot that is not over, and a whole one
	r.Hour, _ = w.rate(hourSlots)
	r.Day, r.Over = w.rate(daySlots)
	switch {
	case tbw <= 0:
		r.Why = "its rating is not known: set offload.endurance.tbw"
	case r.Over < enough:
		r.Why = "watched for less than ten minutes"
	case r.Day == 0:
		r.Forever = true
	default:
		r.Years = float64(max(tbw-w.total, 0)) / r.Day / year
	}
	return r
}

// Text is the forecast for people.
func (w Wear) Text() string {
	span := "the last day"
	if w.Over < 24*time.Hour {
		span = "the last " + w.Over.Round(time.Minute).String()
	}
	switch {
	case w.Why != "":
		return "no forecast for " + w.Device + ": " + w.Why
	case w.Forever:
		return "nothing was written to " + w.Device + " in " + span
	case w.Years >= 100:
		return fmt.Sprintf("at the rate of %s %s lasts over 100 years", span, w.Device)
	}
	return fmt.Sprintf("at the rate of %s %s lasts %.1f years", span, w.Device, w.Years)
}
