package offload

import (
	"flag"
	"syscall"
	"testing"
	"time"

	_ "example.com/clean/internal/testkit"
)

var update = flag.Bool("update", false, "rewrite goldens")

func TestWaits(t *testing.T) {
	<-time.NewTimer(time.Nanosecond).C
	_ = syscall.Getpid()
}
