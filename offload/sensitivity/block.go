package sensitivity

// sums collects one block.
type sums struct {
	periods  int
	p99      []float64 // µs, of the counted periods
	saved    float64
	refaults float64
	taken    int64 // in all of it, the washout included
}

// blockMean is a finished block.
type blockMean struct {
	p99      float64 // µs: the median of its periods, so that one spike is not a block
	saved    float64 // bytes
	refaults float64 // share of time
	taken    int64
}

func (s *sums) add(p Period) {
	s.periods++
	s.taken += max(p.Taken, 0)
	if s.periods <= washout || !p.Known || p.AtLeast {
		return
	}
	s.p99 = append(s.p99, float64(p.P99.Nanoseconds())/1e3)
	s.saved += float64(p.Saved)
	s.refaults += p.Refaults
}

// mean is what the block says; good is false when too few of its periods could be measured.
func (s *sums) mean() (m blockMean, good bool) {
	m.taken = s.taken
	n := len(s.p99)
	if n < enough {
		return m, false
	}
	m.p99, m.saved, m.refaults = median(s.p99), s.saved/float64(n), s.refaults/float64(n)
	return m, m.p99 > 0
}
