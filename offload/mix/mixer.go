package mix

import (
	"fmt"

	"github.com/spillway-io/spillway/internal/bytesize"
)

const (
	kernelWeight = 60 // where the kernel stands without being told (vm.swappiness)
	stride       = 5  // points a step, so that one lucky period does not turn the balance over
	// indifferent is how far apart two costs must be to be told apart: refaults come in bursts.
	indifferent = 1.25
	// Steps between two tries to learn the cost of a kind: each pause is twice the last, so that a kind that proves
	// dearer, or that the kernel will not give, is asked for less and less. At 6 s a step the longest is 26 minutes.
	shortPause, longPause = 2, 256
	// hardly is the share of a cgroup's reclaimable memory under which a kind is not worth asking for.
	hardly = 0.02
)

// Mixer chooses for one cgroup.
type Mixer struct {
	p          Params
	anon, file kind
	weight     int
	duty       int  // of the coarse steering: sixtieths of a step by the kernel's choice that are owed
	turn       bool // whose turn it is while neither cost is known
}

// New makes the Mixer of one cgroup. It starts where the kernel would stand.
func New(p Params) *Mixer {
	return &Mixer{
		p: p, weight: kernelWeight,
		anon: kind{name: "anonymous memory", pause: shortPause}, file: kind{name: "file cache", pause: shortPause},
	}
}

// Choose learns from s what the last step cost and says which memory the next one takes. Call it once a period, when a
// step is to be taken.
func (m *Mixer) Choose(s Sample) Choice {
	s = s.sane()
	m.learn(s)
	if c, ok := m.rule(s); ok {
		return c
	}
	if s.Steering == Deaf {
		return Choice{KernelsChoice, Kernel, "this kernel cannot be told which memory to take"}
	}
	if c, ok := m.explore(s); ok {
		return m.coarsen(s, c)
	}
	return m.coarsen(s, m.weigh())
}

// Learn notes a period without a step, in which pages may still have come back.
func (m *Mixer) Learn(s Sample) { m.learn(s.sane()) }

func (m *Mixer) learn(s Sample) {
	m.anon.note(s.TookAnon, s.PoolShare, s.RefaultAnon, s.CostAnon, seedAnon)
	m.file.note(s.TookFile, 0, s.RefaultFile, s.CostFile, seedFile)
}

// rule holds what is not a question of cost, the most lasting reason first.
func (m *Mixer) rule(s Sample) (Choice, bool) {
	swappable := s.Anon + s.Shmem
	files := s.File - s.Shmem
	fileOnly := func(r Reason, format string, a ...any) (Choice, bool) {
		if s.Steering == Deaf && r != NoSwap {
			return Choice{KernelsChoice, Kernel, "file cache only was wanted (" + fmt.Sprintf(format, a...) + "), but this kernel cannot be told"}, true
		}
		return Choice{FileOnly, r, "takes file cache only: " + fmt.Sprintf(format, a...)}, true
	}
	switch {
	case s.NoSwap:
		return fileOnly(NoSwap, "there is no swap for it")
	case m.p.FileOnly:
		return fileOnly(ByConfig, "its class says so")
	case s.SwapFull:
		return fileOnly(SwapFull, "swap is nearly full")
	case s.ShortLived && s.Shmem > 0 && s.Shmem >= swappable/2:
		return fileOnly(ShortShmem, "%v of its %v without a file is shared memory, which in swap would outlive a short-lived cgroup and pin it",
			bytesize.Size(s.Shmem), bytesize.Size(swappable))
	case s.Incompressible && !s.OffPool:
		return fileOnly(Incompressible, "its pages do not shrink in the pool")
	case float64(swappable) < hardly*float64(swappable+files):
		return Choice{KernelsChoice, OneKind, fmt.Sprintf("leaves the balance to the kernel: it has hardly any anonymous memory (%v)", bytesize.Size(swappable))}, true
	case float64(files) < hardly*float64(swappable+files):
		return Choice{KernelsChoice, OneKind, fmt.Sprintf("leaves the balance to the kernel: it has hardly any file cache (%v)", bytesize.Size(files))}, true
	}
	return Choice{}, false
}

// explore asks for a kind whose cost is not known, or not any more.
func (m *Mixer) explore(s Sample) (Choice, bool) {
	m.anon.wait, m.file.wait = max(0, m.anon.wait-1), max(0, m.file.wait-1)
	anon := !m.anon.known() && m.anon.wait == 0
	file := !m.file.known() && m.file.wait == 0
	if anon && file {
		m.turn = !m.turn
		anon, file = !m.turn, m.turn
	}
	switch {
	case file:
		m.file.asked()
		return Choice{FileOnly, Explore, "takes file cache to learn what that costs"}, true
	case anon:
		m.anon.asked()
		return Choice{MaxWeight, Explore, "takes anonymous memory to learn what that costs"}, true
	}
	return Choice{}, false
}

// weigh moves the weight one stride towards the cheaper kind.
func (m *Mixer) weigh() Choice {
	if !m.anon.known() || !m.file.known() {
		// The kernel would not give the other kind, or it was dear and its pause is not over.
		switch {
		case m.anon.known() && m.anon.cheapNow():
			m.weight = min(MaxWeight, m.weight+stride)
		case m.file.known() && m.file.cheapNow():
			m.weight = max(FileOnly, m.weight-stride)
		}
		return Choice{m.weight, Weighed, fmt.Sprintf("weighs %d of 200 towards anonymous memory: the cost of one kind is not known", m.weight)}
	}
	a, f := m.anon.cost(), m.file.cost()
	switch {
	case a > f*indifferent:
		m.weight = max(FileOnly, m.weight-stride)
		m.file.cheaper()
	case f > a*indifferent:
		m.weight = min(MaxWeight, m.weight+stride)
		m.anon.cheaper()
	}
	return Choice{m.weight, Weighed, fmt.Sprintf("weighs %d of 200 towards anonymous memory: a MiB freed has cost %s of it, %s of file cache", m.weight, perMiB(a), perMiB(f))}
}

// coarsen expresses a weight on a kernel that knows only two: file cache alone, and its own choice. Below the kernel's
// own stand, the weight becomes the share of steps that are left to the kernel.
func (m *Mixer) coarsen(s Sample, c Choice) Choice {
	if s.Steering != Coarse || c.Swappiness == FileOnly {
		return c
	}
	if m.duty += min(c.Swappiness, kernelWeight); m.duty >= kernelWeight {
		m.duty -= kernelWeight
		c.Swappiness = KernelsChoice
		c.Detail += "; this step leaves the balance to the kernel, which knows no weights"
		return c
	}
	c.Swappiness = FileOnly
	c.Detail += "; this step takes file cache only, since the kernel knows no weights"
	return c
}

func (s Sample) sane() Sample {
	s.Anon, s.File = max(0, s.Anon), max(0, s.File)
	s.Shmem = min(max(0, s.Shmem), s.File)
	s.TookAnon, s.TookFile = max(0, s.TookAnon), max(0, s.TookFile)
	s.CostAnon, s.CostFile = max(0, s.CostAnon), max(0, s.CostFile)
	if !(s.PoolShare >= 0) { // also NaN
		s.PoolShare = 0
	}
	s.PoolShare = min(s.PoolShare, maxShare)
	return s
}
