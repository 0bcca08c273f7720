package cost

import (
	"sync"
	"time"

	"osqueue/storage/metered"
)

// Meter counts the requests to a bucket and what they cost. It is the Observer of
// a metered bucket; all methods are safe for concurrent use, and observing
// allocates nothing.
type Meter struct {
	prices Prices
	budget Money
	now    func() time.Time
	start  time.Time

	mu     sync.Mutex
	total  Counts
	recent window
}

var _ metered.Observer = (*Meter)(nil)

// NewMeter starts counting. The budget, of a month, is only for the sheet; 0 is
// none. A nil clock is time.Now.
func NewMeter(p Prices, budget Money, now func() time.Time) *Meter {
	if now == nil {
		now = time.Now
	}
	return &Meter{prices: p, budget: budget, now: now, start: now()}
}

// ObserveStorage implements metered.Observer.
func (m *Meter) ObserveStorage(o metered.Observation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.add(o)
	m.recent.slot(m.now().Sub(m.start)).add(o)
}

// Spent is what all requests since the start have cost.
func (m *Meter) Spent() Money {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prices.Of(m.total)
}

// Sheet is the account of a bucket at one moment.
type Sheet struct {
	Since     time.Time // when counting began
	Counts    Counts
	Cost      Money // so far
	Projected Money // in a month, if it goes on like the last hour
	Budget    Money // of a month; 0: none
}

// Sheet is the account of this moment.
func (m *Meter) Sheet() Sheet {
	m.mu.Lock()
	defer m.mu.Unlock()
	recent, span := m.recent.sum(m.now().Sub(m.start))
	return Sheet{
		Since:     m.start,
		Counts:    m.total,
		Cost:      m.prices.Of(m.total),
		Projected: project(m.prices.Of(recent), span),
		Budget:    m.budget,
	}
}

// project is what a month costs at the rate of what was spent in a span.
func project(spent Money, span time.Duration) Money {
	return mulDiv(uint64(spent), uint64(Month), uint64(max(span, LeastSpan)))
}
