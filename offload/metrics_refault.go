package offload

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-io/spillway/internal/admin"
)

var (
	descFileRefault = desc("file_refault_seconds", "Canary-measured time to bring one page of a file back, alone.", "quantile")
	descFileInOrder = desc("file_refault_in_order_seconds", "Canary-measured time for each page of a file that is read in order.")
)

// collectRefault writes what the canary found out about files; nil writes nothing.
func collectRefault(ch chan<- prometheus.Metric, f *admin.FileRefault) {
	if f == nil {
		return
	}
	put := func(d *prometheus.Desc, v admin.Duration, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, time.Duration(v).Seconds(), labels...)
	}
	put(descFileRefault, f.P50, "0.5")
	put(descFileRefault, f.P99, "0.99")
	put(descFileInOrder, f.InOrder)
}
