package top

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/spillway-io/spillway/internal/admin"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); go test ./internal/cli/top -update rewrites it\n%s", file, diff)
	}
}

// settle runs a command and gives its messages to the model, ticks apart: they would go on for ever.
func settle(t *testing.T, m *model, cmd tea.Cmd) {
	t.Helper()
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			settle(t, m, c)
		}
	case nil, tickMsg, tea.QuitMsg:
	default:
		_, next := m.Update(msg)
		settle(t, m, next)
	}
}

func newTestModel(t *testing.T, c Client, width, height int) *model {
	t.Helper()
	m := newModel(t.Context(), c, time.Second)
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	settle(t, m, m.fetch())
	m.snap.at = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	m.now = m.snap.at
	return m
}

// press types keys: single letters, or names such as enter.
func press(t *testing.T, m *model, keys ...string) (quit bool) {
	t.Helper()
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown,
		"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace}
	for _, k := range keys {
		msg := tea.KeyPressMsg{Code: named[k]}
		switch {
		case k == "space":
			msg = tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}
		case k == "ctrl+c":
			msg = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
		case msg.Code == 0:
			msg = tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
		}
		_, cmd := m.Update(msg)
		if cmd != nil {
			out := cmd()
			if _, ok := out.(tea.QuitMsg); ok {
				return true
			}
			settle(t, m, func() tea.Msg { return out })
		}
	}
	return false
}

// screen is the picture without colours; every line must fit and there must be exactly height of them.
func screen(t *testing.T, m *model) string {
	t.Helper()
	s := ansi.Strip(m.View().Content)
	lines := strings.Split(s, "\n")
	if len(lines) != m.height {
		t.Errorf("%d lines on a terminal of %d", len(lines), m.height)
	}
	for i, l := range lines {
		if w := ansi.StringWidth(l); w > m.width {
			t.Errorf("line %d is %d cells wide on a terminal of %d: %q", i, w, m.width, l)
		}
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestTableAtWidths(t *testing.T) {
	for _, width := range []int{60, 80, 100, 160} {
		m := newTestModel(t, newFake(40), width, 16)
		golden(t, fmt.Sprintf("table-%d", width), screen(t, m))
	}
}

func TestAnySize(t *testing.T) {
	for width := 1; width <= 240; width += 7 {
		for _, height := range []int{1, 2, 5, 6, 7, 40} {
			m := newTestModel(t, newFake(9), width, height)
			for _, keys := range [][]string{{}, {"down"}, {"enter"}, {"pgdown", "esc", "?"}, {"x", "/", "n"}} {
				press(t, m, keys...)
				screen(t, m)
			}
		}
	}
}

func TestPanes(t *testing.T) {
	t.Setenv("TZ", "UTC")
	m := newTestModel(t, newFake(40), 80, 30)
	press(t, m, "?")
	golden(t, "help", screen(t, m))
	press(t, m, "x", "down", "down", "enter")
	got := screen(t, m)
	for i := range m.explain.Decisions { // local time of the machine that runs the test
		at := m.explain.Decisions[i].Time.Local().Format("15:04:05")
		got = strings.ReplaceAll(got, at, "hh:mm:ss")
	}
	golden(t, "explain", got)
	press(t, m, "end")
	end := screen(t, m)
	press(t, m, "down")
	if diff := cmp.Diff(end, screen(t, m)); diff != "" {
		t.Errorf("scrolling goes past the end:\n%s", diff)
	}
	press(t, m, "up")
	if screen(t, m) == end {
		t.Error("up after the end does nothing: scroll ran past it unseen")
	}
}

func TestSortFilterPause(t *testing.T) {
	f := newFake(40)
	m := newTestModel(t, f, 160, 16)
	first := func() *admin.Cgroup { return &m.snap.cgroups[m.rows[0]] }
	for key, bigger := range map[string]func(a, b *admin.Cgroup) bool{
		"m": func(a, b *admin.Cgroup) bool { return a.Usage > b.Usage },
		"p": func(a, b *admin.Cgroup) bool { return a.MemSome > b.MemSome },
		"f": func(a, b *admin.Cgroup) bool { return a.Refaults > b.Refaults },
		"u": func(a, b *admin.Cgroup) bool { return used(a) > used(b) },
		"v": func(a, b *admin.Cgroup) bool { return a.Saving > b.Saving },
		"n": func(a, b *admin.Cgroup) bool { return a.Path < b.Path },
	} {
		press(t, m, key)
		for i := range m.snap.cgroups {
			if bigger(&m.snap.cgroups[i], first()) {
				t.Errorf("key %s: %s should come before %s", key, m.snap.cgroups[i].Path, first().Path)
			}
		}
		top := first().Path
		press(t, m, key)
		if first().Path == top {
			t.Errorf("key %s twice does not turn the order round", key)
		}
	}
	press(t, m, "/", "r", "e", "d", "i", "s", "enter")
	if len(m.rows) != 10 {
		t.Errorf("filter redis shows %d of 10", len(m.rows))
	}
	press(t, m, "/", "x", "backspace", "backspace", "z")
	if s := screen(t, m); !strings.Contains(s, `no cgroup matches "rediz"`) {
		t.Errorf("no sentence about the empty result:\n%s", s)
	}
	if press(t, m, "q") {
		t.Error("q while typing a filter quits")
	}
	press(t, m, "esc", "space")
	before, calls := screen(t, m), f.calls.Load()
	_, cmd := m.Update(tickMsg(m.now.Add(time.Second)))
	if cmd == nil {
		t.Error("the clock stopped")
	}
	f.n = 3
	settle(t, m, m.fetch()) // one that was under way when space was pressed
	if !strings.Contains(before, "PAUSED") || len(m.snap.cgroups) != 40 {
		t.Errorf("not paused: %d cgroups after %d calls\n%s", len(m.snap.cgroups), f.calls.Load()-calls, before)
	}
	press(t, m, "space")
	if len(m.snap.cgroups) != 3 {
		t.Errorf("space does not go on: %d cgroups", len(m.snap.cgroups))
	}
	for _, k := range []string{"q", "ctrl+c"} {
		if !press(t, m, k) {
			t.Errorf("%s does not quit", k)
		}
	}
}

func TestDaemonGoesAndComes(t *testing.T) {
	f := newFake(6)
	f.down.Store(true)
	m := newTestModel(t, f, 80, 10)
	golden(t, "no-daemon", screen(t, m))
	f.down.Store(false)
	settle(t, m, m.fetch())
	if s := screen(t, m); strings.Contains(s, "STALE") || !strings.Contains(s, "540 MiB") {
		t.Fatalf("not taken up:\n%s", s)
	}
	f.down.Store(true)
	m.snap.at = time.Now().Add(-90 * time.Second)
	settle(t, m, m.fetch())
	s := screen(t, m)
	if !strings.Contains(s, "STALE 1m30s") || !strings.Contains(s, "redis-0") {
		t.Errorf("no stale mark, or the rows are gone:\n%s", s)
	}
	f.down.Store(false)
	settle(t, m, m.fetch())
	if strings.Contains(screen(t, m), "STALE") {
		t.Error("still stale after the daemon came back")
	}
}

func TestFlashBudget(t *testing.T) {
	drives := []admin.Drive{{Device: "sda"}}
	for _, c := range []struct {
		e    *admin.Endurance
		want string
	}{
		{nil, "zswap active"},
		{&admin.Endurance{Price: 1}, "zswap active"}, // nothing to write to
		{&admin.Endurance{Left: 1, Drives: drives}, "zswap active"},
		{&admin.Endurance{Price: 0.12, Left: 1, Drives: drives}, "zswap active   flash budget 12% gone"},
		{&admin.Endurance{Price: 1, Drives: drives}, "flash budget spent: no step writes to a drive   zswap active"},
	} {
		if got := ansi.Strip(fitParts(withFlash([]string{"zswap active"}, c.e), 80)); got != c.want {
			t.Errorf("%+v: %q, want %q", c.e, got, c.want)
		}
	}
}

// hostile is a daemon whose names try to drive the terminal.
type hostile struct{ *fake }

const evil = "\x1b[2J\x1b]0;owned\a\n/kube\u202epods/\xff\x9b31m" + "x"

func (h hostile) Cgroups(ctx context.Context) ([]admin.Cgroup, error) {
	cs, err := h.fake.Cgroups(ctx)
	cs[0].Path = "/" + evil + strings.Repeat("é漢", 2000)
	cs[0].Class, cs[0].Last.Reason, cs[2].Why = evil, evil, evil
	cs[0].Offloaded = map[string]int64{evil: 1 << 40}
	return cs, err
}

func (h hostile) Explain(ctx context.Context, path string) (admin.Explanation, error) {
	cs, _ := h.Cgroups(ctx)
	cs[0].PSIWhy, cs[0].PSI, cs[0].Mix = evil, false, evil
	cs[0].SLO = &admin.SLO{Source: evil, State: evil, StateWhy: evil}
	return admin.Explanation{Cgroup: cs[0], Params: map[string]float64{evil: 1},
		Decisions: []admin.Decision{{Reason: evil, Detail: evil, Error: evil, Inputs: []admin.Input{{Signal: evil}}}}}, nil
}

func TestHostileNames(t *testing.T) {
	for _, width := range []int{60, 160} {
		m := newTestModel(t, hostile{newFake(6)}, width, 30)
		for range 2 {
			raw := m.View().Content
			for _, bad := range []string{"\x1b[2J", "\x1b]", "\a", "\u202e", "\xff", "\x9b"} {
				if strings.Contains(raw, bad) {
					t.Errorf("%q reaches the terminal", bad)
				}
			}
			screen(t, m)
			press(t, m, "enter")
		}
	}
	var out bytes.Buffer
	if err := Once(t.Context(), hostile{newFake(6)}, &out); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\a\u202e") || strings.Count(out.String(), "\n") != 8 {
		t.Errorf("names drive the plain output:\n%.2000q", out.String())
	}
}

func TestOnce(t *testing.T) {
	var out bytes.Buffer
	if err := Once(t.Context(), newFake(8), &out); err != nil {
		t.Fatal(err)
	}
	golden(t, "once", out.String())
	f := newFake(8)
	f.down.Store(true)
	if err := Once(t.Context(), f, io.Discard); err == nil {
		t.Error("no error without a daemon")
	}
}

// A picture of 2,000 cgroups must not cost more than one of 100: only the rows on the screen are rendered.
func TestRendersOnlyWhatShows(t *testing.T) {
	allocs := func(n int) float64 {
		m := newTestModel(t, newFake(n), 160, 50)
		return testing.AllocsPerRun(20, func() { _ = m.screen() })
	}
	if few, many := allocs(100), allocs(2000); many > few*1.1 {
		t.Errorf("a screen of 2000 cgroups costs %.0f allocations, one of 100 costs %.0f", many, few)
	}
}

// The cursor follows its cgroup when figures move it, and stays at the top when nobody chose a row.
func TestCursorFollows(t *testing.T) {
	m := newTestModel(t, newFake(40), 100, 12)
	press(t, m, "n", "down", "down", "down")
	chosen := m.selected().Path
	press(t, m, "r")
	if m.selected().Path != chosen {
		t.Errorf("the cursor is on %s, not on %s", m.selected().Path, chosen)
	}
	if s := screen(t, m); !strings.Contains(s, "> /") {
		t.Errorf("the chosen row is not on the screen:\n%s", s)
	}
	press(t, m, "end")
	if m.cursor != 39 || !strings.Contains(screen(t, m), "40 of 40") {
		t.Errorf("end leads to row %d", m.cursor)
	}
	press(t, m, "home")
	if m.offset != 0 {
		t.Errorf("home shows from row %d", m.offset)
	}
}

func TestSparkline(t *testing.T) {
	point := func(vs ...int64) (ps []admin.Point) {
		for _, v := range vs {
			ps = append(ps, admin.Point{Saving: v})
		}
		return ps
	}
	for _, c := range []struct {
		in   []admin.Point
		want string
	}{
		{nil, ""}, {point(5), ""}, {point(0, 0, 0), "▁▁▁"}, {point(0, 7), "▁█"}, {point(-7, 0), "▁█"}, {point(0, 1, 2, 3, 4, 5, 6, 7), "▂▄▆█"},
	} {
		if got := sparkline(c.in, 4); got != c.want {
			t.Errorf("sparkline(%v) = %q, want %q", c.in, got, c.want)
		}
	}
}

// watched is a terminal that tells when the table has been drawn on it.
type watched struct {
	bytes.Buffer
	drawn func()
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Buffer.Write(b)
	if strings.Contains(w.String(), "540") {
		w.drawn()
	}
	return n, err
}

// Without colours everything is still said: the picture has no colour sequence when NO_COLOR is set.
func TestNoColor(t *testing.T) {
	colours := regexp.MustCompile(`\x1b\[[0-9;]*3[1-6]m`)
	draw := func(env ...string) string {
		in, keys := io.Pipe()
		out := &watched{drawn: sync.OnceFunc(func() { go keys.Write([]byte("q")) })}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := run(ctx, Config{Client: newFake(6), In: in, Out: out, Env: env}, tea.WithWindowSize(100, 20)); err != nil {
			t.Fatal(err)
		}
		if ctx.Err() != nil {
			t.Fatalf("nothing was drawn, or q does not quit: %q", out.String())
		}
		return out.String()
	}
	if s := draw("TERM=xterm-256color", "CLICOLOR_FORCE=1"); !colours.MatchString(s) {
		t.Errorf("no colour where colour is wanted: %q", s)
	}
	if s := draw("TERM=xterm-256color", "NO_COLOR=1"); colours.MatchString(s) {
		t.Errorf("colour %q with NO_COLOR", colours.FindString(s))
	}
}
