package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/internal/probe"
)

// PrintError tells a person what happened and why (the error's own text, outermost verb first), shows the
// place in a configuration file, and says what to do. A nil error prints nothing.
func PrintError(w io.Writer, err error) {
	if err == nil {
		return
	}
	fmt.Fprintf(w, "spillway: %s\n", escapeLines(err.Error()))
	var fe *FileError
	if errors.As(err, &fe) && fe.Excerpt() != "" {
		fmt.Fprintf(w, "%s\n", fe.Excerpt())
	}
	if do := Advice(err); do != "" {
		fmt.Fprintf(w, "  do: %s\n", escapeLines(do))
	}
}

// Advice is what to do about an error: its hint, else what the missing kernel feature asks for, else the
// general advice for its kind, else "".
func Advice(err error) string {
	if hint := errkind.HintOf(err); hint != "" {
		return hint
	}
	var missing *probe.Missing
	if errors.As(err, &missing) && missing.Do != "" {
		return missing.Do
	}
	switch errkind.Of(err) {
	case errkind.Denied:
		return "run it as root, for example: sudo spillway …"
	case errkind.Invalid:
		return "see spillway --help, or spillway COMMAND --help"
	}
	return ""
}
