package mix

import (
	"slices"
	"time"
)

// Lives remembers how long the children of a cgroup last, to tell those that come and go from those that stay. Shared
// memory of a short-lived cgroup must not be swapped out: in swap it outlives the cgroup, and then only reading or
// deleting it frees what is left of the cgroup.
type Lives struct {
	broods map[string]*brood
	clock  uint64
}

type brood struct {
	lived [broodSize]time.Duration // of the last children that died
	n     int
	used  uint64
}

const (
	broodSize = 8
	maxBroods = 1024
	churn     = 3                // so many deaths make a habit
	settled   = 10 * time.Minute // younger than this nothing is known to stay; sustained savings begin there, too
	outlived  = 4                // times its siblings' usual life after which a child is the exception
)

// Died notes that a child of parent is gone after so long.
func (l *Lives) Died(parent string, lived time.Duration) {
	if l.broods == nil {
		l.broods = map[string]*brood{}
	}
	b := l.broods[parent]
	if b == nil {
		if len(l.broods) >= maxBroods {
			l.forgetOldest()
		}
		b = &brood{}
		l.broods[parent] = b
	}
	l.clock++
	b.used = l.clock
	b.lived[b.n%broodSize] = max(0, lived)
	b.n++
}

// Short says whether a child of parent that has lasted for age is not expected to stay.
func (l *Lives) Short(parent string, age time.Duration) bool {
	if age < settled {
		return true
	}
	b := l.broods[parent]
	return b != nil && b.n >= churn && age < outlived*b.usual()
}

// usual is the median life.
func (b *brood) usual() time.Duration {
	n := min(b.n, broodSize)
	s := slices.Clone(b.lived[:n])
	slices.Sort(s)
	return s[n/2]
}

func (l *Lives) forgetOldest() {
	var oldest string
	least := ^uint64(0)
	for parent, b := range l.broods {
		if b.used < least {
			oldest, least = parent, b.used
		}
	}
	delete(l.broods, oldest)
}
