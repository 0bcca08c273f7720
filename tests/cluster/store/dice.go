package store

import (
	"math/rand/v2"
	"time"
)

// dice decide at random what befalls a request.
type dice struct {
	rand *rand.Rand
	p    float64
}

func newDice(seed uint64, p float64) *dice {
	return &dice{rand: rand.New(rand.NewPCG(seed, 0)), p: p}
}

// throw returns what befalls such a request, if something does.
func (d *dice) throw(q request) (blow, bool) {
	if d.rand.Float64() >= d.p {
		return blow{}, false
	}
	faults := possible(q)
	b := blow{fault: faults[d.rand.IntN(len(faults))], turn: d.rand.IntN(2)}
	switch b.fault {
	case LateWrite:
		b.wait = time.Duration(d.rand.Int64N(int64(longestLate)))
	case Slow:
		b.wait = time.Duration(d.rand.Int64N(int64(longestSlow)))
	}
	return b, true
}
