package offload

import (
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// collector computes metrics from the same rows as the admin API when it is scraped, so that 2,000 cgroups
// cost nothing between scrapes. Only managed cgroups get a series each.
type collector struct{ a *Agent }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("spillway_offload_"+name, help, labels, nil)
}

var (
	descUsage     = desc("cgroup_resident_bytes", "Memory a managed cgroup uses now.", "cgroup", "class")
	descSwapped   = desc("cgroup_offloaded_bytes", "Bytes of a managed cgroup held by a tier, before compression.", "cgroup", "class", "tier")
	descSaving    = desc("cgroup_saving_bytes", "Net saving of a managed cgroup, sustained for a minute.", "cgroup", "class")
	descRefaults  = desc("cgroup_refaults_per_second", "Pages that came back in the last period.", "cgroup", "class")
	descPressure  = desc("cgroup_pressure_ratio", "Share of the last period in which some task stalled.", "cgroup", "class", "resource")
	descHost      = desc("saving_bytes", "Net saving of all managed cgroups.")
	descPool      = desc("pool_bytes", "Memory the compressed pools occupy.")
	descStored    = desc("stored_bytes", "Memory the compressed pools hold, before compression.")
	descTier      = desc("tier_used_bytes", "What a tier occupies.", "tier", "kind")
	descLatency   = desc("tier_refault_seconds", "Canary-measured time to bring one page back.", "tier", "quantile")
	descWritten   = desc("disk_written_bytes_total", "Bytes written to the devices behind swap since start.")
	descTaken     = desc("reclaimed_bytes_total", "Bytes taken by steps since start, gross.")
	descDecisions = desc("decisions_total", "Decisions by class and reason.", "class", "reason")
	descPaused    = desc("paused", "1 while the host-wide brake is on.")
	descCPU       = desc("self_cpu_ratio", "Cores the daemon and its worker use.", "process")
	descPSIShare  = desc("psi_share_ratio", "Share of the time that refaults cost which the kernel counts as memory pressure, as measured.")
	descPoor      = desc("incompressible_cgroups", "Managed cgroups whose pages do not shrink and are kept out of compressed pools.")
	descRSS       = desc("self_resident_bytes", "Largest resident size of the daemon.")
)

// Describe implements prometheus.Collector.
func (*collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descUsage, descSwapped, descSaving, descRefaults, descPressure, descHost, descPool, descStored, descTier,
		descLatency, descWritten, descTaken, descDecisions, descPaused, descCPU, descRSS, descPSIShare, descPoor,
	} {
		ch <- d
	}
	describeSLO(ch)
	describeWear(ch)
	ch <- descFileRefault
	ch <- descFileInOrder
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) { c.a.collect(ch) }

func (a *Agent) collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	// Nothing is sent while the lock is held: a slow scraper must not hold up the agent.
	st, rows := a.Status(), a.Cgroups()
	taken, counts := a.totals()
	poor := 0
	for _, row := range rows {
		if !row.Managed {
			continue
		}
		name, k := label(row.Path), row.Class
		if row.Incompressible {
			poor++
		}
		gauge(descUsage, float64(row.Usage), name, k)
		gauge(descSaving, float64(row.Saving), name, k)
		gauge(descRefaults, row.Refaults, name, k)
		for tier, n := range row.Offloaded {
			gauge(descSwapped, float64(n), name, k, label(tier))
		}
		if row.SLO != nil {
			collectSLO(ch, row.SLO, name, k)
		}
		if row.Written > 0 {
			counter(descOwnWritten, float64(row.Written), name, k)
		}
		if row.PSI {
			gauge(descPressure, row.MemSome, name, k, "memory")
			gauge(descPressure, row.IOSome, name, k, "io")
		}
	}
	gauge(descPoor, float64(poor))
	if st.PSIShare != nil {
		gauge(descPSIShare, *st.PSIShare)
	}
	gauge(descHost, float64(st.Host.SavingNet))
	gauge(descPool, float64(st.Host.PoolBytes))
	gauge(descStored, float64(st.Host.StoredBytes))
	for _, t := range st.Tiers {
		gauge(descTier, float64(t.Used), label(t.Name), t.Kind)
		if t.P50 > 0 {
			gauge(descLatency, time.Duration(t.P50).Seconds(), label(t.Name), "0.5")
			gauge(descLatency, time.Duration(t.P99).Seconds(), label(t.Name), "0.99")
		}
	}
	counter(descWritten, float64(st.Host.DiskWritten))
	collectWear(ch, st.Endurance)
	collectRefault(ch, st.FileRefault)
	counter(descTaken, float64(taken))
	for k, n := range counts {
		counter(descDecisions, float64(n), k.class, k.reason)
	}
	paused := 0.0
	if st.Paused != "" {
		paused = 1
	}
	gauge(descPaused, paused)
	gauge(descCPU, st.Self.CPU, "daemon")
	gauge(descCPU, st.Self.WorkerCPU, "worker")
	gauge(descRSS, float64(st.Self.RSS))
}

// totals copies what is counted since the start.
func (a *Agent) totals() (reclaimed int64, counts map[countKey]uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.view.reclaimed, maps.Clone(a.view.counts)
}

// label makes a name from the system fit for a metric label: printable, bounded and valid UTF-8. A name that had
// to be cut ends in a hash of the whole, so that two names never become one series.
func label(s string) string {
	const most = 256
	q := strconv.Quote(s)
	q = q[1 : len(q)-1]
	if len(q) <= most {
		return q
	}
	h := fnv.New64a()
	h.Write([]byte(s)) // never fails
	cut := most - 20
	for !utf8.RuneStart(q[cut]) {
		cut--
	}
	return fmt.Sprintf("%s...%016x", q[:cut], h.Sum64())
}
