package top

import (
	"math"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// key takes one key press. While the filter is typed, letters are text and nothing else.
func (m *model) key(msg tea.KeyPressMsg) tea.Cmd {
	k := msg.String()
	if k == "ctrl+c" {
		return tea.Quit
	}
	if m.typing {
		m.filterKey(k, msg.Key().Text)
		return nil
	}
	switch m.pane {
	case paneHelp:
		if k == "q" {
			return tea.Quit
		}
		if !m.scrollKey(k) {
			m.pane = paneTable
		}
		return nil
	case paneExplain:
		return m.explainKey(k)
	}
	return m.tableKey(k)
}

func (m *model) tableKey(k string) tea.Cmd {
	switch k {
	case "q":
		return tea.Quit
	case "?", "h":
		m.pane, m.scroll = paneHelp, 0
	case "/":
		m.typing = true
	case "esc":
		m.setFilter("")
	case "space":
		m.paused = !m.paused
		if !m.paused {
			return m.fetch()
		}
	case "enter":
		if c := m.selected(); c != nil {
			m.pane, m.explainFor, m.scroll = paneExplain, c.Path, 0
			m.explain.Decisions, m.explainErr = nil, nil
			m.explain.Cgroup = *c
			return m.fetchExplain(c.Path)
		}
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup", "ctrl+u":
		m.move(-m.pageSize())
	case "pgdown", "ctrl+d":
		m.move(m.pageSize())
	case "home", "g":
		m.move(-len(m.rows))
	case "end", "G":
		m.move(len(m.rows))
	case "r":
		m.reverse = !m.reverse
		m.arrange()
	case "s":
		m.sort, m.reverse = (m.sort+1)%sortKeys, false
		m.arrange()
	default:
		if s, ok := sortOf(k); ok {
			m.reverse = m.sort == s && !m.reverse // the same key again turns the order round
			m.sort = s
			m.arrange()
		}
	}
	return nil
}

func (m *model) filterKey(k, text string) {
	switch k {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		m.setFilter("")
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(m.filter)
		m.setFilter(m.filter[:len(m.filter)-n])
	case "ctrl+u":
		m.setFilter("")
	case "up", "down":
		m.tableKey(k)
	default:
		m.setFilter(m.filter + text)
	}
}

func (m *model) explainKey(k string) tea.Cmd {
	switch k {
	case "q", "esc", "enter", "backspace", "left":
		m.pane = paneTable
	case "?":
		m.pane, m.scroll = paneHelp, 0
	case "space":
		m.paused = !m.paused
	default:
		m.scrollKey(k)
	}
	return nil
}

// scrollKey moves through a pane of text; View stops it at the last line.
func (m *model) scrollKey(k string) bool {
	switch k {
	case "up", "k":
		m.scroll = max(m.scroll-1, 0)
	case "down", "j":
		m.scroll++
	case "pgup":
		m.scroll = max(m.scroll-m.height/2, 0)
	case "pgdown":
		m.scroll += m.height / 2
	case "home", "g":
		m.scroll = 0
	case "end", "G":
		m.scroll = math.MaxInt32
	default:
		return false
	}
	return true
}
