package cost

import (
	"math"
	"math/bits"
	"sync"
	"time"
)

// The credit at each level, in time of the budget; see doc.go.
const (
	capSpan   = 12 * time.Hour // the most that accrues
	startSpan = 6 * time.Hour  // of a new process
	fullSpan  = 3 * time.Hour  // full speed from here on; with this much debt the longest interval
)

// Pace has the budget and the intervals of a Limiter.
type Pace struct {
	Budget Money         // of a month; 0: no budget, the interval is always Base
	Flush  Money         // cost of one flush
	Base   time.Duration // the interval at full speed
	Max    time.Duration // the longest interval
}

// Limiter decides how long to wait between two flushes so that the budget lasts. It has
// no clock. It is safe for concurrent use.
type Limiter struct {
	pace Pace

	mu     sync.Mutex
	credit Money     // less than zero: debt
	rest   uint64    // of the last accrual, in nano-dollars·ns, less than a Month
	at     time.Time // of the last accrual
}

// NewLimiter returns a Limiter with the credit of a new process at now.
func NewLimiter(p Pace, now time.Time) *Limiter {
	return &Limiter{pace: p, credit: share(p.Budget, startSpan), at: now}
}

// share returns the part of a month's budget for span.
func share(budget Money, span time.Duration) Money {
	return mulDiv(uint64(budget), uint64(span), uint64(Month))
}

// Spend takes the cost of requests from the credit.
func (l *Limiter) Spend(m Money) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.credit -= min(m, math.MaxInt64+min(l.credit, 0)) // the debt must not overflow
}

// Credit returns the amount that may be spent at once, at now; less than zero is debt.
func (l *Limiter) Credit(now time.Time) Money {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accrueLocked(now)
	return l.credit
}

// Interval returns the least time from the start of one flush to the start of the next,
// at now: between Base and Max.
func (l *Limiter) Interval(now time.Time) time.Duration {
	if l.pace.Budget <= 0 {
		return min(l.pace.Base, l.pace.Max)
	}
	return l.pace.interval(l.Credit(now))
}

// accrueLocked adds the credit for the time since the last call. A time before the last
// call adds none.
func (l *Limiter) accrueLocked(now time.Time) {
	span := now.Sub(l.at)
	if span <= 0 {
		return
	}
	l.at = now
	limit := share(l.pace.Budget, capSpan)
	if span >= 2*Month { // any debt is paid after so long; the product below must not overflow
		l.credit, l.rest = limit, 0
		return
	}
	hi, lo := bits.Mul64(uint64(l.pace.Budget), uint64(span))
	lo, carry := bits.Add64(lo, l.rest, 0)
	q, rest := bits.Div64(hi+carry, lo, uint64(Month))
	l.credit, l.rest = l.credit+Money(q), rest
	if l.credit >= limit {
		l.credit, l.rest = limit, 0
	}
}

// steady returns the interval whose flushes spend the accruing credit, within the bounds.
// The budget must be positive.
func (p *Pace) steady() time.Duration {
	return p.bounded(float64(p.Flush) / float64(p.Budget) * float64(Month))
}

// interval returns the interval for a credit: Base with the credit of fullSpan, the
// steady one with none, Max with as much debt. In between it is geometric, so that each
// hour of credit changes it by the same factor.
func (p *Pace) interval(credit Money) time.Duration {
	level := float64(credit) / float64(max(share(p.Budget, fullSpan), 1))
	end := p.Base
	if level < 0 {
		end = p.Max
	}
	return p.bounded(blend(float64(p.steady()), float64(end), math.Abs(level)))
}

// blend interpolates geometrically from a (part 0) to b (part 1).
func blend(a, b, part float64) float64 {
	if part >= 1 {
		return b
	}
	return math.Exp(math.Log(max(a, 1))*(1-part) + math.Log(max(b, 1))*part)
}

func (p *Pace) bounded(ns float64) time.Duration {
	return time.Duration(min(max(ns, float64(p.Base)), float64(p.Max)))
}
