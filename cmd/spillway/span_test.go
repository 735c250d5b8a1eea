package main

import (
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
)

func TestSpanText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 10 * time.Second: "10s", time.Minute: "1m", 10*time.Minute + 30*time.Second: "10m30s", 2 * time.Hour: "2h",
		1400 * time.Millisecond: "1s",
	} {
		if got := spanText(admin.Duration(d)); got != want {
			t.Errorf("%v became %q, want %q", d, got, want)
		}
	}
}
