package cost

import (
	"math"
	"math/bits"
	"sync"
	"time"
)

// How much of the budget is credit at which level; see doc.go.
const (
	capSpan   = 12 * time.Hour // most that accrues
	startSpan = 6 * time.Hour  // of a fresh process
	fullSpan  = 3 * time.Hour  // from here on, full speed; so much in debt, none
)

// Pace says what a Governor has to keep to.
type Pace struct {
	Budget Money         // of a month; 0 is none, and the interval always Base
	Flush  Money         // what one flush costs
	Base   time.Duration // the interval at full speed
	Max    time.Duration // the longest interval
}

// Governor decides how long to wait between two flushes so that the budget lasts.
// It has no clock of its own. Its methods are safe for concurrent use.
type Governor struct {
	pace Pace

	mu     sync.Mutex
	credit Money     // less than zero: debt
	rest   uint64    // of the last accrual, in nano-dollars·ns, less than a Month
	at     time.Time // of the last accrual
}

// NewGovernor starts with some credit at now.
func NewGovernor(p Pace, now time.Time) *Governor {
	return &Governor{pace: p, credit: share(p.Budget, startSpan), at: now}
}

// share is the part of a month's budget that falls to a span.
func share(budget Money, span time.Duration) Money {
	return mulDiv(uint64(budget), uint64(span), uint64(Month))
}

// Spend takes what requests have cost from the credit.
func (g *Governor) Spend(m Money) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.credit -= min(m, math.MaxInt64+min(g.credit, 0)) // a debt that large stays what it is
}

// Credit is what may be spent at once, at now; less than zero is debt.
func (g *Governor) Credit(now time.Time) Money {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.accrueLocked(now)
	return g.credit
}

// Interval is the least time from the start of one flush to that of the next, at
// now: between Base and Max.
func (g *Governor) Interval(now time.Time) time.Duration {
	if g.pace.Budget <= 0 {
		return min(g.pace.Base, g.pace.Max)
	}
	return g.pace.interval(g.Credit(now))
}

// accrueLocked adds the credit for the time since the last call. A time before
// that is none.
func (g *Governor) accrueLocked(now time.Time) {
	span := now.Sub(g.at)
	if span <= 0 {
		return
	}
	g.at = now
	limit := share(g.pace.Budget, capSpan)
	if span >= 2*Month { // what is owed after so long is forgiven; and nothing overflows
		g.credit, g.rest = limit, 0
		return
	}
	hi, lo := bits.Mul64(uint64(g.pace.Budget), uint64(span))
	lo, carry := bits.Add64(lo, g.rest, 0)
	q, rest := bits.Div64(hi+carry, lo, uint64(Month))
	g.credit, g.rest = g.credit+Money(q), rest
	if g.credit >= limit {
		g.credit, g.rest = limit, 0
	}
}

// steady is the interval whose flushes spend what accrues, within the bounds. There
// is a budget.
func (p *Pace) steady() time.Duration {
	return p.bounded(float64(p.Flush) / float64(p.Budget) * float64(Month))
}

// interval is the one for a credit: Base with plenty, the steady one with none, Max
// with as much debt; geometric in between, so that each hour's worth counts the same
// factor.
func (p *Pace) interval(credit Money) time.Duration {
	level := float64(credit) / float64(max(share(p.Budget, fullSpan), 1))
	end := p.Base
	if level < 0 {
		end = p.Max
	}
	return p.bounded(blend(float64(p.steady()), float64(end), math.Abs(level)))
}

// blend goes from a (part 0) to b (part 1), geometrically.
func blend(a, b, part float64) float64 {
	if part >= 1 {
		return b
	}
	return math.Exp(math.Log(max(a, 1))*(1-part) + math.Log(max(b, 1))*part)
}

func (p *Pace) bounded(ns float64) time.Duration {
	return time.Duration(min(max(ns, float64(p.Base)), float64(p.Max)))
}
