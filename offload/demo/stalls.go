package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-io/spillway/internal/admin"
	"github.com/spillway-io/spillway/offload/class"
	"github.com/spillway-io/spillway/offload/demo/watch"
	"github.com/spillway-io/spillway/offload/policy"
)

// The experiment of Stalls. Both servers are offloaded at the same time under the same law, in blocks: law C
// (composite) and T (tmo) take turns as C T, T C, C T, so that a machine that grows slower or faster favours
// neither. Every block starts with all memory resident, and its last part counts: each law has then come to rest
// where its own brake holds it. They do not rest at the same size, and just there the faults grow steeply with every
// page taken. So tmo is then held: its floor becomes the size at which composite came to rest in the block before, it
// lets the servers grow to that, and its faults are counted a second time, at composite's saving. What both do at their
// own rest is quoted beside. After the first block of each law come the stalls.
const (
	block      = 150 * time.Second // 90 full steps go from all to the hot part
	blockTMO   = 240 * time.Second // pressure eases its steps on the way, so that it needs longer to come to rest
	settle     = 60 * time.Second  // from tmo's own size to the one it is held at
	steadyPart = 60 * time.Second
	stallCount = 20
	stallKeys  = 4_500           // about 1,500 pages
	stallEvery = 8 * time.Second // the servers take turns: 16 periods between two stalls of one
	answerIn   = 2*period + period/4
	calmAfter  = 12 * period
	sameSaving = 0.005 // savings this close, of the server's memory, count as equal

	namedGoal  = stallCount
	alarmGoal  = 0.05
	steadyGoal = 0.8
)

// Stall is one injected refault stall and what the law did about it.
type Stall struct {
	Server   string  `json:"server"`
	Refaults uint64  `json:"refaults"`
	Seconds  float64 `json:"seconds"`       // how long the reads took
	Share    float64 `json:"cost_share"`    // of one period, by the tier's measured cost
	PSI      number  `json:"psi_share"`     // of that cost, what memory PSI counted
	Named    bool    `json:"named"`         // a zero step that names refault cost within two periods
	Zero     bool    `json:"zero"`          // a zero step for any reason
	Taken    int64   `json:"stepped_bytes"` // what the law asked for in those two periods
}

// StallStats is what one law did in the stalls and in the calm between them.
type StallStats struct {
	Stalls []Stall `json:"stalls"`
	Named  int     `json:"named"`
	Zero   int     `json:"zero"`
	Taken  int64   `json:"stepped_bytes"`
	PSI    summary `json:"psi_share"`
	Calm   int     `json:"calm_periods"`
	Alarms int     `json:"false_alarms"` // zero steps in calm periods that name a signal
}

// Steady is one server in a counted part of one block.
type Steady struct {
	Block           int            `json:"block"`
	Law             string         `json:"law"`
	Held            bool           `json:"held"` // at the size at which composite came to rest
	Server          string         `json:"server"`
	Usage           int64          `json:"usage_bytes"`
	Saving          float64        `json:"saving"` // mean
	FaultsPerMinute float64        `json:"major_faults_per_minute"`
	Decisions       map[string]int `json:"decisions"`
}

// StallResult is everything Stalls measured.
type StallResult struct {
	Room          string                 `json:"room"`
	Commit        string                 `json:"commit"`
	Machine       string                 `json:"machine"`
	Goals         map[string]Goal        `json:"goals"`
	Laws          map[string]*StallStats `json:"laws"`
	Steady        []Steady               `json:"steady"`
	SavingGap     number                 `json:"saving_gap"`     // composite's saving at rest minus tmo's at its own, mean
	AtRest        summary                `json:"faults_at_rest"` // composite's faults over tmo's, each at its own rest
	Leftovers     int                    `json:"leftovers"`
	LeftoverNames []string               `json:"leftover_names,omitempty"`

	spans map[string][]watched
}

// watched is a time in which one server was offloaded, with the stalls that fell into it.
type watched struct {
	span
	server int
	stalls []span
}

// Stalls injects refault stalls and compares the laws; see the comment on block. It takes about thirty-two
// minutes, quick about fifteen.
func Stalls(ctx context.Context, cfg Config, quick bool) (err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return err
	}
	show := newProgress(cfg.Out, cfg.Terminal)
	defer show.stop()
	r, err := newRig(ctx, cfg, show)
	if err != nil {
		return fmt.Errorf("demo: set up: %w", err)
	}
	order := []string{policy.Composite, policy.TMO, policy.TMO, policy.Composite, policy.Composite, policy.TMO}
	if quick {
		order = order[:2]
	}
	res, err := r.stallTimeline(ctx, order)
	show.stop()
	left, cerr := r.close()
	if err != nil {
		return errors.Join(err, cerr, leftBehind(left))
	}
	res.judge()
	res.Leftovers, res.LeftoverNames = len(left), left
	res.Goals["leftovers"] = leftoverGoal(left)
	printStalls(cfg.Out, res)
	if cfg.JSONPath != "" {
		cerr = errors.Join(cerr, writeJSON(cfg.JSONPath, res))
	}
	return errors.Join(judgement(res.Goals, []string{"stalls_named", "false_alarms", "steady_faults", "leftovers"}, ""), cerr)
}

func (r *rig) stallTimeline(ctx context.Context, order []string) (*StallResult, error) {
	off := setting{law: policy.Composite}
	r.show.expect(time.Duration(len(order))*((block+blockTMO+settle+steadyPart)/2+8*time.Second) + 2*stallCount*stallEvery)
	r.show.phase("start the daemon, let it measure its tiers", 5*time.Second)
	if err := r.startNode(ctx, off); err != nil {
		return nil, err
	}
	if err := r.startGenerator(); err != nil {
		return nil, err
	}
	res := &StallResult{Room: "offload", Commit: r.node.commit, Machine: machine(), Goals: map[string]Goal{},
		Laws: map[string]*StallStats{}, spans: map[string][]watched{}}
	for n, law := range order {
		s := r.bothOn(law)
		if err := r.steadyBlock(ctx, res, n, s); err != nil {
			return nil, err
		}
		if res.Laws[law] == nil {
			if err := r.injectStalls(ctx, res, s); err != nil {
				return nil, err
			}
		}
		if n == len(order)-1 {
			break
		}
		r.show.phase("give everything back", 8*time.Second)
		if err := r.node.apply(ctx, off); err != nil {
			return nil, err
		}
		for _, t := range r.twins {
			if err := t.scan(ctx, 0, r.cfg.Keys); err != nil {
				return nil, err
			}
		}
	}
	for law, ws := range res.spans {
		for _, w := range ws {
			r.countCalm(res.Laws[law], w)
		}
	}
	return res, nil
}

// bothOn has both servers offloaded and nothing else.
func (r *rig) bothOn(law string) setting {
	return setting{law: law, classes: map[string]class.Class{r.twins[0].path: class.Latency, r.twins[1].path: class.Latency}}
}

// steadyBlock runs one block and describes its counted parts.
func (r *rig) steadyBlock(ctx context.Context, res *StallResult, n int, s setting) error {
	begin, err := r.rec.Look()
	if err != nil {
		return err
	}
	if err := r.node.apply(ctx, s); err != nil {
		return err
	}
	part, name := Steady{Block: n + 1, Law: s.law}, fmt.Sprintf("block %d: both servers under %s", n+1, s.law)
	if s.law == policy.Composite {
		c, err := r.count(ctx, res, part, begin, name, block)
		res.spans[s.law] = append(res.spans[s.law], watched{span: c, server: 0}, watched{span: c, server: 1})
		return err
	}
	if _, err := r.count(ctx, res, part, begin, name, blockTMO); err != nil {
		return err
	}
	held := s
	part.Held, held.floor = true, res.sizeToHold()
	if err := r.node.apply(ctx, held); err != nil {
		return err
	}
	if _, err := r.count(ctx, res, part, begin, name+", held at "+mb(held.floor), settle+steadyPart); err != nil {
		return err
	}
	return r.node.apply(ctx, s)
}

// sizeToHold is the size at which the servers came to rest in the newest block of composite, their mean: a floor is
// one for both.
func (res *StallResult) sizeToHold() int64 {
	of := map[string]int64{}
	for _, s := range res.Steady {
		if s.Law == policy.Composite {
			of[s.Server] = s.Usage
		}
	}
	var sum int64
	for _, usage := range of {
		sum += usage
	}
	return sum / int64(len(of))
}

// count lets the servers run for so long and describes the last part of it, which it returns, in one row a server in
// the likeness of part. Savings are against begin.
func (r *rig) count(ctx context.Context, res *StallResult, part Steady, begin watch.Sample, what string, long time.Duration) (span, error) {
	c, err := r.phase(ctx, what, long)
	if err != nil {
		return c, err
	}
	if err := r.node.collect(ctx); err != nil {
		return c, err
	}
	c.from = c.to.Add(-steadyPart)
	in := r.rec.Between(c.from, c.to)
	if len(in) < 2 {
		return c, errors.New("demo: the cgroups were not watched")
	}
	first, last := in[0], in[len(in)-1]
	for i, t := range r.twins {
		st := part
		st.Server = t.name
		st.FaultsPerMinute = float64(last.Of[i].MajorFaults-first.Of[i].MajorFaults) / last.At.Sub(first.At).Minutes()
		st.Decisions, _, _ = r.node.decided(t.path, c)
		var usage, saving []float64
		for _, x := range in {
			usage = append(usage, float64(x.Of[i].Usage))
			saving = append(saving, float64(r.rec.Footprint(begin, i)-r.rec.Footprint(x, i))/float64(begin.Of[i].Usage))
		}
		st.Usage, st.Saving = int64(mean(usage)), mean(saving)
		res.Steady = append(res.Steady, st)
	}
	return c, nil
}

// injectStalls reads cold keys of the two servers in turn and notes how the law answers.
func (r *rig) injectStalls(ctx context.Context, res *StallResult, s setting) error {
	r.show.phase(fmt.Sprintf("%d refault stalls under %s", stallCount, s.law), stallCount*stallEvery)
	if err := r.watch(ctx, time.Now().Add(calmAfter)); err != nil {
		return err
	}
	stats := &StallStats{}
	res.Laws[s.law] = stats
	begin := time.Now()
	watch := []watched{{server: 0}, {server: 1}}
	var when []span
	for n := range stallCount {
		i := n % len(r.twins)
		st, at, err := r.injectStall(ctx, i, n/len(r.twins)*stallKeys)
		if err != nil {
			return err
		}
		stats.Stalls = append(stats.Stalls, st)
		when = append(when, at)
		watch[i].stalls = append(watch[i].stalls, at)
		if err := r.watch(ctx, begin.Add(time.Duration(n+1)*stallEvery)); err != nil {
			return err
		}
	}
	if err := r.watch(ctx, time.Now().Add(calmAfter)); err != nil {
		return err
	}
	if err := r.node.collect(ctx); err != nil {
		return err
	}
	var psi []float64
	for n := range stats.Stalls {
		st := &stats.Stalls[n]
		r.answer(st, r.twins[n%len(r.twins)].path, when[n])
		stats.Taken += st.Taken
		if st.Named {
			stats.Named++
		}
		if st.Zero {
			stats.Zero++
		}
		psi = append(psi, float64(st.PSI))
	}
	stats.PSI = summarize(psi)
	for i := range watch {
		watch[i].span = span{begin, time.Now()}
	}
	res.spans[s.law] = append(res.spans[s.law], watch...)
	return nil
}

// injectStall reads stallKeys cold keys of twin i once.
func (r *rig) injectStall(ctx context.Context, i, from int) (Stall, span, error) {
	cost := r.refaultCost(ctx)
	before, err := r.rec.Look()
	if err != nil {
		return Stall{}, span{}, err
	}
	at := span{from: time.Now()}
	if err := r.twins[i].scan(ctx, from, from+stallKeys); err != nil {
		return Stall{}, span{}, err
	}
	at.to = time.Now()
	after, err := r.rec.Look()
	if err != nil {
		return Stall{}, span{}, err
	}
	b, a := before.Of[i], after.Of[i]
	st := Stall{Server: r.twins[i].name, Refaults: a.RefaultAnon - b.RefaultAnon, Seconds: at.to.Sub(at.from).Seconds()}
	spent := time.Duration(st.Refaults) * cost
	st.Share = spent.Seconds() / period.Seconds()
	st.PSI = psiShare(b, a, spent)
	return st, at, nil
}

// answer fills in what the law decided about a cgroup within two periods of a stall.
func (r *rig) answer(st *Stall, cgroup string, at span) {
	r.node.each(cgroup, span{at.from, at.to.Add(answerIn)}, func(d admin.Decision) {
		st.Taken += d.Step
		if d.Step > 0 {
			return
		}
		st.Zero = true
		if d.Reason == string(policy.RefaultCost) {
			st.Named = true
		}
	})
}

// countCalm adds a watched time's calm periods: those that no stall of the same server can explain.
func (r *rig) countCalm(st *StallStats, w watched) {
	r.node.each(r.twins[w.server].path, w.span, func(d admin.Decision) {
		if slices.ContainsFunc(w.stalls, func(s span) bool {
			return !d.Time.Before(s.from) && d.Time.Before(s.to.Add(calmAfter))
		}) {
			return
		}
		st.Calm++
		if d.Step == 0 && slices.Contains([]string{string(policy.RefaultCost), string(policy.MemPressure), string(policy.IOPressure)}, d.Reason) {
			st.Alarms++
		}
	})
}
