// Package cli is what every Spillway command shares: reading a configuration file, printing tables and JSON,
// and telling a person what went wrong, why, and what to do.
//
// Promise: nothing that came from the system (cgroup names, paths, error texts, lines of a file) reaches the
// terminal without Escape. JSON output is the admin API's own shape and is never escaped twice.
// Ownership: values passed in stay the caller's; nothing is kept. Nothing here locks or starts a goroutine.
// Failure: errors carry an errkind, which is the exit code, and where possible a hint.
// Non-goals: flags and commands, which belong to cmd/spillway; the live table, which is internal/cli/top.
package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spillway-io/spillway/internal/errkind"
)

// Output is the format of a command's answer: "table" (the zero value reads as table) or "json".
// It implements the flag value interface of cobra.
type Output string

// The two formats.
const (
	OutTable Output = "table"
	OutJSON  Output = "json"
)

// String returns the format's name.
func (o *Output) String() string {
	if *o == "" {
		return string(OutTable)
	}
	return string(*o)
}

// Set accepts "table" or "json".
func (o *Output) Set(s string) error {
	switch Output(s) {
	case OutTable, OutJSON:
		*o = Output(s)
		return nil
	}
	return errkind.New(errkind.Invalid, "cli: output %q is neither table nor json", s)
}

// Type names the value in --help.
func (o *Output) Type() string { return "table|json" }

// JSON reports whether the answer is to be JSON.
func (o Output) JSON() bool { return o == OutJSON }

// Print writes v as indented JSON, or calls table to write the human form.
func (o Output) Print(w io.Writer, v any, table func(io.Writer) error) error {
	if !o.JSON() {
		return table(w)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("cli: write json: %w", err)
	}
	return nil
}
