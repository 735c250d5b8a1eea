// Package deploy carries the files an installation needs, so that the program can print them: the example
// configuration is the one place where every knob is written down with its unit, default and reason.
package deploy

import _ "embed"

// Example is the commented example configuration. Loaded, it equals the defaults.
//
//go:embed spillway.yaml
var Example string
