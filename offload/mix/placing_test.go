package mix

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-io/spillway/internal/bytesize"
)

// poolOf is one cgroup's part of a pool that compresses to a third, before a disk; the kernel's part is as Linux 6.8
// documents it: over the limit the oldest page is written out for each that is taken in.
type poolOf struct {
	placing Placing
	mover   Mover
	look    Look
	g       Ground
	now     Placement
	written int64
}

func newPoolOf() *poolOf {
	return &poolOf{g: Ground{Pool: true, Disk: true, Moves: true, CanKeep: true, CanLimit: true, Left: 500 << 20, MaxCost: 0.003}}
}

// minute lets a minute pass in which so much went out and came back from either place.
func (h *poolOf) minute(sent, back, disk int64) {
	l := &h.look
	l.At += time.Minute
	back = min(back, l.Stored)
	l.Sent, l.Back, l.DiskBack = l.Sent+sent, l.Back+back+disk, l.DiskBack+disk
	l.Stored += sent - back
	if h.now.Limit > 0 && l.Stored/3 > h.now.Limit {
		l.Stored -= sent
		h.written += sent
	}
	l.Pool = l.Stored / 3
	h.g.Kept, h.g.Limit = h.now.Keep, h.now.Limit
	h.now = h.placing.Decide(*l, h.g)
}

// placing runs the lines
//
//	placing                                          a fresh cgroup nobody waits for, and 500 MiB that may be written
//	ground [-]FLAG… KEY=VALUE…                       what it depends on, until set again
//	minutes N [sent=] [back=] [disk=]                so many minutes with so much each, one decision a minute
//	mover [pool] [disk] [anyhow] [budget] [tells] [ours=] [stored=] [price=]
//
// Decisions in a row of one kind are folded: how many, and the last one.
func (x *script) placing(out *strings.Builder, verb string, args []string) {
	switch verb {
	case "placing":
		x.held = newPoolOf()
	case "ground":
		x.ground(args)
	case "minutes":
		n, err := strconv.Atoi(args[0])
		if err != nil {
			x.t.Fatal(err)
		}
		sizes := map[string]int64{}
		for _, a := range args[1:] {
			key, val, _ := strings.Cut(a, "=")
			sizes[key] = x.size(val)
		}
		x.minutes(out, n, sizes)
	case "mover":
		x.mover(out, args)
	}
}

func (x *script) minutes(out *strings.Builder, n int, sizes map[string]int64) {
	h := x.held
	kind := func(p Placement) string {
		switch {
		case p.Keep:
			return "keep"
		case p.Limit > 0:
			return "limit"
		}
		return "default"
	}
	count, last := 0, Placement{}
	flush := func() {
		if count == 0 {
			return
		}
		fmt.Fprintf(out, "%3d × %s", count, kind(last))
		if last.Detail != "" {
			fmt.Fprintf(out, ": %s", last.Detail)
		}
		out.WriteString("\n")
		count = 0
	}
	for range n {
		h.minute(sizes["sent"], sizes["back"], sizes["disk"])
		if count > 0 && kind(last) != kind(h.now) {
			flush()
		}
		last = h.now
		count++
	}
	flush()
	if h.written > 0 {
		fmt.Fprintf(out, "      %v in the pool before compression, %v written\n", bytesize.Size(h.look.Stored/mib*mib), bytesize.Size(h.written/mib*mib))
	}
}

func (x *script) ground(args []string) {
	g := &x.held.g
	for _, a := range args {
		key, val, has := strings.Cut(a, "=")
		on := !strings.HasPrefix(key, "-")
		flags := map[string]*bool{"pool": &g.Pool, "disk": &g.Disk, "moves": &g.Moves, "poor": &g.Poor, "latency": &g.Latency,
			"can-keep": &g.CanKeep, "can-limit": &g.CanLimit}
		if p := flags[strings.TrimPrefix(key, "-")]; p != nil && !has {
			*p = on
			continue
		}
		switch key {
		case "full":
			g.Full = x.float(val)
		case "price":
			g.Price = x.float(val)
		case "left":
			g.Left = x.size(val)
		case "disk-cost":
			g.DiskCost = x.duration(val)
		case "max-cost":
			g.MaxCost = x.float(val)
		default:
			x.t.Fatalf("unknown key %q", key)
		}
	}
}

func (x *script) mover(out *strings.Builder, args []string) {
	var m Machine
	for _, a := range args {
		switch key, val, _ := strings.Cut(a, "="); key {
		case "pool":
			m.Pool = true
		case "disk":
			m.Disk = true
		case "anyhow":
			m.Anyhow = true
		case "budget":
			m.Budget = true
		case "tells":
			m.Tells = true
		case "ours":
			m.Ours = x.size(val)
		case "stored":
			m.Stored = x.size(val)
		case "price":
			m.Price = x.float(val)
		default:
			x.t.Fatalf("unknown key %q", key)
		}
	}
	on, why := x.held.mover.Decide(m)
	fmt.Fprintf(out, "%v %s\n", map[bool]string{true: "on", false: "off"}[on], why)
}

// Whatever is seen: what a decision lets be written fits in the budget, nothing is let out when that is spent, a limit
// never shuts the pool, and without ground to stand on, or once the last of it is gone, everything is as the kernel has
// it by default.
func TestPlacingStaysWithinTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newPoolOf()
		size := rapid.Int64Range(0, 64<<20)
		for range rapid.IntRange(1, 300).Draw(t, "minutes") {
			h.g.Left = rapid.Int64Range(0, 1<<30).Draw(t, "left")
			h.g.Price = rapid.SampledFrom([]float64{0, 0, 0, 0.4, 0.7, 1}).Draw(t, "price")
			h.g.Full = rapid.Float64Range(0, 1).Draw(t, "full")
			h.g.Latency = rapid.IntRange(0, 9).Draw(t, "latency") == 0
			h.g.CanKeep, h.g.CanLimit = rapid.IntRange(0, 9).Draw(t, "keep") > 0, rapid.IntRange(0, 9).Draw(t, "limit") > 0
			h.g.Moves = rapid.IntRange(0, 9).Draw(t, "moves") > 0
			h.g.Poor = rapid.IntRange(0, 19).Draw(t, "poor") == 0
			before := h.now
			busy := rapid.IntRange(0, 3).Draw(t, "busy") == 0
			var back, disk int64
			if busy {
				back, disk = size.Draw(t, "back"), size.Draw(t, "disk")
			}
			h.minute(size.Draw(t, "sent"), back, disk)
			p, l := h.now, h.look
			switch {
			case p.Writes > h.g.Left || p.Writes > 2*moveStep || p.Writes < 0:
				t.Fatalf("lets %d be written of %d", p.Writes, h.g.Left)
			case p.Limit > 0 && h.g.Price >= 1, p.Limit > 0 && p.Keep:
				t.Fatalf("%+v at price %v", p, h.g.Price)
			case p.Limit != 0 && (p.Limit < leastPool || p.Limit%page != 0):
				t.Fatalf("limit %d", p.Limit)
			case p.Limit > 0 && p.Limit < before.Limit && p.Writes == 0:
				t.Fatalf("lowered from %d to %d for nothing", before.Limit, p.Limit)
			case p.Limit > 0 && before.Limit == 0 && l.At < LongCold:
				t.Fatalf("long cold after %v", l.At)
			case p != Placement{} && (!h.g.Moves || h.g.Poor), p.Keep && !h.g.CanKeep, p.Limit > 0 && !h.g.CanLimit, p.Keep && h.g.Full > fullAbove:
				t.Fatalf("%+v on %+v", p, h.g)
			case (p == Placement{}) != (p.Detail == ""):
				t.Fatalf("%+v", p)
			}
		}
		h.g.Disk = rapid.Bool().Draw(t, "disk stays")
		h.g.Pool = false
		if h.minute(0, 0, 0); h.now != (Placement{}) {
			t.Fatalf("without a pool %+v", h.now)
		}
	})
}
