package policy

// Rester is a law that knows for how long it will take nothing, so that a cgroup too small to be worth a look in every
// period can be left alone meanwhile. A caller that leaves periods out tells the law with Skip, and gives the next
// sample the whole time as its Period.
type Rester interface {
	// Rest is in how many of the coming periods no step is due, ≥ 0, as long as no signal reaches its target and the
	// usage stays at or below most bytes; most is 0 where the usage does not matter.
	Rest() (periods int, most int64)
	// Skip says that n periods passed without a sample, 0 ≤ n ≤ what Rest said.
	Skip(n int)
}

// Rest implements Rester: through a hold, and at the safe size until the next probe. A probe that is being judged is
// watched in every period.
func (l *composite) Rest() (periods int, most int64) {
	k := &l.knee
	switch {
	case k.judging > 0:
		return 0, 0
	case l.hold > 0:
		return l.hold, 0
	case k.size > 0 && !k.awake && k.next > 1 && float64(k.usage) <= float64(k.size)*(1+slack):
		return k.next - 1, int64(float64(k.size) * (1 + slack))
	}
	return 0, 0
}

// Skip implements Rester.
func (l *composite) Skip(n int) {
	if l.hold > 0 {
		l.hold = max(0, l.hold-n)
	} else {
		l.knee.next = max(1, l.knee.next-n)
	}
	for range n {
		f := &l.knee.flow
		f.taken, f.back, f.cost = f.taken*(1-memory), f.back*(1-memory), f.cost*(1-memory)
		l.knee.tick()
	}
}
