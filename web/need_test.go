package web

import (
	"testing"

	"github.com/spillway-io/spillway/internal/probe"
)

func needChromium(t *testing.T) { t.Helper(); probe.Need(t, probe.Chromium) }
