package store

import (
	"math/rand/v2"
	"time"
)

// chance draws faults at random.
type chance struct {
	rand *rand.Rand
	p    float64
}

func newChance(seed uint64, p float64) *chance {
	return &chance{rand: rand.New(rand.NewPCG(seed, 0)), p: p}
}

// draw returns a fault for a request, if there is one.
func (d *chance) draw(q request) (blow, bool) {
	if d.rand.Float64() >= d.p {
		return blow{}, false
	}
	faults := possible(q)
	b := blow{fault: faults[d.rand.IntN(len(faults))], turn: d.rand.IntN(2)}
	switch b.fault {
	case DeliverLate:
		b.wait = time.Duration(d.rand.Int64N(int64(longestLate)))
	case Slow:
		b.wait = time.Duration(d.rand.Int64N(int64(longestSlow)))
	}
	return b, true
}
