package main

import "github.com/spf13/cobra"

// commands are all commands, in the order of the help.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.upCommand(),
		a.statusCommand(),
		a.topCommand(),
		a.offloadCommand(),
		a.configCommand(),
		a.restoreCommand(),
		a.demoCommand(),
		a.versionCommand(),
		a.completionCommand(),
		a.workerCommand(),
		a.canaryCommand(),
		a.demoPartCommand(),
		a.demoStallsCommand(),
	}
}
