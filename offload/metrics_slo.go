package offload

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-io/spillway/internal/admin"
)

var (
	descSLOP99    = desc("slo_p99_seconds", "The service's p99 in the last window; absent while it cannot be measured.", "cgroup", "class")
	descSLOScale  = desc("slo_multiplier_ratio", "What was learnt stretches the refault cost target by this, 0.25 to 4.", "cgroup", "class")
	descSLOHold   = desc("slo_hold", "1 while nothing is taken for the sake of the SLO or of a comparison.", "cgroup", "class")
	descSLOBlocks = desc("slo_blocks_total", "Blocks of periods the learner has seen.", "cgroup", "class")
	descSLOSlope  = desc("slo_slope_seconds_per_byte", "p99 that one byte saved costs: estimate, and bounds of its 95 % interval.", "cgroup", "class", "bound")
)

func describeSLO(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSLOP99, descSLOScale, descSLOHold, descSLOBlocks, descSLOSlope} {
		ch <- d
	}
}

// collectSLO writes the series of one cgroup with a signal.
func collectSLO(ch chan<- prometheus.Metric, s *admin.SLO, labels ...string) {
	put := func(d *prometheus.Desc, t prometheus.ValueType, v float64, more ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, append(labels[:len(labels):len(labels)], more...)...)
	}
	if s.P99 > 0 {
		put(descSLOP99, prometheus.GaugeValue, time.Duration(s.P99).Seconds())
	}
	holds := 0.0
	if s.Holds {
		holds = 1
	}
	put(descSLOScale, prometheus.GaugeValue, s.Multiplier)
	put(descSLOHold, prometheus.GaugeValue, holds)
	put(descSLOBlocks, prometheus.CounterValue, float64(s.Blocks))
	if s.PerMiB == nil {
		return
	}
	const unit = 1e-6 / (1 << 20) // from µs per MiB
	put(descSLOSlope, prometheus.GaugeValue, s.PerMiB.Estimate*unit, "estimate")
	if s.PerMiB.Low != nil {
		put(descSLOSlope, prometheus.GaugeValue, *s.PerMiB.Low*unit, "low")
	}
	if s.PerMiB.High != nil {
		put(descSLOSlope, prometheus.GaugeValue, *s.PerMiB.High*unit, "high")
	}
}
