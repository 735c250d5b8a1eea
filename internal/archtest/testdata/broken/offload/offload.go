// Package offload shares hidden state with everybody.
package offload

import (
	"flag"
	"log"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	verbose = flag.Bool("v", false, "")
	logger  *slog.Logger
	steps   = prometheus.NewCounter(prometheus.CounterOpts{})
)

func init() {
	prometheus.MustRegister(steps)
}

func run() {
	log.Println("started")
	slog.Info("started")
}
