package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/spillway-io/spillway/internal/admin"
)

// fetchTimeout bounds one read. A daemon that answers from memory and takes longer is as good as gone.
const fetchTimeout = 3 * time.Second

// historyEvery is how old the sparkline may be: it spans many minutes, and its answer is the largest.
const historyEvery = 10 * time.Second

type tickMsg time.Time

type snapMsg struct {
	snap snapshot
	err  error
}

type explainMsg struct {
	cgroup      string
	explanation admin.Explanation
	err         error
}

func (m *model) tick() tea.Cmd {
	return tea.Tick(m.every, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// fetch reads what the table shows. History is left nil when the last one is young enough.
func (m *model) fetch() tea.Cmd {
	withHistory := len(m.snap.history) == 0 ||
		m.snap.status.Now.Sub(m.snap.history[len(m.snap.history)-1].Time) >= historyEvery
	return func() tea.Msg {
		snap, err := read(m.ctx, m.client, withHistory)
		return snapMsg{snap: snap, err: err}
	}
}

func (m *model) fetchExplain(cgroup string) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, fetchTimeout)
		defer cancel()
		e, err := m.client.Explain(ctx, cgroup)
		return explainMsg{cgroup: cgroup, explanation: e, err: err}
	}
}

func read(ctx context.Context, c Client, withHistory bool) (s snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	defer func() { s.at = time.Now() }()
	if s.status, err = c.Status(ctx); err != nil {
		return s, err
	}
	if s.cgroups, err = c.Cgroups(ctx); err != nil {
		return s, err
	}
	if withHistory {
		s.history, err = c.History(ctx)
	}
	return s, err
}
