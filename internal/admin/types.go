package admin

import "time"

// The shapes of the API. Sizes are bytes; a Duration is written as seconds; shares are in [0,1] unless said
// otherwise. A reader ignores fields it does not know, so fields may be added and are never renamed.

// Status is GET /v1/status: what the daemon is, sees, does and refuses to do.
type Status struct {
	Version    string    `json:"version"`
	Commit     string    `json:"commit"`
	Node       string    `json:"node,omitempty"` // this machine's host name
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Now        time.Time `json:"now"`
	Kernel     string    `json:"kernel"`
	CgroupMode string    `json:"cgroup_mode"`
	Actuator   string    `json:"actuator"` // "memory.reclaim" or "limit-shrink"
	Law        string    `json:"law"`
	Period     Duration  `json:"period"`
	DryRun     bool      `json:"dry_run"`
	Roots      []string  `json:"roots"`
	Will       []string  `json:"will"`
	Wont       []string  `json:"wont"`
	Paused     string    `json:"paused,omitempty"` // why offloading is stopped, "" when it is not
	Dashboard  string    `json:"dashboard,omitempty"`
	Host       Host      `json:"host"`
	// Endurance is the budget for writing to flash; missing when it is switched off.
	Endurance *Endurance `json:"endurance,omitempty"`
	Tiers     []Tier     `json:"tiers"`
	Managed   int        `json:"managed"`
	Observed  int        `json:"observed"`
	Advice    []string   `json:"advice,omitempty"` // "would save about 300 MiB; add roots: [/system.slice]"
	SLO       []SLO      `json:"slo,omitempty"`    // of managed cgroups with a signal
	Self      Self       `json:"self"`
	// PSIShare is the share of the time that refaults cost which this kernel counts as memory pressure, as the canary
	// measured it on the tier that pages go to first; missing when unknown, which PSIShareWhy then explains.
	PSIShare    *float64 `json:"psi_share,omitempty"`
	PSIShareWhy string   `json:"psi_share_why,omitempty"`
	// FileRefault is what bringing a page of a file back costs; missing when unknown, which FileRefaultWhy then
	// explains.
	FileRefault    *FileRefault `json:"file_refault,omitempty"`
	FileRefaultWhy string       `json:"file_refault_why,omitempty"`
	// Can and Cannot say what can be steered on this kernel, as the ends of "it can …" and "it cannot …"; Will and Wont
	// have the same as "be able to …".
	Can    []string `json:"can,omitempty"`
	Cannot []string `json:"cannot,omitempty"`
}

// FileRefault is the canary's newest measurement of file cache. A refault is charged between InOrder and P50, by how
// many of them waited.
type FileRefault struct {
	Dir        string    `json:"dir"`
	FileSystem string    `json:"fs"`
	P50        Duration  `json:"p50"` // of one page, alone
	P99        Duration  `json:"p99"`
	InOrder    Duration  `json:"in_order"` // of each page when a file is read in order
	MeasuredAt time.Time `json:"measured_at,omitzero"`
	Note       string    `json:"note,omitempty"` // what makes it weaker than it looks
}

// Self is what the daemon costs. CPU is a share of one core over the last minute, in [0,∞).
type Self struct {
	CPU       float64 `json:"cpu"`
	WorkerCPU float64 `json:"worker_cpu"`
	RSS       int64   `json:"rss_bytes"`
}

// Host is the machine's memory, in bytes. Saving is net: memory no longer used minus the compressed pool.
type Host struct {
	MemTotal     int64   `json:"mem_total_bytes"`
	MemAvailable int64   `json:"mem_available_bytes"`
	SwapTotal    int64   `json:"swap_total_bytes"`
	SwapUsed     int64   `json:"swap_used_bytes"`
	PoolBytes    int64   `json:"pool_bytes"`   // compressed pools (zswap + zram), what they occupy
	StoredBytes  int64   `json:"stored_bytes"` // what the pools hold, before compression
	SavingNet    int64   `json:"saving_net_bytes"`
	PSI          bool    `json:"psi"`
	MemSome      float64 `json:"mem_some"` // share of time, last period
	IOSome       float64 `json:"io_some"`
	DiskWritten  int64   `json:"disk_written_bytes"` // to the swap device since the daemon started
}

// Tier is a place for evicted pages. Latencies come from the canary; zero means not measured yet.
type Tier struct {
	Name        string    `json:"name"`  // "zswap", "zram", "swap:/path"
	Kind        string    `json:"kind"`  // "zswap", "zram", "partition", "file"
	State       string    `json:"state"` // "active", "available", "off"
	Detail      string    `json:"detail"`
	Size        int64     `json:"size_bytes"`
	Used        int64     `json:"used_bytes"`   // what it occupies
	Stored      int64     `json:"stored_bytes"` // what it holds before compression
	P50         Duration  `json:"p50"`
	P99         Duration  `json:"p99"`
	Compression float64   `json:"compression"` // stored / used, 0 unknown
	MeasuredAt  time.Time `json:"measured_at,omitzero"`
	Ours        bool      `json:"ours"` // made or configured by this daemon, will be undone
}

// Cgroup is one row of GET /v1/cgroups.
type Cgroup struct {
	Path    string `json:"path"`
	Class   string `json:"class"`
	Managed bool   `json:"managed"`
	Why     string `json:"why"`         // why it is managed or only observed
	Usage   int64  `json:"usage_bytes"` // resident now
	Peak    int64  `json:"peak_bytes"`  // resident when the daemon first managed it, or the largest since
	Floor   int64  `json:"floor_bytes"`
	Anon    int64  `json:"anon_bytes"`
	File    int64  `json:"file_bytes"`
	// Offloaded bytes by tier name, before compression.
	Offloaded map[string]int64 `json:"offloaded_bytes"`
	Saving    int64            `json:"saving_net_bytes"`
	PSI       bool             `json:"psi"`
	PSIWhy    string           `json:"psi_why,omitempty"` // why pressure is unavailable
	MemSome   float64          `json:"mem_some"`
	IOSome    float64          `json:"io_some"`
	Refaults  float64          `json:"refaults_per_s"`
	Faults    float64          `json:"major_faults_per_s"`
	Last      *Decision        `json:"last_decision,omitempty"`
	SLO       *SLO             `json:"slo,omitempty"` // nil: no signal, the targets of the class
	// Mix says how the last step was balanced between file cache and anonymous memory. Incompressible pages are kept
	// out of compressed pools.
	Mix            string `json:"mix,omitempty"`
	Incompressible bool   `json:"incompressible,omitempty"`
	Written        int64  `json:"written_bytes,omitempty"` // to drives, its share of what swapping wrote since it is watched
}

// Decision is one automatic decision with what led to it and what came of it.
type Decision struct {
	Time      time.Time `json:"time"`
	Cgroup    string    `json:"cgroup"`
	Class     string    `json:"class"`
	Law       string    `json:"law"`
	Usage     int64     `json:"usage_bytes"`
	Step      int64     `json:"step_bytes"`
	Reclaimed int64     `json:"reclaimed_bytes"`
	Took      Duration  `json:"took"` // how long the worker's write blocked
	Reason    string    `json:"reason"`
	Signal    string    `json:"signal,omitempty"`
	Detail    string    `json:"detail"`
	Inputs    []Input   `json:"inputs,omitempty"`
	Error     string    `json:"error,omitempty"`
}

// Input is one signal beside its target, both as a share of the period.
type Input struct {
	Signal string  `json:"signal"`
	Value  float64 `json:"value"`
	Target float64 `json:"target"`
}

// Point is one sample of GET /v1/history: the host's memory by tier over time, in bytes.
type Point struct {
	Time     time.Time `json:"time"`
	Resident int64     `json:"resident_bytes"` // of managed cgroups
	Pool     int64     `json:"pool_bytes"`
	Stored   int64     `json:"stored_bytes"`
	Disk     int64     `json:"disk_bytes"`
	Saving   int64     `json:"saving_net_bytes"`
	MemSome  float64   `json:"mem_some"`
	IOSome   float64   `json:"io_some"`
}

// Explanation is GET /v1/explain?cgroup=PATH: the row, its class's targets and its newest decisions, newest first.
type Explanation struct {
	Cgroup    Cgroup             `json:"cgroup"`
	Params    map[string]float64 `json:"params"`
	Decisions []Decision         `json:"decisions"`
}
