package top

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/spillway-io/spillway/internal/admin"
)

// pane is what fills the screen.
type pane int

const (
	paneTable pane = iota
	paneExplain
	paneHelp
)

// model is everything on the screen. Update changes it; View only reads it, but for stopping scroll at the end.
type model struct {
	ctx    context.Context // of the whole run: fetches end with it
	client Client
	every  time.Duration

	width, height int
	pane          pane
	paused        bool
	typing        bool // the filter is being typed
	filter        string
	sort          sortKey
	reverse       bool

	snap    snapshot
	have    bool  // a snapshot arrived at least once
	err     error // of the last fetch; nil when it worked
	now     time.Time
	tiers   []string // tiers that get a column of their own
	rows    []int    // indices into snap.cgroups, filtered and sorted
	cursor  int      // index into rows
	offset  int      // first row on the screen
	current string   // path under the cursor: it stays selected when rows move

	explain    admin.Explanation
	explainFor string
	explainErr error
	scroll     int
}

// snapshot is one answer of the daemon.
type snapshot struct {
	at      time.Time
	status  admin.Status
	cgroups []admin.Cgroup
	history []admin.Point
}

func newModel(ctx context.Context, c Client, every time.Duration) *model {
	return &model{ctx: ctx, client: c, every: every, width: 80, height: 24, sort: sortOffloaded}
}

// Init starts the first read and the clock.
func (m *model) Init() tea.Cmd { return tea.Batch(m.fetch(), m.tick()) }

// Update takes one event.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.keepVisible()
	case tickMsg:
		m.now = time.Time(msg)
		if m.paused {
			return m, m.tick()
		}
		cmds := []tea.Cmd{m.tick(), m.fetch()}
		if m.pane == paneExplain {
			cmds = append(cmds, m.fetchExplain(m.explainFor))
		}
		return m, tea.Batch(cmds...)
	case snapMsg:
		m.take(msg)
	case explainMsg:
		if msg.cgroup == m.explainFor {
			m.explain, m.explainErr = msg.explanation, msg.err
		}
	case tea.PasteMsg:
		if m.typing {
			m.setFilter(m.filter + strings.TrimSpace(msg.Content))
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// take replaces the snapshot. After an error the last good one stays.
func (m *model) take(msg snapMsg) {
	m.now = msg.snap.at
	m.err = msg.err
	if msg.err != nil || m.paused && m.have {
		return
	}
	history := m.snap.history
	m.snap, m.have = msg.snap, true
	if m.snap.history == nil {
		m.snap.history = history
	}
	m.tiers = tierNames(m.snap)
	m.arrange()
}

// arrange filters and sorts, and finds the selected cgroup again.
func (m *model) arrange() {
	m.rows = m.rows[:0]
	needle := strings.ToLower(m.filter)
	for i := range m.snap.cgroups {
		c := &m.snap.cgroups[i]
		if needle == "" || strings.Contains(strings.ToLower(c.Path), needle) || strings.Contains(c.Class, needle) {
			m.rows = append(m.rows, i)
		}
	}
	slices.SortStableFunc(m.rows, func(a, b int) int {
		n := m.sort.compare(&m.snap.cgroups[a], &m.snap.cgroups[b])
		if m.reverse {
			n = -n
		}
		if n == 0 {
			n = strings.Compare(m.snap.cgroups[a].Path, m.snap.cgroups[b].Path)
		}
		return n
	})
	if i := slices.IndexFunc(m.rows, func(i int) bool { return m.snap.cgroups[i].Path == m.current }); i >= 0 && m.current != "" {
		m.cursor = i
	}
	m.move(0)
}

// move shifts the cursor by n rows, within the list.
func (m *model) move(n int) {
	m.cursor = min(max(m.cursor+n, 0), max(len(m.rows)-1, 0))
	m.current = ""
	if len(m.rows) > 0 && (m.cursor > 0 || n != 0) {
		m.current = m.snap.cgroups[m.rows[m.cursor]].Path // the top row, unless chosen, is "whatever leads"
	}
	m.keepVisible()
}

// keepVisible scrolls so that the cursor is on the screen.
func (m *model) keepVisible() {
	page := m.pageSize()
	m.offset = min(m.offset, m.cursor)
	m.offset = max(m.offset, m.cursor-page+1)
	m.offset = max(min(m.offset, len(m.rows)-page), 0)
}

func (m *model) setFilter(s string) {
	if len(s) > 256 {
		s = s[:256]
	}
	m.filter = s
	m.arrange()
}

// selected is the cgroup under the cursor, nil when the list is empty.
func (m *model) selected() *admin.Cgroup {
	if m.cursor >= len(m.rows) {
		return nil
	}
	return &m.snap.cgroups[m.rows[m.cursor]]
}
