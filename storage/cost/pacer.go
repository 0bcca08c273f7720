package cost

import (
	"sync"
	"time"
)

// Pacer pays for the requests that a Meter has counted from a Limiter's credit, and gives
// a flusher its interval. It is safe for concurrent use.
type Pacer struct {
	meter   *Meter
	limiter *Limiter

	mu   sync.Mutex
	paid Money
}

// NewPacer returns a Pacer that pays for every request that the meter has counted or will
// count from the meter's budget. Without a budget the interval is always base. flush is
// the cost of one flush. A flush that costs more is paid for as well; the interval then
// takes longer to settle.
func NewPacer(m *Meter, flush Money, base, longest time.Duration) *Pacer {
	pace := Pace{Budget: m.budget, Flush: flush, Base: base, Max: longest}
	return &Pacer{meter: m, limiter: NewLimiter(pace, m.now())}
}

// Interval returns the least time from the start of one flush to the start of the next.
func (p *Pacer) Interval() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	spent := p.meter.Spent()
	p.limiter.Spend(spent - p.paid)
	p.paid = spent
	return p.limiter.Interval(p.meter.now())
}
