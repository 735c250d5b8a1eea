package offload

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-io/spillway/internal/admin"
)

var (
	descWritePrice  = desc("write_price_ratio", "Share of the write budget that is gone.")
	descWriteLeft   = desc("write_left_bytes", "Bytes that steps may still write to drives now.")
	descWriteBudget = desc("write_budget_bytes_per_second", "The write budget's even pace.")
	descSwapWritten = desc("swap_written_bytes_total", "Bytes that swapping wrote to drives since start; memory tiers do not count.")
	descDriveTotal  = desc("drive_written_bytes_total", "Bytes written to a drive behind swap by anybody, since it was first seen.", "device")
	descDriveYears  = desc("drive_left_years", "How long the drive's rating lasts at the last day's rate; absent while unknown.", "device")
	descOwnWritten  = desc("cgroup_written_bytes_total", "A managed cgroup's share of what swapping wrote to drives.", "cgroup", "class")
)

func describeWear(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descWritePrice, descWriteLeft, descWriteBudget, descSwapWritten, descDriveTotal, descDriveYears, descOwnWritten} {
		ch <- d
	}
}

// collectWear writes the series of the drives behind swap; nil writes none.
func collectWear(ch chan<- prometheus.Metric, e *admin.Endurance) {
	if e == nil {
		return
	}
	put := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	put(descWritePrice, prometheus.GaugeValue, e.Price)
	put(descWriteLeft, prometheus.GaugeValue, float64(e.Left))
	put(descWriteBudget, prometheus.GaugeValue, float64(e.Budget)/day)
	put(descSwapWritten, prometheus.CounterValue, float64(e.Written))
	for _, d := range e.Drives {
		put(descDriveTotal, prometheus.CounterValue, float64(d.Written), label(d.Device))
		if d.Years > 0 {
			put(descDriveYears, prometheus.GaugeValue, d.Years, label(d.Device))
		}
	}
}
