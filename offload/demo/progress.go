package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spillway-io/spillway/internal/cli"
)

// total is how long the whole demo usually takes, for the estimate on the progress line. It is the sum of
// what the phases announce; newProgress' caller adds to it with expect.
type progress struct {
	out      io.Writer
	terminal bool
	start    time.Time

	mu sync.Mutex
	// +checklocks:mu
	name string
	// +checklocks:mu
	ends time.Time // when the phase should be over; zero: unknown
	// +checklocks:mu
	left time.Duration // of the phases still to come
	// +checklocks:mu
	live string
	// +checklocks:mu
	drawn bool
	// +checklocks:mu
	printed time.Time // last line, when not on a terminal
}

// lineEvery is how often a phase that goes on says so when the output is not a terminal.
const lineEvery = 20 * time.Second

func newProgress(out io.Writer, terminal bool) *progress {
	return &progress{out: out, terminal: terminal, start: time.Now()}
}

// expect announces phases to come, for the estimate.
func (p *progress) expect(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += d
}

// phase begins a phase of about d, 0 when nobody knows.
func (p *progress) phase(name string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name, p.live, p.ends, p.left = name, "", time.Now().Add(d), max(0, p.left-d)
	if d == 0 {
		p.ends = time.Time{}
	}
	p.drawLocked(true)
}

// update refreshes what the phase shows.
func (p *progress) update(live string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live = live
	p.drawLocked(time.Since(p.printed) >= lineEvery)
}

// note prints one line that stays.
func (p *progress) note(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eraseLocked()
	fmt.Fprintln(p.out, cli.Escape(s))
	p.drawLocked(false)
}

// stop erases the progress line; a later phase draws a new one.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eraseLocked()
	p.name = ""
}

// +checklocks:p.mu
func (p *progress) eraseLocked() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[2K")
		p.drawn = false
	}
}

// +checklocks:p.mu
func (p *progress) drawLocked(line bool) {
	if p.name == "" || !p.terminal && !line {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[%3.0fs] %s", time.Since(p.start).Seconds(), p.name)
	if p.live != "" {
		b.WriteString("  " + p.live)
	}
	if !p.ends.IsZero() {
		eta := max(0, time.Until(p.ends)) + p.left
		fmt.Fprintf(&b, "  ETA %d:%02d", int(eta.Minutes()), int(eta.Seconds())%60)
	}
	if !p.terminal {
		p.printed = time.Now()
		fmt.Fprintln(p.out, cli.Escape(b.String()))
		return
	}
	p.eraseLocked()
	fmt.Fprint(p.out, strings.TrimRight(cli.FitEnd(cli.Escape(b.String()), 118), " "))
	p.drawn = true
}
