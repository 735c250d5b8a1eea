// Package offload is given its logger, registry and flags.
package offload

import (
	"flag"
	"log/slog"

	_ "example.com/clean/internal/sys"
	_ "example.com/clean/offload/policy"
	"github.com/prometheus/client_golang/prometheus"
)

var desc = prometheus.NewDesc("spillway_offload_steps_total", "", nil, nil)

// Config is what New needs.
type Config struct{ Log *slog.Logger }

func (c Config) run(reg prometheus.Registerer, args []string) error {
	f := flag.NewFlagSet("run", flag.ContinueOnError)
	c.Log.Info("started")
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{}))
	return f.Parse(args)
}
