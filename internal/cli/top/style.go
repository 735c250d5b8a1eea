package top

import "charm.land/lipgloss/v2"

// Colours are the terminal's own sixteen, so they follow its theme, light or dark. NO_COLOR and poor
// terminals lose them in the output layer; everything they say is also said in words or by bold and reverse.
var (
	styleTitle = lipgloss.NewStyle().Bold(true)
	styleHead  = lipgloss.NewStyle().Bold(true).Underline(true)
	styleSort  = lipgloss.NewStyle().Bold(true).Underline(true).Foreground(lipgloss.Cyan)
	styleRow   = lipgloss.NewStyle().Reverse(true)
	styleDim   = lipgloss.NewStyle().Faint(true)
	styleGood  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	styleWarn  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	styleBad   = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red)
)
