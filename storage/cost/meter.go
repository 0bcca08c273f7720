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

// The window is an hour, in slots of a minute.
const (
	slotLength = time.Minute
	slotCount  = 60
)

// LeastSpan is the least time that a projection divides by. The projection of a process
// that has run for less time is too low.
const LeastSpan = 10 * time.Minute

// window has the counts of the last hour: slotCount whole slots, and the present one.
type window struct {
	slots [slotCount + 1]struct {
		number int64 // since the start; the counts of an older slot are invalid
		counts Counts
	}
}

// slot returns the counts of the slot at a time since the start.
func (w *window) slot(since time.Duration) *Counts {
	n := int64(max(since, 0) / slotLength)
	s := &w.slots[n%int64(len(w.slots))]
	if s.number != n {
		s.number, s.counts = n, Counts{}
	}
	return &s.counts
}

// sum returns the counts of the window that ends at a time since the start, and the
// length of that window.
func (w *window) sum(since time.Duration) (Counts, time.Duration) {
	since = max(since, 0)
	last := int64(since / slotLength)
	first := max(last-slotCount, 0)
	var total Counts
	for i := range w.slots {
		if s := &w.slots[i]; first <= s.number && s.number <= last {
			total.plus(&s.counts)
		}
	}
	return total, since - time.Duration(first)*slotLength
}
