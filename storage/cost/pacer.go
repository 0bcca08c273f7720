package cost

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// burstSpan is the credit of a new process, and the most that accrues, in time of the budget.
const burstSpan = 6 * time.Hour

// Pacer pays for the requests that a Meter has counted, and gives a flusher its interval, so that
// the budget lasts. It is safe for concurrent use.
type Pacer struct {
	meter         *Meter
	base, longest time.Duration
	credit        *rate.Limiter // a token is a nano-dollar; fewer than none is a debt

	mu   sync.Mutex
	paid Money
}

// NewPacer returns a Pacer that pays for every request that the meter has counted or will
// count from the meter's budget, which must be positive. Its intervals lie between base and
// longest, which is that of the heartbeat: a budget never delays a heartbeat.
func NewPacer(m *Meter, base, longest time.Duration) *Pacer {
	perSecond := rate.Limit(float64(m.budget) / Month.Seconds())
	burst := mulDiv(uint64(m.budget), uint64(burstSpan), uint64(Month))
	return &Pacer{meter: m, base: base, longest: longest, credit: rate.NewLimiter(perSecond, max(int(burst), 1))}
}

// Interval returns the least time from the start of one flush to the start of the next: base while
// there is credit, and otherwise the time in which the debt is paid.
func (p *Pacer) Interval() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, spent := p.meter.now(), p.meter.Spent()
	for p.paid < spent { // a reservation takes at most a burst
		n := min(spent-p.paid, Money(p.credit.Burst()))
		p.credit.ReserveN(now, int(n))
		p.paid += n
	}
	debt := -p.credit.TokensAt(now) / float64(p.credit.Limit()) // s
	return time.Duration(min(max(debt*float64(time.Second), float64(p.base)), float64(p.longest)))
}
