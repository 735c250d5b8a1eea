package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/spillway-io/spillway/internal/errkind"
)

// version is the release; the release build overrides it with -ldflags "-X main.version=…".
var version = "0.1.0-dev"

// build is what `spillway version` says.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // "" when the build did not know it
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildInfo() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print version, commit and Go version",
		Example: "  spillway version\n  spillway version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := buildInfo()
			return a.print(b, func(w io.Writer) error {
				commit := b.Commit
				switch {
				case commit == "":
					commit = "unknown"
				case b.Modified:
					commit += " with local changes"
				}
				_, err := fmt.Fprintf(w, "spillway %s\ncommit   %s\nbuilt by %s for %s\n", b.Version, commit, b.Go, b.Platform)
				return err
			})
		},
	}
}

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a completion script for a shell",
		Example:   "  source <(spillway completion bash)\n  spillway completion zsh > ~/.zfunc/_spillway",
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out, true)
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			}
			return errkind.New(errkind.Invalid, "completion: %q is none of bash, zsh, fish", args[0])
		},
	}
}
