package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// What the daemon tells systemd with Notify; see sd_notify(3).
const (
	Ready     = "READY=1"
	Reloading = "RELOADING=1"
	Stopping  = "STOPPING=1"
	Watchdog  = "WATCHDOG=1"
)

// Status is the line that systemctl status shows, for Notify; line breaks in it become spaces.
func Status(text string) string {
	return "STATUS=" + strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
}

// Notify tells the service manager; without one (no NOTIFY_SOCKET) it does nothing. Several lines may be
// joined with "\n". An error is worth a log line and nothing else.
func Notify(state string) error {
	addr := os.Getenv("NOTIFY_SOCKET")
	if addr == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: addr, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("daemon: notify service manager: %w", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("daemon: notify service manager: %w", err)
	}
	return nil
}

// WatchdogInterval is how often the service manager wants to hear from this process; 0 when it does not.
func WatchdogInterval() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0 // meant for the process that started us
	}
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

// RunWatchdog tells the service manager three times per interval that the daemon lives, as long as alive says
// so: a loop that hangs must be restarted although this goroutine still runs. It returns when ctx ends, at
// once when no watchdog is wanted, or with the first error.
func RunWatchdog(ctx context.Context, alive func() bool) error {
	every := WatchdogInterval() / 3
	if every <= 0 {
		return nil
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if alive() {
			if err := Notify(Watchdog); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
