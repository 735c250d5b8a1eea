package offload

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spillway-io/spillway/internal/bytesize"
	"github.com/spillway-io/spillway/internal/errkind"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/policy"
)

func TestZeroConfigWorks(t *testing.T) {
	c, err := Config{}.Resolved()
	if err != nil {
		t.Fatal(err)
	}
	if c.Period != 6*time.Second || c.Law != "composite" || c.Floor != 16*bytesize.MiB {
		t.Errorf("defaults %+v", c)
	}
	latency, tax := c.params(class.Latency), c.params(class.Tax)
	if tax.Ratio <= latency.Ratio || tax.MemPressure <= latency.MemPressure {
		t.Errorf("tax %+v is not bolder than latency %+v", tax, latency)
	}
	g := Config{Law: "gswap", Params: map[class.Class]Targets{class.Latency: {Percentile: 99, Warmup: time.Hour}}}
	latency, tax = g.params(class.Latency), g.params(class.Tax)
	if latency.Promotion != 0.002 || tax.Promotion != 5*0.002 || latency.Percentile != 99 || tax.Percentile != 98 || latency.Warmup != time.Hour {
		t.Errorf("gswap: latency %+v, tax %+v", latency, tax)
	}
	for _, k := range class.Classes() {
		if p := c.params(k); p.Ratio > maxRatio || p.MaxStep > maxRatio {
			t.Errorf("class %s may take more than 1 %% a period: %+v", k, p)
		}
	}
}

// What the configuration accepts the laws must accept, or a class is silently left alone.
func TestLawsTakeTheMostThatTheConfigurationAllows(t *testing.T) {
	almost := math.Nextafter(1, 0)
	most := Targets{Ratio: maxRatio, MemPressure: almost, IOPressure: almost, RefaultCost: almost, ComeBack: almost, Hold: 1000,
		Promotion: maxPromotion, Percentile: 100, Warmup: 7 * 24 * time.Hour}
	for _, law := range policy.Names() {
		for _, k := range class.Classes() {
			c, err := Config{Law: law, Params: map[class.Class]Targets{k: most}}.Resolved()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := policy.New(law, c.params(k)); err != nil {
				t.Errorf("%s: %v", law, err)
			}
		}
	}
}

func TestConfigRefusesWithAHint(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"relative root":  {func(c *Config) { c.Roots = []string{"kubepods"} }, "does not begin with /"},
		"whole machine":  {func(c *Config) { c.Roots = []string{"/a/.."} }, "whole machine"},
		"glob root":      {func(c *Config) { c.Roots = []string{"/a/*"} }, "contains a glob"},
		"short period":   {func(c *Config) { c.Period = time.Millisecond }, "outside 1s to 10m"},
		"law":            {func(c *Config) { c.Law = "magic" }, `law "magic" is unknown`},
		"class":          {func(c *Config) { c.Params = map[class.Class]Targets{"gold": {}} }, `unknown class "gold"`},
		"ratio":          {func(c *Config) { c.Params = map[class.Class]Targets{class.Tax: {Ratio: 0.5}} }, "params.tax.ratio"},
		"all comes back": {func(c *Config) { c.Params = map[class.Class]Targets{class.Tax: {ComeBack: 1}} }, "params.tax.come_back 1 is outside (0,1)"},
		"all the time":   {func(c *Config) { c.Params = map[class.Class]Targets{class.Tax: {MemPressure: 1}} }, "params.tax.mem_pressure 1 is outside (0,1)"},
		"nothing known":  {func(c *Config) { c.Params = map[class.Class]Targets{class.Tax: {ComeBack: math.NaN()}} }, "params.tax.come_back NaN"},
		"promotion":      {func(c *Config) { c.Params = map[class.Class]Targets{class.Tax: {Promotion: 0.2}} }, "params.tax.promotion"},
		"percentile":     {func(c *Config) { c.Params = map[class.Class]Targets{class.Tax: {Percentile: 0.98}} }, "params.tax.percentile"},
		"warmup":         {func(c *Config) { c.Params = map[class.Class]Targets{class.Tax: {Warmup: 1}} }, "params.tax.warmup"},
		"canary":         {func(c *Config) { c.Canary.Size = 4 * bytesize.GiB }, "canary.size"},
		"stop":           {func(c *Config) { c.Stop.SwapUsed = 80 }, "stop.swap_used"},
		"trigger":        {func(c *Config) { c.Stop.MemPressure = 0.0001 }, "too small for a trigger"},
	} {
		t.Run(name, func(t *testing.T) {
			var c Config
			tc.change(&c)
			err := c.Check()
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("error %v, want one that says %q", err, tc.says)
			}
			if errkind.Of(err) != errkind.Invalid || errkind.HintOf(err) == "" {
				t.Errorf("kind %v, hint %q", errkind.Of(err), errkind.HintOf(err))
			}
		})
	}
}
