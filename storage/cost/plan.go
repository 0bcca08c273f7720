package cost

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Plan has the known costs of a budget before the start.
type Plan struct {
	Budget   Money // of a month; 0: none
	Prices   Prices
	Repeated []Repeated // at the slowest pace of the leader
}

// Repeated describes requests that a leader repeats at a regular interval.
type Repeated struct {
	Name   string        // for example "a heartbeat"
	Every  time.Duration // 0: never
	Counts Counts        // requests each time
	Flag   string        // sets Every; "": none does
}

// Fixed returns the cost of a month at the slowest pace.
func (p *Plan) Fixed() (sum Money) {
	for i := range p.Repeated {
		sum += p.cost(&p.Repeated[i])
	}
	return sum
}

// cost returns the cost of a month of r.
func (p *Plan) cost(r *Repeated) Money { return p.Prices.Of(r.Counts.times(r.perMonth())) }

// perMonth returns how many times per month r happens.
func (r *Repeated) perMonth() uint64 {
	if r.Every <= 0 {
		return 0
	}
	return uint64((Month + r.Every - 1) / r.Every)
}

// Check returns an error if the budget is less than Fixed. The error has the calculation
// and what would help.
func (p *Plan) Check() error {
	fixed := p.Fixed()
	if p.Budget <= 0 || fixed <= p.Budget {
		return nil
	}
	var parts, flags []string
	for i := range p.Repeated {
		r := &p.Repeated[i]
		if c := p.cost(r); c > 0 {
			parts = append(parts, fmt.Sprintf("%s every %s makes %d requests in 30 days, %s",
				r.Name, r.Every.Round(time.Millisecond), r.Counts.times(r.perMonth()).requests(), c))
			if r.Flag != "" {
				flags = append(flags, r.Flag)
			}
		}
	}
	return fmt.Errorf("a bucket budget of %s a month is too small: at the slowest pace the bucket costs %s: %s. Give a budget of at least %s, or a longer %s",
		p.Budget, fixed, strings.Join(parts, "; "), fixed, strings.Join(flags, " or "))
}

// burstSpan is the credit of a new process, and the most that accrues, in time of the budget.
const burstSpan = 6 * time.Hour

// Pacer pays for the requests that a Meter has counted, and gives a flusher its interval, so that
// the budget lasts. It is safe for concurrent use.
type Pacer struct {
	meter   *Meter
	longest time.Duration
	credit  *rate.Limiter // a token is a nano-dollar; fewer than none is a debt

	mu   sync.Mutex
	paid Money
}

// NewPacer returns a Pacer that pays for every request that the meter has counted or will
// count from the meter's budget, which must be positive. No interval is above longest, which is
// that of the heartbeat: a budget never delays a heartbeat.
func NewPacer(m *Meter, longest time.Duration) *Pacer {
	perSecond := rate.Limit(float64(m.budget) / Month.Seconds())
	burst := mulDiv(uint64(m.budget), uint64(burstSpan), uint64(Month))
	return &Pacer{meter: m, longest: longest, credit: rate.NewLimiter(perSecond, max(int(burst), 1))}
}

// Interval returns the least time from the start of one flush to the start of the next: least while
// there is credit, and otherwise at least the time in which the debt is paid.
func (p *Pacer) Interval(least time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, spent := p.meter.now(), p.meter.Spent()
	for p.paid < spent { // a reservation takes at most a burst
		n := min(spent-p.paid, Money(p.credit.Burst()))
		p.credit.ReserveN(now, int(n))
		p.paid += n
	}
	debt := -p.credit.TokensAt(now) / float64(p.credit.Limit()) // s
	return time.Duration(min(max(debt*float64(time.Second), float64(least)), float64(p.longest)))
}
