package offload

import (
	"cmp"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/policy"
	"github.com/spillway-io/spillway/offload/tier"
	"github.com/spillway-io/spillway/offload/track"
)

// Config is the `offload:` part of the configuration file. The zero value works: it observes every cgroup
// and acts below kubepods only.
type Config struct {
	// Roots are cgroup paths below the memory controller's mount; Spillway acts only on cgroups under them.
	// Empty: the kubepods roots that exist. Globs are not allowed here.
	Roots []string `yaml:"roots"`
	// Period between two decisions for one cgroup, 1s to 10m. Default 6s: the time a mistaken step needs to
	// show up as refaults.
	Period time.Duration `yaml:"period"`
	// Law is "composite" (default), "tmo" or "gswap".
	Law string `yaml:"law"`
	// DryRun decides and explains, and changes nothing.
	DryRun bool `yaml:"dry_run"`
	// Floor is the resident size below which no cgroup is taken. Default 16 MiB.
	Floor bytesize.Size `yaml:"floor"`
	// Classes maps cgroups to classes; the first match wins. What no rule matches gets its class from
	// Kubernetes' QoS, and else "latency", the most careful one.
	Classes []class.Rule `yaml:"classes"`
	// Params overrides the targets of a class; keys are class names.
	Params map[class.Class]Targets `yaml:"params"`
	// Tiers says which places for evicted pages Spillway should make or configure. Default: use what is there.
	Tiers tier.Setup `yaml:"tiers"`
	// Endurance is the budget for what swapping writes to flash.
	Endurance Endurance `yaml:"endurance"`
	// Canary is the daemon's own test cgroup that measures the tiers.
	Canary Canary `yaml:"canary"`
	// SLO says how fast services must answer, and lets the agent learn how sensitive each is. Default: none is known,
	// and every cgroup has the targets of its class.
	SLO []SLO `yaml:"slo"`
	// Stop is the host-wide brake.
	Stop Stop `yaml:"stop"`
	// Heat is access tracking: how recently memory was touched. Fixed at start.
	Heat track.Config `yaml:"heat"`

	// Log receives state changes; nil discards. Set by the program, not by the file.
	Log *slog.Logger `yaml:"-"`
}

// Targets override the defaults of one class. Shares are of the period, in (0,1); zero keeps the default.
type Targets struct {
	Ratio       float64 `yaml:"ratio"`        // share of the usage taken per period without pressure, (0,0.01]
	MemPressure float64 `yaml:"mem_pressure"` // memory PSI "some"
	IOPressure  float64 `yaml:"io_pressure"`  // io PSI "some"
	RefaultCost float64 `yaml:"refault_cost"` // time spent on refaults
	Hold        int     `yaml:"hold"`         // periods without a step after a back-off
	ComeBack    float64 `yaml:"come_back"`    // of what was lately taken: where composite stops

	// FileOnly takes file cache alone and never swaps this class out: where TMO's rollout began for everyone. Default
	// false.
	FileOnly bool `yaml:"file_only"`

	// For gswap, and the first two for composite where access is tracked; `spillway offload tune` finds gswap's from a
	// trace.
	Promotion  float64       `yaml:"promotion"`  // share of the working set that may be touched again a minute, (0,0.1]
	Percentile float64       `yaml:"percentile"` // of past minutes' best ages that the next minute's threshold takes, 50 to 100
	Warmup     time.Duration `yaml:"warmup"`     // after a cgroup is first seen, in which nothing is taken; 1s to 168h
}

// Canary configures the measurement of tiers.
type Canary struct {
	Off   bool          `yaml:"off"`
	Size  bytesize.Size `yaml:"size"`  // memory the canary touches; default 16 MiB
	Every time.Duration `yaml:"every"` // default 1h
}

// Stop is the host-wide brake: above it nothing is taken from anybody for Hold.
type Stop struct {
	MemPressure float64       `yaml:"mem_pressure"` // share of one second in host memory "some"; default 0.15
	Hold        time.Duration `yaml:"hold"`         // default 30s
	SwapUsed    float64       `yaml:"swap_used"`    // share of swap in use above which anon is not taken; default 0.8
	Available   float64       `yaml:"available"`    // share of memory available below which nothing is taken, for kernels without PSI; default 0.02
}

// maxRatio is the promise of docs/offload.md: never more than 1 % of a cgroup in one period.
const maxRatio = 0.01

// Resolved fills what is unset with its default and refuses what cannot work, without touching the machine.
// It is the only validator; New applies it.
func (c Config) Resolved() (Config, error) {
	c.Period = cmp.Or(c.Period, 6*time.Second)
	c.Law = cmp.Or(c.Law, "composite")
	c.Floor = cmp.Or(c.Floor, 16*bytesize.MiB)
	c.Canary.Size = cmp.Or(c.Canary.Size, 16*bytesize.MiB)
	c.Canary.Every = cmp.Or(c.Canary.Every, time.Hour)
	c.Stop.MemPressure = cmp.Or(c.Stop.MemPressure, 0.15)
	c.Stop.Hold = cmp.Or(c.Stop.Hold, 30*time.Second)
	c.Stop.SwapUsed = cmp.Or(c.Stop.SwapUsed, 0.8)
	c.Stop.Available = cmp.Or(c.Stop.Available, 0.02)
	c.Endurance = c.Endurance.resolved()
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	var err error
	if c.Heat, err = c.Heat.Resolved(); err != nil {
		return c, err
	}
	if err := c.check(); err != nil {
		return c, err
	}
	c.SLO = slices.Clone(c.SLO)
	for i, s := range c.SLO {
		var err error
		if c.SLO[i], err = s.resolved(c.Period); err != nil {
			return c, err
		}
	}
	c.Roots = slices.Clone(c.Roots) // the caller's slice stays as it is
	for i, r := range c.Roots {
		c.Roots[i] = path.Clean(r)
	}
	return c, nil
}

// Check says whether the configuration can work, without touching the machine.
func (c Config) Check() error {
	_, err := c.Resolved()
	return err
}

func (c Config) check() error {
	bad := func(hint, format string, a ...any) error {
		return errkind.Hint(errkind.New(errkind.Invalid, "offload: "+format, a...), "%s", hint)
	}
	for _, r := range c.Roots {
		switch {
		case !strings.HasPrefix(r, "/"):
			return bad("write the path as below the memory controller's mount, for example /kubepods.slice", "root %q does not begin with /", r)
		case path.Clean(r) == "/":
			return bad("name the cgroups that may be offloaded, one by one", `root "/" would put the whole machine under offload, this daemon included`)
		case strings.ContainsAny(r, "*?["):
			return bad("roots are plain paths; use offload.classes for globs", "root %q contains a glob", r)
		}
	}
	if c.Period < time.Second || c.Period > 10*time.Minute {
		return bad("6s is the default; 1s is the shortest that lets refaults show up", "period %v is outside 1s to 10m", c.Period)
	}
	if _, err := policy.New(c.Law, policy.Params{}); err != nil {
		return bad(`use "composite", "tmo" or "gswap"`, "law %q is unknown", c.Law)
	}
	if c.Floor < 0 {
		return bad("16MiB is the default", "floor %v is negative", c.Floor)
	}
	if _, err := class.Compile(c.Classes); err != nil {
		return errkind.Wrap(errkind.Invalid, fmt.Errorf("offload: classes: %w", err))
	}
	for name, t := range c.Params {
		if !slices.Contains(class.Classes(), name) {
			return bad("the classes are tax, latency, throughput and off", "params for unknown class %q", name)
		}
		if err := t.check(name); err != nil {
			return err
		}
	}
	if err := c.Tiers.Validate(); err != nil {
		return fmt.Errorf("offload: tiers: %w", err)
	}
	if err := c.Endurance.check(); err != nil {
		return err
	}
	if c.Canary.Size < bytesize.MiB || c.Canary.Size > bytesize.GiB {
		return bad("16MiB is the default", "canary.size %v is outside 1MiB to 1GiB", c.Canary.Size)
	}
	if c.Canary.Every < time.Minute {
		return bad("1h is the default; set canary.off: true to switch it off", "canary.every %v is under 1m", c.Canary.Every)
	}
	for name, v := range map[string]float64{
		"stop.mem_pressure": c.Stop.MemPressure, "stop.swap_used": c.Stop.SwapUsed, "stop.available": c.Stop.Available,
	} {
		if !(v > 0 && v < 1) {
			return bad("give a share between 0 and 1, for example 0.15", "%s %v is outside (0,1)", name, v)
		}
	}
	if c.Stop.MemPressure < 0.001 {
		return bad("the kernel's triggers start at 500 µs in a 1 s window; 0.15 is the default", "stop.mem_pressure %v is too small for a trigger", c.Stop.MemPressure)
	}
	if c.Stop.Hold < time.Second {
		return bad("30s is the default", "stop.hold %v is under 1s", c.Stop.Hold)
	}
	return nil
}

func (t Targets) check(name class.Class) error {
	for key, v := range map[string]float64{
		"ratio": t.Ratio, "mem_pressure": t.MemPressure, "io_pressure": t.IOPressure, "refault_cost": t.RefaultCost,
		"come_back": t.ComeBack,
	} {
		ok, limits, hint := v >= 0 && v < 1, "(0,1)", "give a share of the period, for example 0.001 for 0.1 %"
		switch key {
		case "ratio":
			ok, limits, hint = v >= 0 && v <= maxRatio, fmt.Sprintf("(0,%v]", maxRatio), "give a share of the memory, for example 0.001 for 0.1 %"
		case "come_back":
			hint = "give a share of what was lately taken; 0.15 for 15 % is the default"
		}
		if !ok {
			return errkind.Hint(errkind.New(errkind.Invalid, "offload: params.%s.%s %v is outside %s", name, key, v, limits), "%s", hint)
		}
	}
	if t.Hold < 0 || t.Hold > 1000 {
		return errkind.Hint(errkind.New(errkind.Invalid, "offload: params.%s.hold %d is outside 0 to 1000", name, t.Hold),
			"hold counts periods; 10 is the default")
	}
	switch {
	case !(t.Promotion >= 0 && t.Promotion <= maxPromotion):
		return errkind.Hint(errkind.New(errkind.Invalid, "offload: params.%s.promotion %v is outside (0,%v]", name, t.Promotion, maxPromotion),
			"give a share of the working set a minute; 0.002 for 0.2 %% is the default")
	case t.Percentile != 0 && !(t.Percentile >= 50 && t.Percentile <= 100):
		return errkind.Hint(errkind.New(errkind.Invalid, "offload: params.%s.percentile %v is outside 50 to 100", name, t.Percentile),
			"98 is the default; 100 is the most careful")
	case t.Warmup != 0 && (t.Warmup < time.Second || t.Warmup > 7*24*time.Hour):
		return errkind.Hint(errkind.New(errkind.Invalid, "offload: params.%s.warmup %v is outside 1s to 168h", name, t.Warmup),
			"10m is the default")
	}
	return nil
}

// maxPromotion is fifty times the published target: beyond it the law would have no brake worth the name.
const maxPromotion = 0.1

// gain is how much bolder a class is than the law's defaults, which are those of "latency".
// TMO rolled out to the memory tax first and with its own setting (CACM 68(9), section 4): sidecars have no
// user waiting on them. Throughput work tolerates a stall that a request cannot.
var gain = map[class.Class]struct{ ratio, target float64 }{
	class.Tax:        {ratio: 10, target: 5},
	class.Throughput: {ratio: 4, target: 3},
	class.Latency:    {ratio: 1, target: 1},
}

// params are the law's parameters for one class: the law's defaults, the class's gain, the user's overrides.
func (c Config) params(k class.Class) policy.Params {
	p := policy.Defaults(c.Law)
	g, ok := gain[k]
	if !ok {
		g = gain[class.Latency]
	}
	p.Ratio = min(p.Ratio*g.ratio, maxRatio)
	p.MemPressure *= g.target
	p.IOPressure *= g.target
	p.RefaultCost *= g.target
	p.Promotion *= g.target
	p.MaxStep = maxRatio
	t := c.Params[k]
	p.Ratio = cmp.Or(t.Ratio, p.Ratio)
	p.MemPressure = cmp.Or(t.MemPressure, p.MemPressure)
	p.IOPressure = cmp.Or(t.IOPressure, p.IOPressure)
	p.RefaultCost = cmp.Or(t.RefaultCost, p.RefaultCost)
	p.Hold = cmp.Or(t.Hold, p.Hold)
	p.ComeBack = cmp.Or(t.ComeBack, p.ComeBack)
	p.Promotion = cmp.Or(t.Promotion, p.Promotion)
	p.Percentile = cmp.Or(t.Percentile, p.Percentile)
	p.Warmup = cmp.Or(t.Warmup, p.Warmup)
	return p
}
