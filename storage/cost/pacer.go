package cost

import (
	"sync"
	"time"
)

// Pacer pays what a Meter has counted out of a Governor's credit. It is what a
// flusher asks for its interval; it is safe for concurrent use.
type Pacer struct {
	meter *Meter
	gov   *Governor

	mu   sync.Mutex
	paid Money
}

// NewPacer makes a governor that pays for everything that the meter counts, and what
// it has counted before, out of the meter's budget. With no budget the interval is
// always base. flush is what one flush costs; a flush that costs more is paid for
// all the same, the interval only finds its place later.
func NewPacer(m *Meter, flush Money, base, longest time.Duration) *Pacer {
	pace := Pace{Budget: m.budget, Flush: flush, Base: base, Max: longest}
	return &Pacer{meter: m, gov: NewGovernor(pace, m.now())}
}

// Interval is the least time from the start of one flush to that of the next.
func (p *Pacer) Interval() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	spent := p.meter.Spent()
	p.gov.Spend(spent - p.paid)
	p.paid = spent
	return p.gov.Interval(p.meter.now())
}
