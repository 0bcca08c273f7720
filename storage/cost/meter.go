package cost

import (
	"errors"
	"sync"
	"time"

	"osqueue/storage"
	"osqueue/storage/metered"
)

// Meter counts the requests to a bucket and their cost. ObserveStorage is called by a metered
// bucket. It is safe for concurrent use, and observing allocates nothing.
type Meter struct {
	prices Prices
	budget Money
	now    func() time.Time
	start  time.Time

	mu     sync.Mutex
	total  Counts
	minute int64                     // the present one, since the start
	marks  [windowMinutes + 1]Counts // total at the beginning of each of the last minutes
}

// NewMeter returns a Meter that counts from now. The monthly budget is only for the
// report; 0 is no budget. A nil clock is time.Now.
func NewMeter(p Prices, budget Money, now func() time.Time) *Meter {
	if now == nil {
		now = time.Now
	}
	return &Meter{prices: p, budget: budget, now: now, start: now()}
}

// ObserveStorage counts an operation.
func (m *Meter) ObserveStorage(o metered.Observation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turnLocked()
	m.total.add(o)
}

// windowMinutes is the length of the window of a projection.
const windowMinutes = 60

// turnLocked begins the minutes that have come since the last call. It returns the time since the start.
func (m *Meter) turnLocked() time.Duration {
	since := max(m.now().Sub(m.start), 0)
	for last := int64(since / time.Minute); m.minute < last; {
		m.minute = max(m.minute+1, last-windowMinutes)
		m.marks[m.minute%int64(len(m.marks))] = m.total
	}
	return since
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
	since := m.turnLocked()
	first := max(m.minute-windowMinutes, 0)
	recent, span := m.total.minus(&m.marks[first%int64(len(m.marks))]), since-time.Duration(first)*time.Minute
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

// LeastSpan is the least time that a projection divides by. The projection of a process
// that has run for less time is too low.
const LeastSpan = 10 * time.Minute

// Counts has the use of a bucket: requests by operation, and bytes.
type Counts struct {
	Gets     uint64 // Get, GetRange, Stat, SignGet
	Creates  uint64 // PutIfAbsent, PutStream, SignPut
	Replaces uint64 // PutIfMatch
	Lists    uint64 // pages of listings
	Deletes  uint64

	BytesRead    uint64 // or asked for, of a range
	BytesWritten uint64 // offered, whether the store took them or not
}

// ByOp returns the requests by the name of the operation.
func (c Counts) ByOp() map[string]uint64 {
	return map[string]uint64{
		string(storage.OpGet):         c.Gets,
		string(storage.OpPutIfAbsent): c.Creates,
		string(storage.OpPutIfMatch):  c.Replaces,
		string(storage.OpList):        c.Lists,
		string(storage.OpDelete):      c.Deletes,
	}
}

// listPage is the number of objects in one page of a listing of S3 and GCS. Each page is
// one request.
const listPage = 1000

// add counts one operation with any outcome: a store charges for failed conditions, and a
// request without an answer may have arrived. A signed request counts as one that is made once.
func (c *Counts) add(o metered.Observation) {
	if errors.Is(o.Err, errors.ErrUnsupported) {
		return // nothing was sent
	}
	n := uint64(max(o.Bytes, 0))
	switch o.Op {
	case storage.OpGet, storage.OpGetRange, storage.OpStat, storage.OpSignGet:
		c.Gets++
		c.BytesRead += n
	case storage.OpPutIfAbsent, storage.OpPutStream, storage.OpSignPut:
		c.Creates++
		c.BytesWritten += n
	case storage.OpPutIfMatch:
		c.Replaces++
		c.BytesWritten += n
	case storage.OpList:
		c.Lists += 1 + uint64(max(o.Listed-1, 0))/listPage
	case storage.OpDelete:
		c.Deletes++
	}
}

// times returns n times c.
func (c Counts) times(n uint64) Counts {
	return Counts{
		Gets: n * c.Gets, Creates: n * c.Creates, Replaces: n * c.Replaces, Lists: n * c.Lists, Deletes: n * c.Deletes,
		BytesRead: n * c.BytesRead, BytesWritten: n * c.BytesWritten,
	}
}

// requests returns the number of all requests.
func (c Counts) requests() uint64 { return c.Gets + c.Creates + c.Replaces + c.Lists + c.Deletes }

func (c Counts) minus(d *Counts) Counts {
	return Counts{
		Gets: c.Gets - d.Gets, Creates: c.Creates - d.Creates, Replaces: c.Replaces - d.Replaces, Lists: c.Lists - d.Lists,
		Deletes: c.Deletes - d.Deletes, BytesRead: c.BytesRead - d.BytesRead, BytesWritten: c.BytesWritten - d.BytesWritten,
	}
}
