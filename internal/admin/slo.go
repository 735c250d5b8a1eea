package admin

// SLO is what is known of one cgroup's service level and of what offloading does to it.
type SLO struct {
	Cgroup   string   `json:"cgroup"`
	Source   string   `json:"source"` // "redis PING at 127.0.0.1:6379"
	State    string   `json:"state"`  // "good", or why there is no p99: "starting", "empty", "few", "reset", "missing", "slow", "failed"
	StateWhy string   `json:"state_why,omitempty"`
	P50      Duration `json:"p50"` // of the last window; 0: not measured
	P99      Duration `json:"p99"`
	AtLeast  bool     `json:"at_least,omitempty"` // the p99 lies above P99 by an unknown amount
	Requests uint64   `json:"requests"`           // in the last window

	MaxP99       Duration `json:"max_p99"` // 0: no absolute bound
	MaxInflation float64  `json:"max_inflation"`

	Multiplier float64 `json:"multiplier"` // of the class's refault cost target, [0.25,4]
	Holds      bool    `json:"holds"`      // nothing is taken now
	Why        string  `json:"why"`        // what the learner is doing
	Blocks     int     `json:"blocks"`     // seen since the start
	Pairs      int     `json:"pairs"`      // compared since the start

	PerMiB      *Interval `json:"us_per_mib,omitempty"`      // µs of p99 per MiB saved; absent: not known yet
	PerPermille *Interval `json:"us_per_permille,omitempty"` // µs of p99 per 0.1 % of the time spent on refaults
	Inflation   *Interval `json:"inflation,omitempty"`       // p99 acting ÷ p99 holding at this multiplier
}

// Interval is an estimate with its 95 % confidence interval. A bound the data do not give is absent.
type Interval struct {
	Estimate float64  `json:"estimate"`
	Low      *float64 `json:"low,omitempty"`
	High     *float64 `json:"high,omitempty"`
}
