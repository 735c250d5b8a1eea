package tier

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/spillway-io/spillway/internal/psi"
)

// Which share of the time that a refault costs a kernel counts as memory pressure differs: a page is counted only if it
// was active when it left, so the classic LRU counts next to nothing of what was touched once, and the multi-generation
// one about three tenths. A brake on pressure alone is as good as this share, which is why the canary measures it.

// stalls is a look at memory "some" before the pages are touched. The canary's own pressure is best. Without it (no
// cgroup2 mount, pressure switched off there) the host's serves, if nothing else stalls meanwhile.
type stalls struct {
	own, host   string        // files; "" when there is none
	ownAt       time.Duration // totals
	hostAt      time.Duration
	took        time.Time
	before      float64 // share of time in host "some" before
	beforeKnown bool
}

// calmHost is the share of time in host "some", before the touching began, up to which its growth during the touching
// is the canary's: a tenth of the composite law's memory pressure target, so that what others add cannot be told from
// nothing.
const calmHost = 0.0001

// From whom a share was learned, or why it was not.
const (
	fromOwn   = "the canary's own pressure"
	fromHost  = "the host's pressure, which was calm otherwise"
	noisyHost = "unknown: the canary has no pressure of its own, and others on this host stall"
	noPSI     = "unknown: this kernel shows no memory pressure"
	noStall   = "unknown: nothing stalled"
)

// stalls looks before a touch.
func (r *canaryRun) stalls() (s stalls, err error) {
	s.took = time.Now()
	var ok bool
	if s.ownAt, ok, err = someTotal(r.press); err != nil {
		return s, err
	}
	if ok {
		s.own = r.press
		return s, nil
	}
	host := filepath.Join(r.c.Root, "proc/pressure/memory")
	if s.hostAt, ok, err = someTotal(host); err != nil || !ok {
		return s, err
	}
	s.host = host
	if span := s.took.Sub(r.hostFrom); r.hostKnown && span > 0 {
		s.before, s.beforeKnown = float64(s.hostAt-r.hostSome)/float64(span), true
	}
	return s, nil
}

// share is what part of total, the time lost in faults, was counted since, in [0,1] or NaN, and whose pressure said so.
func (s stalls) share(total time.Duration) (float64, string) {
	file, at, from := s.own, s.ownAt, fromOwn
	switch {
	case total <= 0:
		return math.NaN(), noStall
	case s.own == "" && s.host == "":
		return math.NaN(), noPSI
	case s.own == "" && (!s.beforeKnown || s.before > calmHost):
		return math.NaN(), noisyHost
	case s.own == "":
		file, at, from = s.host, s.hostAt, fromHost
	}
	now, ok, err := someTotal(file)
	if err != nil || !ok {
		return math.NaN(), noPSI
	}
	return min(1, max(0, float64(now-at)/float64(total))), from
}

// noteHost remembers the host's pressure before the pages are filled and sent out, against which its calm is judged:
// what the worker reclaims counts for nobody's pressure.
func (r *canaryRun) noteHost() {
	var err error
	r.hostFrom = time.Now()
	r.hostSome, r.hostKnown, err = someTotal(filepath.Join(r.c.Root, "proc/pressure/memory"))
	r.hostKnown = r.hostKnown && err == nil
}

// someTotal is the memory "some" total of a pressure file; false when there is none or it is switched off.
func someTotal(file string) (time.Duration, bool, error) {
	if file == "" {
		return 0, false, nil
	}
	f, err := psi.Open(file)
	if errors.Is(err, psi.ErrOff) || errors.Is(err, os.ErrNotExist) || errors.Is(err, errors.ErrUnsupported) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("tier: measure: %w", err)
	}
	defer f.Close()
	t, err := f.Read()
	if errors.Is(err, psi.ErrOff) || errors.Is(err, errors.ErrUnsupported) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("tier: measure: %w", err)
	}
	return time.Duration(t.Some) * time.Microsecond, true, nil
}
