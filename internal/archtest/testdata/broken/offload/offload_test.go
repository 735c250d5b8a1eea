package offload

import (
	"testing"
	"time"
)

func TestSleeps(t *testing.T) { time.Sleep(time.Second) }
