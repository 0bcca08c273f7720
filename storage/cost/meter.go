package cost

import (
	"sync"
	"time"

	"osqueue/storage/metered"
)

// Meter counts the requests to a bucket and their cost. It is the Observer of a metered
// bucket. It is safe for concurrent use, and observing allocates nothing.
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

// NewMeter returns a Meter that counts from now. The monthly budget is only for the
// report; 0 is no budget. A nil clock is time.Now.
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

// Spent returns the cost of all requests since the start.
func (m *Meter) Spent() Money {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prices.Of(m.total)
}

// Report is a cost report: the use and the cost of a bucket at one moment.
type Report struct {
	Since     time.Time // the start of counting
	Counts    Counts
	Cost      Money // so far
	Projected Money // in a month, at the rate of the last hour
	Budget    Money // of a month; 0: none
}

// Report returns the cost report of this moment.
func (m *Meter) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	recent, span := m.recent.sum(m.now().Sub(m.start))
	return Report{
		Since:     m.start,
		Counts:    m.total,
		Cost:      m.prices.Of(m.total),
		Projected: project(m.prices.Of(recent), span),
		Budget:    m.budget,
	}
}

// project returns the cost of a month at the rate of spent in span.
func project(spent Money, span time.Duration) Money {
	return mulDiv(uint64(spent), uint64(Month), uint64(max(span, LeastSpan)))
}
